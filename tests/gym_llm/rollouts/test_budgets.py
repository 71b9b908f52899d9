"""Budgets of episodes and of runs: what is truncated, what is counted, and what a resumed run plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message, message_item, response, row

import gym_llm
from gym_llm import Run, VerifierEnv, tool
from gym_llm.engines import Engine
from gym_llm.errors import BudgetSpent, UsageError
from gym_llm.rollouts.settings import RolloutSettings

PRICES = {"caller": {"input": 1000.0, "output": 2000.0, "cached_input": 100.0}}


class Calls(VerifierEnv):
    """Has a tool; scores the number of times that it ran."""

    def setup(self, task: Any) -> dict[str, int]:
        return {"runs": 0}

    @tool
    def go(self, state: dict[str, int]) -> str:
        """Go on."""
        state["runs"] += 1
        return "went"

    def verify(self, task: Any, episode: Any) -> float:
        return float(episode.state["runs"])


class Caller(Engine):
    """Calls the tool again and again: 100 tokens in, of which 80 are cached, and 10 out; slowly if it is told so."""

    model = "caller"

    def __init__(self, seconds: float = 0.0, calls: int = 10_000) -> None:
        self.seconds, self.calls = seconds, calls
        self.answers: list[str] = []
        self.cancelled = 0

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.answers.append(episode_id)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        usage["input_tokens_details"] = {"cached_tokens": 80}  # type: ignore[assignment]
        said = function_call("go") if self.answers.count(episode_id) <= self.calls else message_item("done")
        return response(said, usage=usage)


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    gym.register("test/Calls-v0", Calls)
    yield
    gym.registry.pop("test/Calls-v0")


def play(engine: Engine | None = None, count: int = 1, **options: Any) -> list[Any]:
    rows = [row(f"Task {number}") for number in range(count)]
    return gym_llm.collect("test/Calls-v0", engine or Caller(), tasks=rows, progress=False, **options)


@pytest.mark.parametrize(
    ("limit", "turns"),
    [
        ({"max_tokens": 110}, 1),
        ({"max_tokens": 111}, 2),
        ({"max_tokens": 1}, 1),
        ({"max_tokens": 1100}, 10),
        # 20 whole, 80 cached and 10 generated: 0.02 + 0.008 + 0.02 dollars
        ({"max_dollars": 0.048, "prices": PRICES}, 1),
        ({"max_dollars": 0.1, "prices": PRICES}, 3),
    ],
)
def test_an_episode_ends_with_its_budget_and_is_scored(limit: dict[str, Any], turns: int) -> None:
    engine = Caller()
    (record,) = play(engine, **limit)
    name = next(iter(limit))
    assert record["outcome"] == "truncated" and record["error"] is None
    assert record["response"]["incomplete_details"] == {"reason": f"{name}_spent"}
    assert record["reward"] == len(engine.answers) == turns  # the last answer's call has run
    assert record["response"]["usage"] == {
        "input_tokens": 100 * turns,
        "output_tokens": 10 * turns,
        "total_tokens": 110 * turns,
        "input_tokens_details": {"cached_tokens": 80 * turns},
    }


def test_an_episode_that_ends_by_itself_is_not_truncated() -> None:
    (record,) = play(Caller(calls=2), max_tokens=330)
    assert (record["outcome"], record["reward"], record["response"]["status"]) == ("scored", 2.0, "completed")


def test_time_ends_a_request_that_is_under_way() -> None:
    engine = Caller(seconds=0.2)
    (record,) = play(engine, max_seconds=0.5)
    assert record["response"]["incomplete_details"] == {"reason": "max_seconds_spent"}
    assert (record["outcome"], record["reward"], engine.cancelled) == ("truncated", 2.0, 1)
    assert 0.4 < record["timing"]["engine"] < 3.0


def test_each_episode_has_its_own_budget_and_the_summary_counts_them() -> None:
    rows = [row(f"Task {number}") for number in range(6)]
    with Run("test/Calls-v0", Caller(), tasks=rows, output="a.jsonl", max_tokens=330) as run:
        summary = run.play()
    assert (summary.truncated, dict(summary.budgets), summary.mean_reward) == (6, {"max_tokens": 6}, 3.0)
    written = json.loads(Path("a.summary.json").read_text())
    assert written["budgets"] == {"max_tokens": 6} and written["cached_tokens"] == 6 * 3 * 80
    assert written["settings"]["budgets"] == {"max_tokens": 330}
    with pytest.raises(UsageError, match="budgets was"):
        Run("test/Calls-v0", Caller(), tasks=rows, output="a.jsonl", resume=True, max_tokens=331)
    Run("test/Calls-v0", Caller(), tasks=rows, output="a.jsonl", resume=True, max_tokens=330).close()


def test_an_agents_calls_spend_the_episodes_budget() -> None:
    engine = Caller()

    async def agent(episode: Any) -> None:
        while (await episode.respond({"input": message("Go.")}))["status"] != "incomplete":
            pass
        raise RuntimeError("There is no room.")

    (record,) = play(engine, agent=agent, max_tokens=550)
    assert len(engine.answers) == 5
    assert record["outcome"] == "truncated"
    assert record["response"]["incomplete_details"] == {"reason": "max_tokens_spent"}


@pytest.mark.parametrize(
    ("limit", "said", "played"),
    [
        ({"run_max_tokens": 1000}, "run_max_tokens is 1,000", 5),
        ({"run_max_dollars": 0.3, "prices": PRICES}, r"cost \$0.384", 4),
    ],
)
def test_a_run_ends_with_its_budget_and_can_be_resumed(limit: dict[str, Any], said: str, played: int) -> None:
    rows = [row(f"Task {number}") for number in range(8)]
    arguments: dict[str, Any] = {"tasks": rows, "output": "a.jsonl", "concurrency": 1, "max_tokens": 220}
    with Run("test/Calls-v0", Caller(), **arguments, **limit) as run, pytest.raises(BudgetSpent, match=said):
        run.play()
    assert (run.played, run.remaining) == (played, 8 - played)
    assert json.loads(Path("a.summary.json").read_text())["complete"] is False
    engine = Caller()
    with Run("test/Calls-v0", engine, **arguments, **limit, resume=True) as run, pytest.raises(BudgetSpent):
        run.play()
    assert engine.answers == []
    with Run("test/Calls-v0", engine, **arguments, resume=True) as run:
        assert run.play().episodes == 8
    assert len(engine.answers) == 2 * (8 - played)


def test_a_runs_time_drops_what_is_under_way() -> None:
    rows = [row(f"Task {number}") for number in range(3)]
    with Run("test/Calls-v0", Caller(30.0), tasks=rows, output="a.jsonl", run_max_seconds=0.3) as run:
        with pytest.raises(BudgetSpent, match=r"run_max_seconds is 0\.3"):
            run.play()
        assert (run.played, run.remaining) == (0, 3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_seconds": -1.0}, "max_seconds"),
        ({"max_dollars": 1.0}, "needs prices"),
        ({"max_tokens": True}, "max_tokens"),
    ],
)
def test_wrong_budgets_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RolloutSettings(**wrong)


def test_a_model_without_a_price_is_refused_before_it_plays() -> None:
    engine = Caller()
    prices = {"other": {"input": 1.0, "output": 1.0}}
    with pytest.raises(UsageError, match="the price of caller"):
        play(engine, max_dollars=1.0, prices=prices)
    run = Run("test/Calls-v0", engine, tasks=[row()], output="a.jsonl", run_max_dollars=1.0, prices=prices)
    with run, pytest.raises(UsageError, match="the price of caller"):
        run.play()
    assert engine.answers == []
