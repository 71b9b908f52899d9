"""A shop for tests of durable episodes: its tools ask outside, and its engine stops where a test wants it to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from testing import function_call, message_item, response, row

from gym_llm import Run, VerifierEnv, tool
from gym_llm.concurrency.answered_once import answered_once
from gym_llm.engines import Engine
from gym_llm.errors import EngineError, JudgeError, ToolError
from gym_llm.rollouts.durable.run_journals import journals_beside

TURNS = 6
ENV, MARKET = "durable/Shop-v0", "durable/Market-v0"
TIMES = ("timing", "turn_timing", "made_by")


class Counting(Engine):
    """Calls the tools in turn, as long as it may; then every episode waits for an answer that never comes."""

    model = "counting"

    def __init__(
        self,
        stop_at: int = 1000,
        *,
        only: str = "",
        masks: str = "",
        records: int = 0,
        fails: int = 0,
        usage: int = 0,
        down_at: int = -1,
        fails_at_most: int = 1,
    ) -> None:
        self.stop_at, self.only, self.masks, self.records, self.fails = stop_at, only, masks, records, fails
        self.usage = {"input_tokens": usage, "output_tokens": usage, "total_tokens": 2 * usage} if usage else None
        self.down_at, self.fails_at_most = down_at, fails_at_most
        self.asked: list[tuple[str, int]] = []
        self.is_stuck = asyncio.Event()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        if request.get("tool_choice") == "none":  # a summary of a long history
            self.asked.append((episode_id, -1))
            return response(message_item("I have counted."))
        calls = [item["call_id"] for item in request["input"] if item.get("type") == "function_call"]
        turn = int(calls[-1][1:]) + 1 if calls else 0
        if turn >= self.stop_at and episode_id == self.masks:
            raise EngineError("It does not like this one.")
        if turn >= self.stop_at and episode_id.startswith(self.only):
            while self.records and Path("a.jsonl").read_bytes().count(b"\n") < self.records:
                await asyncio.sleep(0.01)
            await stuck(self.is_stuck)
        if turn == self.down_at and self.fails_at_most:
            self.fails_at_most -= 1
            raise EngineError("down", failure_kind="provider_unavailable")
        if self.fails:
            self.fails -= 1
            raise EngineError("on strike", failure_kind="provider_unavailable")
        self.asked.append((episode_id, turn))
        item = function_call(("count", "elsewhere", "refuse")[turn % 3], call_id=f"c{turn}")
        if turn == TURNS:
            item = message_item("done")
        tokens = {"prompt_token_ids": [1] * (2 * turn + 1), "generation_token_ids": [1], "generation_log_probs": [-0.5]}
        return response({**item, **tokens}, usage=self.usage)


async def stuck(event: asyncio.Event) -> None:
    event.set()
    await asyncio.sleep(3600)


class Shop(VerifierEnv):
    """Counts, and asks outside, where every answer is another number."""

    asked: list[str] = []
    drifts = False
    stuck_in_verify: asyncio.Event | None = None

    def setup(self, task: Any) -> dict[str, int]:
        return {"count": 0}

    @tool
    def count(self, state: dict[str, int]) -> int:
        """Count."""
        state["count"] += 1
        return state["count"] + (1000 if self.drifts else 0)

    @tool
    async def elsewhere(self) -> int:
        """Ask outside."""
        self.asked.append("elsewhere")
        return len(self.asked)

    @tool
    async def refuse(self) -> int:
        """Be refused."""
        self.asked.append("refuse")
        raise ToolError(f"No, for the time {len(self.asked)}.")

    async def verify(self, task: Any, episode: Any) -> float:
        async def judge() -> int:
            self.asked.append("verify")
            return len(self.asked)

        said = await answered_once("verdict", episode.state["count"], judge)
        if self.stuck_in_verify is not None:
            await stuck(self.stuck_in_verify)
        return said + episode.state["count"] / 10


class Market(Shop):
    """Compares the shops of a group."""

    stuck_in_group: asyncio.Event | None = None

    async def verify_group(self, task: Any, episodes: list[Any]) -> list[float]:
        rewards = []
        for number, episode in enumerate(episodes):

            async def compare() -> int:
                self.asked.append("compare")
                return len(self.asked)

            rewards.append(100 * await answered_once("comparison", [number, episode.answer], compare))
            if number and self.stuck_in_group is not None:
                await stuck(self.stuck_in_group)
        return rewards


class Forgiving(Shop):
    """Goes on where its judge has failed."""

    judged = 0

    @tool
    async def elsewhere(self, state: dict[str, int]) -> int:
        """Ask a judge that fails at first."""

        async def judge() -> int:
            type(self).judged += 1
            if self.judged == 1:
                raise JudgeError("The judge is on strike.")
            return self.judged

        try:
            return await answered_once("opinion", 0, judge)
        except JudgeError:
            return -1


class Grouped(Shop):
    """Scores groups, with a judge that fails at first."""

    scored = 0

    async def verify_group(self, task: Any, episodes: Any) -> list[float]:
        type(self).scored += 1
        if self.scored == 1:
            raise JudgeError("The judge is on strike.")
        return [0.0 for _ in episodes]


if ENV not in gymnasium.registry:
    for shop_class in (Shop, Market, Forgiving, Grouped):
        gymnasium.register(f"durable/{shop_class.__name__}-v0", entry_point=shop_class)


@pytest.fixture(autouse=True)
def shop(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Shop, "asked", [])


def play(engine: Engine, *, until: asyncio.Event | None = None, tasks: int = 1, **options: Any) -> list[Any]:
    """Play into `a.jsonl`, to the end or until an episode is stuck; return the records without their times."""
    rows = [row(f"Task {number}") for number in range(tasks)]
    options = {"durable": True, "retries": 0, "max_failures": None, "output": "a.jsonl", **options}

    async def drain(run: Run) -> None:
        async for _ in run.records():
            pass

    async def follow(run: Run) -> None:
        playing = asyncio.create_task(drain(run))
        if until is not None:
            await until.wait()
            playing.cancel()
        await asyncio.gather(playing, return_exceptions=until is not None)

    with Run(options.pop("env_id", ENV), engine, tasks=rows, **options) as run:
        asyncio.run(follow(run))
    path = Path(options["output"])
    records = list(map(json.loads, path.read_text().splitlines())) if path.exists() else []
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


def stop(at: int = 4, **options: Any) -> Counting:
    """Play until an episode is stuck at this turn."""
    engine = Counting(at)
    assert play(engine, until=engine.is_stuck, **options) == []
    return engine


def files(output: str = "a.jsonl") -> list[Path]:
    return sorted(journals_beside(Path(output)).glob("*/*/*.log"))
