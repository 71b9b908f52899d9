"""Agents in other seats: a program plays a seat, and ends with the episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gym_llm import collect

AGENT = """
import asyncio, pathlib

async def play(episode):
    here = pathlib.Path(__file__).parent
    try:
        await episode.submit("I say " + episode_move())
        await asyncio.sleep(60)
    finally:
        with (here / "ended").open("a") as file:
            file.write("ended\\n")

def episode_move():
    return "bet"
"""


def test_an_agent_in_another_seat_ends_with_the_episode(tmp_path: Path) -> None:
    (tmp_path / "bettor.py").write_text(AGENT)
    agent = {"engine": "agent", "kwargs": {"agent": f"{tmp_path}/bettor.py:play", "engine": "constant:unused"}}
    options: dict[str, Any] = {"opponents": {"player_1": agent}}
    records = collect("gym_llm/KuhnPoker-v0", "constant:bet", env_kwargs=options, episodes=4)
    assert [abs(record["reward"] or 0.0) for record in records] == [2.0] * 4
    assert all(record["seats"]["player_1"]["info"]["agent"] for record in records)
    assert (tmp_path / "ended").read_text().splitlines() == ["ended"] * 4
