"""What OpenEnv's own package makes of our servers: its clients, its validator, TRL's way of training with it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from peers import in_peer, peer_python
from testing import in_loop

from gym_llm.serve import EnvServer
from gym_llm.serve.openenv.hub_folder import export_openenv

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
    protocols = ["openenv", "mcp"] if mode == "production" else None  # NeMo Gym's has a /reset and a /step, too
    async with (
        EnvServer(ID, port=0, protocols=protocols) as server,
        EnvServer([ID, "gym_llm/FollowUp-v0"], port=0, protocols=protocols) as several,
    ):
        for url in (server.url, f"{several.url}/Weather-v0", f"{several.url}/FollowUp-v0"):
            report = await asyncio.to_thread(validate, "--url", url)
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


def test_an_exported_folder_passes_what_can_be_validated_offline_and_its_client_is_typed(tmp_path: Path):
    folder = tmp_path / "weather_env"
    export_openenv("gym_llm/Weather-v0", folder)
    report = validate(str(folder), "--level", "static", "--skip-build")
    assert report.returncode == 0 and "Verdict: PASS" in report.stdout, report.stdout + report.stderr
    checks = "import sys, pathlib; from openenv.cli._validation import validate_multi_mode_deployment as check; "
    check = f"{checks}print(check(pathlib.Path(sys.argv[1]))[1])"
    issues = subprocess.run(
        [str(peer_python("openenv")), "-c", check, str(folder)], capture_output=True, text=True, check=True
    )
    assert issues.stdout.strip() == "[\"Missing uv.lock - run 'uv lock' to generate it\"]"  # which needs an index


@in_loop
async def test_its_client_plays_a_server(tmp_path: Path):
    export_openenv("gym_llm/Weather-v0", tmp_path / "weather_env")
    async with EnvServer(ID, port=0, token="only-with-this") as server:
        script = (
            "import sys; sys.path.insert(0, sys.argv[2]); from weather_env import ResponsesAction, WeatherEnv\n"
            "with WeatherEnv(base_url=sys.argv[1], token='only-with-this').sync() as env:\n"
            "    begun = env.reset(task_index=0)\n"
            "    assert begun.observation.request['input'], begun\n"
            "    assert env.step({'type': 'list_tools'}).observation.tools[0]['name'] == 'get_weather'\n"
            "    ended = env.step(ResponsesAction(output='Mild.'))\n"
            "    print(ended.done, ended.observation.done, env.state().outcome, env.state().session_id is not None)\n"
        )
        command = [str(peer_python("openenv")), "-c", script, server.url, str(tmp_path)]
        run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert run.stdout.split() == ["True", "True", "scored", "True"], run.stderr
