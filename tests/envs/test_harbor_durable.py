"""Durable episodes of Harbor: their machines are restored from the last snapshot, or by running commands again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from harbor_tasks import cache
from testing import function_call, message_item, response

from gym_llm import Run
from gym_llm.engines import Engine

__all__ = ["cache"]
COMMANDS = ["date +%N | tee /app/stamp", "cp /app/stamp /app/first; echo again >> /app/log", "cat /app/stamp /app/log"]


class Commands(Engine):
    """Runs the commands in turn; it is stuck before the last ones."""

    model = "commands"

    def __init__(self, stop_at: int = 9) -> None:
        self.stop_at, self.asked = stop_at, 0
        self.is_stuck = asyncio.Event()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        turn = sum(item.get("type") == "function_call" for item in request["input"])
        if turn == self.stop_at:
            self.is_stuck.set()
            await asyncio.sleep(3600)
        self.asked += 1
        done = turn == len(COMMANDS)
        return response(message_item("Done.") if done else function_call("shell", {"command": COMMANDS[turn]}))


def play(engine: Commands, cache: str, folder: Path, **more: Any) -> list[dict[str, Any]]:
    """Play one task to its end, or until the engine is stuck."""
    kwargs = {"cache": cache, **({"snapshots": str(folder / "snapshots")} if more.pop("snapshots") else {})}
    output = folder / "run.jsonl"

    async def follow(run: Run) -> None:
        async def drain() -> None:
            async for _ in run.records():
                pass

        playing = asyncio.create_task(drain())
        stuck = asyncio.create_task(engine.is_stuck.wait())
        await asyncio.wait({playing, stuck}, return_when=asyncio.FIRST_COMPLETED)
        stuck.cancel()
        if not playing.done():
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)

    rows = [{"task": "fix-script"}]
    with Run("gym_llm/Harbor-v0", engine, tasks=rows, env_kwargs=kwargs, output=output, durable=True, **more) as run:
        asyncio.run(follow(run))
    return [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_a_machine_is_restored(cache: str, tmp_path: Path, stop_at: int, snapshots: bool) -> None:
    first, second = Commands(stop_at), Commands()
    assert play(first, cache, tmp_path, snapshots=snapshots) == []
    (record,) = play(second, cache, tmp_path, snapshots=snapshots, resume=True)
    assert first.asked + second.asked == len(COMMANDS) + 1
    printed = [item["output"] for item in record["response"]["output"] if item["type"] == "function_call_output"]
    stamp, log = printed[-1].split()[:2]
    assert stamp.isdigit() and log == "again" and "again\nagain" not in printed[-1]
    runs_again = not snapshots and stop_at < len(COMMANDS)
    assert (stamp == printed[0].split()[0]) == (not runs_again)
    assert record["error"] is None and record["reward"] == 0.0
    if snapshots:
        assert all(Path(path).is_file() for path in record["info"]["snapshots"])
        assert len(record["info"]["snapshots"]) == len(COMMANDS)
