"""Durable episodes that failed: what a retry asks again, and what it does not."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from durable_shop import ENV, MARKET, TURNS, Counting, Forgiving, Grouped, Market, Shop, play, shop
from testing import row

from gym_llm import Run
from gym_llm.concurrency.answered_once import answered_once
from gym_llm.errors import JudgeError
from gym_llm.rollouts.durable import journal as journals
from gym_llm.rollouts.durable.run_journals import journals_beside

__all__ = ["shop"]


def test_a_masked_episode_that_is_tried_again_begins_at_its_first_turn():
    first = Counting(2, masks="0-0", records=1)
    (masked,) = play(first, until=first.is_stuck, tasks=2)
    assert masked["reward"] is None
    second = Counting()
    records = play(second, tasks=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    asked = [turn for name, turn in second.asked if name == "0-0"]
    assert asked == list(range(TURNS + 1))
    assert [turn for name, turn in second.asked if name == "1-0"] == list(range(2, TURNS + 1))


def test_a_groups_comparison_is_not_asked_for_twice(monkeypatch):
    options: dict[str, Any] = {"env_id": MARKET, "repeats": 3, "concurrency": 1}
    expected = play(Counting(), durable=False, output="whole.jsonl", **options)
    asked = list(Shop.asked)
    Shop.asked.clear()
    event = asyncio.Event()
    monkeypatch.setattr(Market, "stuck_in_group", event)
    first, second = Counting(), Counting()
    assert play(first, until=event, **options) == []
    assert Shop.asked.count("compare") == 2
    monkeypatch.setattr(Market, "stuck_in_group", None)
    assert play(second, resume=True, **options) == expected
    assert Shop.asked == asked and second.asked == []
    assert not journals_beside(Path("a.jsonl")).exists()


@pytest.mark.parametrize("turn", [1, 3, TURNS])
def test_an_episode_goes_on_after_its_engine_was_down(turn):
    expected = play(Counting(), durable=False, output="whole.jsonl")
    Shop.asked.clear()
    engine = Counting(down_at=turn)
    (record,) = play(engine, retries=1)
    assert record.pop("attempts") == 2 and [record] == expected
    assert engine.asked == [("0-0", number) for number in range(TURNS + 1)]


def test_an_episode_that_the_engine_masked_is_tried_again_where_it_was():
    first, second, third = Counting(down_at=4, fails_at_most=9), Counting(down_at=5), Counting()
    assert [record["failure_kind"] for record in play(first, tasks=2)] == ["provider_unavailable"] * 2
    assert play(Counting(), tasks=2, resume=True)[0]["reward"] is None  # not asked for
    play(second, tasks=2, resume=True, retry_failed=True)
    records = play(third, tasks=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    asked = first.asked + second.asked + third.asked
    assert sorted(asked) == sorted((f"{task}-0", turn) for task in range(2) for turn in range(TURNS + 1))
    assert not journals_beside(Path("a.jsonl")).exists()


def test_a_masked_episode_can_go_on_after_a_run_that_left_it_out():
    first = Counting(5, only="1-0", records=1, down_at=4)
    play(first, until=first.is_stuck, tasks=2)
    second, third = Counting(0), Counting()
    second.is_stuck.set()
    tasks = [row(f"Task {number}") for number in range(2)]
    with Run(ENV, second, tasks=tasks, output="a.jsonl", resume=True) as run:
        assert run.restored == 1
    play(Counting(), tasks=2, resume=True)
    records = play(third, tasks=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    assert third.asked == [("0-0", turn) for turn in range(4, TURNS + 1)]


def test_attempts_are_counted_again_after_the_last_one_has_failed():
    play(Counting(down_at=2, fails_at_most=2), retries=1)
    second = Counting(4, down_at=3)
    play(second, until=second.is_stuck, retries=1, resume=True, retry_failed=True)
    (record,) = play(Counting(), retries=1, resume=True)
    assert record["attempts"] == 2


def test_a_judge_that_failed_is_asked_again(monkeypatch):
    expected = play(Counting(), durable=False, output="whole.jsonl")
    failing, verify = [True], Shop.verify

    async def judged(self, task, episode):
        async def judge() -> int:
            if failing:
                failing.pop()
                raise JudgeError("The judge is on strike.")
            return 1

        await answered_once("first verdict", 0, judge)
        return await verify(self, task, episode)

    monkeypatch.setattr(Shop, "verify", judged)
    Shop.asked.clear()
    engine = Counting()
    (record,) = play(engine, retries=1)
    assert record["reward"] == expected[0]["reward"] and record["attempts"] == 2 and not failing
    assert engine.asked == [("0-0", number) for number in range(TURNS + 1)]


def test_a_failure_that_a_tool_has_caught_stays_an_answer(monkeypatch):
    monkeypatch.setattr(Forgiving, "judged", 0)
    engine = Counting(down_at=5)
    (record,) = play(engine, env_id="durable/Forgiving-v0", retries=1)
    assert engine.asked == [("0-0", number) for number in range(TURNS + 1)]
    assert record["attempts"] == 2 and Forgiving.judged == 2


def test_a_group_whose_judge_failed_is_scored_without_being_sampled_again(monkeypatch):
    monkeypatch.setattr(Grouped, "scored", 0)
    first, second = Counting(), Counting()
    masked = play(first, env_id="durable/Grouped-v0", repeats=2)
    assert [record["failure_kind"] for record in masked] == ["judge_failed"] * 2
    records = play(second, env_id="durable/Grouped-v0", repeats=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    assert len(first.asked) == 2 * (TURNS + 1) and second.asked == []


def test_turns_are_written_once_however_often_the_engine_is_down(monkeypatch):
    written, lines = journals.write_all, list[bytes]()

    def write(file: int, data: bytes) -> None:
        lines.extend(data.splitlines())
        written(file, data)

    monkeypatch.setattr(journals, "write_all", write)
    (masked,) = play(Counting(down_at=5, fails_at_most=2), retries=1)
    assert masked["attempts"] == 2
    assert sum(b" sampled " in line for line in lines) == 5
    second = Counting()
    play(second, resume=True, retry_failed=True)
    assert second.asked == [("0-0", 5), ("0-0", 6)]


def test_a_journal_that_was_removed_does_not_end_the_run(monkeypatch):
    def setup(self: Any, task: Any) -> dict[str, int]:
        shutil.rmtree(journals_beside(Path("a.jsonl")), ignore_errors=True)
        return {"count": 0}

    monkeypatch.setattr(Shop, "setup", setup)
    records = play(Counting(down_at=3, fails_at_most=2), tasks=3, concurrency=1, retries=2)
    assert [record["reward"] is None for record in records] == [False] * 3


def test_the_attempt_is_remembered():
    first = Counting(2, fails=1)
    assert play(first, until=first.is_stuck, retries=1) == []
    second = Counting()
    (record,) = play(second, resume=True, retries=1)
    assert record["attempts"] == 2 and second.asked[0] == ("0-0", 2)
