"""What OpenEnv's own package makes of our servers: its clients, its validator, TRL's way of training with it."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest
from peers import in_peer, peer_python
from testing import in_loop

from gym_llm.serve import EnvServer

pytestmark = pytest.mark.slow
ID = "gym_llm/Weather-v0"


@in_loop
async def test_its_clients_play_tool_episodes_and_single_turns():
    async with EnvServer(ID, port=0, token="only-with-this") as server:
        seen = await asyncio.to_thread(in_peer, "openenv", "openenv_clients.py", server.url, "only-with-this")
        assert "401" in seen["unwelcome"]
        assert (seen["tool_reward"], seen["tasks"]) == (1.0, 5)
        async with asyncio.timeout(5):
            while len(server.sessions):  # its clients take leave
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", ["simulation", "production"])
@in_loop
async def test_openenv_validate_passes(mode: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENENV_MODE", mode)
    async with EnvServer(ID, port=0) as server:
        report = await asyncio.to_thread(validate, "--url", server.url)
        assert report.returncode == 0, report.stdout + report.stderr
        assert f"mode: {mode}" in report.stdout and "Verdict: PASS" in report.stdout


@in_loop
async def test_trl_trains_a_step_with_its_client_inside_an_environment():
    async with EnvServer(ID, port=0) as server:
        seen: dict[str, Any] = await asyncio.to_thread(in_peer, "openenv", "openenv_trl.py", server.url)
        assert seen["step"] == 1 and len(seen["rewards"]) == 8
        assert sum(seen["calls"]) >= 4, "the pocket model knows how to call the tool"
        assert sum(seen["rewards"]) >= 4
        assert seen["mean"] == pytest.approx(sum(seen["rewards"]) / 8)


def validate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`openenv validate`."""
    command = [str(peer_python("openenv")), "-m", "openenv.cli", "validate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
