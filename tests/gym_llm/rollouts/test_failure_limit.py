"""Runs that end because too much is masked, and episodes that are played again because that may pass."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from testing import message, response, row

import gym_llm
from gym_llm import Run
from gym_llm.engines import Engine
from gym_llm.errors import EngineError, TooManyFailures
from gym_llm.rollouts import episode_worker as worker
from gym_llm.rollouts.failure_limit import FailureLimit

ID = "gym_llm/FollowUp-v0"


def tasks(count: int) -> list[Any]:
    return [row(expected_answer="4") for _ in range(count)]


class Failing(Engine):
    """Fails in every so many-th episode, or so many times in each."""

    model = "failing"

    def __init__(self, every: int, kind: Any = "agent_request_failed", times: int = 10**9) -> None:
        self.every = every
        self.kind = kind
        self.times = times
        self.asked: Counter[str] = Counter()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.asked[episode_id] += 1
        if int(episode_id.split("-")[0]) % self.every == 0 and self.asked[episode_id] <= self.times:
            raise EngineError("not now", failure_kind=self.kind)
        return response(*message("4"))


@pytest.mark.parametrize(
    "limit, masked, scored, ends",
    [
        (None, 500, 0, False),
        ("10%", 20, 0, False),
        ("10%", 21, 0, True),
        ("10%", 30, 300, False),
        ("10%", 34, 300, True),
        (0, 1, 0, True),
        (5, 5, 0, False),
        ("5", 6, 1000, True),
        ("0%", 21, 1000, True),
    ],
)
def test_a_run_ends_when_more_are_masked_than_may_be(limit: Any, masked: int, scored: int, ends: bool) -> None:
    failures = FailureLimit(limit)
    records: list[Any] = [{"reward": 1.0, "error": None}] * scored + [{"reward": None, "error": "down"}] * masked
    if not ends:
        for record in records:
            failures.count(record)
        return
    for record in records[:-1]:
        failures.count(record)
    with pytest.raises(TooManyFailures, match=f"{masked} of {masked + scored} episodes are masked.*the first.*: down"):
        failures.count(records[-1])


@pytest.mark.parametrize("limit", [-1, "x", "110%", "-3%", 1.5, True, "", "nan%"])
def test_limits_that_make_no_sense_are_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_failures is"):
        FailureLimit(limit)


def test_a_run_that_ends_so_keeps_its_records_and_is_gone_on_with(tmp_path: Path) -> None:
    output = tmp_path / "a.jsonl"
    with Run(ID, Failing(2), tasks=tasks(100), output=output, concurrency=4) as run:
        with pytest.raises(TooManyFailures, match="21 of"):
            run.play()
        assert run.summary.failures == 21 and 38 <= run.summary.episodes <= 48
    with Run(ID, Failing(1000), tasks=tasks(100), output=output, resume=True, retry_failed=True) as run:
        summary = run.play()
    assert (summary.episodes, summary.failures) == (100, 1) and summary.mean_reward == 1.0


@pytest.mark.parametrize(
    "kind, attempts", [("provider_unavailable", 3), ("kill_shaped", 3), ("agent_request_failed", 1)]
)
def test_what_may_pass_is_played_again_and_what_will_not_is_not(
    kind: Any, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_LONGEST_PAUSE", 0.0)
    engine = Failing(3, kind)
    with pytest.warns(UserWarning, match="1 of 3 episodes is masked"):
        records = gym_llm.collect(ID, engine, tasks=tasks(3), retries=2)
    assert engine.asked == {"0-0": attempts, "1-0": 1, "2-0": 1}
    assert records[0].get("attempts") == (attempts if attempts > 1 else None) and "attempts" not in records[1]


def test_an_episode_that_works_at_its_second_try_is_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_LONGEST_PAUSE", 0.0)
    records = gym_llm.collect(ID, Failing(1, "transport_peer_drop", times=1), tasks=tasks(4))
    assert [(record["reward"], record["outcome"], record["attempts"]) for record in records] == [(1.0, "scored", 2)] * 4


def test_that_every_episode_is_masked_is_an_error_with_the_first_reason() -> None:
    with pytest.raises(TooManyFailures, match="3 of 3 episodes are masked, the first one so: not now"):
        gym_llm.collect(ID, Failing(1), tasks=tasks(3))
