"""The programs that try to get out of the sandbox, played by an agent inside of its machine: a few, at night all."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from agent_playing import Says
from machine_escapes import ATTEMPTS, OWN, SAMPLE, attempts, check, program_of
from testing import row

import gym_llm
from gym_llm.agents import Program

RUN = "import sys; exec(compile(sys.stdin.read(), 'attempt', 'exec'))"


def play(names: list[str], host: Path) -> dict[str, Any]:
    """The records of attempts, each by an agent in a machine of its own."""
    tasks = [row(program_of(name, host)) for name in names]

    async def collected() -> dict[str, Any]:
        records = gym_llm.rollout(
            "agent_tests/Two-v0",
            Says(),
            tasks=tasks,
            agent=Program((sys.executable, "-S", "-c", RUN), "/"),
            agent_in="machine",
            agent_timeout=60,
            concurrency=3,
            retries=0,
        )
        async with aclosing(records):
            return {names[record["rollout_id"]["task_index"]]: record async for record in records}

    return asyncio.run(collected())


@pytest.mark.slow
@pytest.mark.parametrize("names", [SAMPLE, pytest.param([*ATTEMPTS], marks=pytest.mark.nightly)], ids=["few", "all"])
def test_no_agent_gets_out_of_its_machine(names: list[str], tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.write_text("unchanged")
    records = play([*names], host)
    said = {name: record["info"].get("answer") or record["error"] or "" for name, record in records.items()}
    if any("bubblewrap is not installed" in text for text in said.values()):
        pytest.skip("bubblewrap is not installed")
    check(said)
    assert host.read_text() == "unchanged"


def test_sixty_are_tried() -> None:
    assert len(ATTEMPTS) >= 60 and len(SAMPLE) == 8 and {*OWN} <= {*attempts["CALLS"], *attempts["PROGRAMS"]}
