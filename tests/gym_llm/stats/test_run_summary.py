from __future__ import annotations

import itertools
import json
import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_llm.records.record import read_record
from gym_llm.stats.pass_at_k import pass_at_k
from gym_llm.stats.run_summary import Summary


def record(task: int, repeat: int, reward: float | None, **fields):
    return {
        "rollout_id": {"task_index": task, "repeat_index": repeat},
        "reward": reward,
        "error": None,
        "truncated": False,
        "info": {"turn": 2, "tool_errors": 1},
        "response": {"usage": {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}},
        **fields,
    }


def masked(task: int, kind: str = "provider_unavailable", **fields: Any) -> Any:
    return record(task, 0, None, outcome="masked", failure_kind=kind, **fields)


def summary_of(rewards: dict[int, list[float | None]], repeats: int = 1) -> Summary:
    summary = Summary(repeats=repeats)
    for task, values in rewards.items():
        for repeat, reward in enumerate(values):
            summary.add(read_record(record(task, repeat, reward)))
    return summary


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_choices_with_a_right_answer(numbers):
    samples, solved, k = numbers
    answers = [True] * solved + [False] * (samples - solved)
    choices = list(itertools.combinations(answers, k))
    assert pass_at_k(samples, solved, k) == pytest.approx(sum(map(any, choices)) / len(choices))


@pytest.mark.parametrize(("samples", "solved", "k"), [(2, 1, 3), (2, 3, 1), (2, 1, 0), (2, -1, 1)])
def test_pass_at_k_refuses_numbers_that_do_not_fit(samples, solved, k):
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(samples, solved, k)


def test_pass_at_goes_in_powers_of_two_to_the_repeats_and_averages_over_tasks():
    summary = summary_of({0: [1, 0, 0, 0, 0, 0], 1: [1, 1, 1, 0, 0, 0]}, repeats=6)
    pass_at = summary.pass_at()
    assert list(pass_at) == [1, 2, 4, 6]
    assert pass_at[1] == pytest.approx((1 / 6 + 3 / 6) / 2)
    assert pass_at[2] == pytest.approx((pass_at_k(6, 1, 2) + pass_at_k(6, 3, 2)) / 2)
    assert pass_at[6] == 1.0


def test_an_interrupted_run_has_pass_at_k_of_the_tasks_that_got_so_far():
    summary = summary_of({0: [0, 1], 1: [0]}, repeats=4)
    assert summary.pass_at() == {1: 0.25, 2: 1.0}


def test_only_a_full_reward_counts_as_solved():
    summary = summary_of({0: [0.99], 1: [1.0], 2: [2.0]})
    assert summary.pass_at() == {1: pytest.approx(2 / 3)}


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30))
def test_standard_error_of_single_plays_is_the_textbook_one(rewards):
    summary = summary_of({task: [reward] for task, reward in enumerate(rewards)})
    expected = statistics.stdev(rewards) / math.sqrt(len(rewards))
    assert summary.mean_reward == pytest.approx(statistics.fmean(rewards), abs=1e-9)
    assert summary.standard_error == pytest.approx(expected, abs=1e-9)


def test_repeats_that_always_agree_do_not_shrink_the_standard_error():
    once = summary_of({task: [task % 2] for task in range(10)})
    often = summary_of({task: [task % 2] * 16 for task in range(10)}, repeats=16)
    assert often.standard_error == pytest.approx(once.standard_error)


def test_one_task_played_often_has_the_standard_error_of_its_plays():
    assert summary_of({0: [0, 1, 1, 0]}).standard_error == pytest.approx(statistics.stdev([0, 1, 1, 0]) / 2)


def test_the_numbers_add_up():
    summary = summary_of({0: [1.0], 1: [0.0]})
    summary.add(masked(2, error="HTTP 500", response={"usage": None}))
    summary.add(masked(3, "verifier_error", error="another", truncated=True, info={"task_index": 3}))
    numbers = summary.as_dict()
    assert numbers == {
        "episodes": 4,
        "tasks": 4,
        "scored": 2,
        "coverage": 0.5,
        "mean_reward": 0.5,
        "standard_error": 0.5,
        "pass_threshold": 1.0,
        "pass_at": {"1": 0.5},
        "turns_per_episode": 1.5,
        "input_tokens": 30,
        "output_tokens": 9,
        "tool_errors": 3,
        "truncated": 0,
        "failures": 2,
        "failure_kinds": {"provider_unavailable": 1, "verifier_error": 1},
    }
    assert summary.first_error == "HTTP 500"


def test_an_episode_that_could_not_begin_counts_as_a_failure():
    failed = masked(0, error="RuntimeError: no sandbox", info={"task_index": 0})
    del failed["response"]
    summary = Summary()
    summary.add(failed)
    assert (summary.failures, summary.turns, summary.input_tokens) == (1, 0, 0)


@pytest.mark.parametrize("reward", [math.nan, None])
def test_a_reward_that_is_no_number_is_in_no_mean(reward):
    summary = summary_of({0: [1.0], 1: [reward], 2: [0.0]})
    assert (summary.mean_reward, summary.coverage, summary.failures) == (0.5, pytest.approx(2 / 3), 1)
    json.dumps(summary.as_dict(), allow_nan=False)


@given(st.lists(st.lists(st.floats(-3, 3) | st.none(), min_size=1, max_size=6), min_size=1, max_size=8))
def test_masked_episodes_change_no_number_of_the_others(rewards):
    with_masks = summary_of(dict(enumerate(rewards)), repeats=6).as_dict()
    without = summary_of(
        {task: [one for one in values if one is not None] for task, values in enumerate(rewards)}, repeats=6
    ).as_dict()
    for name in ("scored", "mean_reward", "standard_error", "pass_at", "truncated"):
        assert with_masks[name] == without[name]


def test_what_counts_as_solved_can_be_said():
    summary = Summary(pass_threshold=0.5)
    for task, reward in enumerate([0.4, 0.5, 1.0]):
        summary.add(record(task, 0, reward))
    assert summary.pass_at() == {1: pytest.approx(2 / 3)}


def test_nothing_gives_no_numbers():
    numbers = Summary().as_dict()
    assert numbers["episodes"] == 0
    assert numbers["mean_reward"] is numbers["standard_error"] is numbers["turns_per_episode"] is None
    assert numbers["pass_at"] == {}


@pytest.mark.parametrize("rewards", [[1e200, -1e200], [1.7e308, 1.7e308], [1.7e308, -1.7e308, 1.7e308, 1.7e308]])
@pytest.mark.parametrize("tasks", [1, 4])
def test_rewards_too_large_to_be_squared_end_no_run(rewards: list[float], tasks: int) -> None:
    summary = Summary()
    for number, reward in enumerate(rewards):
        summary.add(record(number % tasks, number, reward))
    json.dumps(summary.as_dict(), allow_nan=False)
