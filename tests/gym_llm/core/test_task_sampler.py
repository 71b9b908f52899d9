"""TaskSampler: tasks drawn by the expected variance of their rewards."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from gym_llm import TaskSampler

KEYS = [f"task {number}" for number in range(50)]


def play(sampler: TaskSampler, draws: int) -> Counter[int]:
    """Draw; task n succeeds with a chance of n / 49."""
    counts: Counter[int] = Counter()
    for number in range(draws):
        task, odds = sampler.draw()
        assert odds == pytest.approx(sampler.probability(task))
        counts[task] += 1
        sampler.update(task, float((number * 0.618) % 1 < task / 49))
    return counts


def test_draws_have_the_probabilities_that_they_say() -> None:
    sampler = TaskSampler(seed=1)
    sampler.begin(KEYS)
    play(sampler, 5_000)
    assert sum(map(sampler.probability, range(50))) == pytest.approx(1.0)
    counts = Counter(sampler.draw().task_index for _ in range(50_000))
    for task in range(50):
        expected = 50_000 * sampler.probability(task)
        assert abs(counts[task] - expected) < 6 * expected**0.5


def test_tasks_of_medium_difficulty_are_drawn_most_often_and_none_never() -> None:
    sampler = TaskSampler(seed=2)
    sampler.begin(KEYS)
    play(sampler, 20_000)
    counts = Counter(sampler.draw().task_index for _ in range(20_000))
    assert sum(counts[task] for task in range(15, 35)) > 2 * sum(counts[task] for task in (*range(10), *range(40, 50)))
    assert len(counts) == 50


def test_a_state_goes_on_exactly_where_it_was() -> None:
    one = TaskSampler(seed=3)
    one.begin(KEYS)
    play(one, 500)
    state = json.loads(json.dumps(one.state_dict()))
    other = TaskSampler(seed=99)
    other.load_state_dict(state)
    other.begin(KEYS)
    assert [other.draw() for _ in range(3)] == pytest.approx([one.draw() for _ in range(3)])
    assert play(other, 300) == play(one, 300)


def test_what_is_known_of_a_task_stays_when_tasks_come_and_go() -> None:
    sampler = TaskSampler(share=0.01)
    sampler.begin(["a", "b"])
    for _ in range(300):
        sampler.update(0, 1.0)
    sampler.begin(["c", "b"])
    assert sampler.probability(0) == pytest.approx(0.5)
    sampler.begin(["b", "c", "a"])
    assert sampler.probability(2) < 0.1 < sampler.probability(0)


def test_a_curriculum_multiplies_weights_and_masked_episodes_change_nothing() -> None:
    level = 1
    sampler = TaskSampler(by="uniform", prior=(1.0, 1.0), weight=lambda index: float(index < level))
    sampler.begin(KEYS)
    assert {sampler.draw().task_index for _ in range(100)} == {0}
    level = 3
    sampler.reweight()
    assert {sampler.draw().task_index for _ in range(200)} == {0, 1, 2}
    before = sampler.state_dict()["tasks"]
    sampler.update(0, None)
    assert sampler.state_dict()["tasks"] == before
    sampler.update(0, 1e9)
    assert sampler.state_dict()["tasks"]["task 0"] == [2.0, 1.0]


@pytest.mark.parametrize(
    "options", [{"by": "luck"}, {"share": 0.0}, {"share": 2}, {"discount": 0}, {"prior": (0.0, 1.0)}]
)
def test_invalid_arguments_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=r"by is|share and discount"):
        TaskSampler(**options)


def test_invalid_tasks_weights_and_states_are_refused() -> None:
    with pytest.raises(ValueError, match="no tasks"):
        TaskSampler().begin([])
    for weight in (-1.0, float("nan"), 0.0):
        with pytest.raises(ValueError, match="weight returns"):
            TaskSampler(weight=lambda _, weight=weight: weight).begin(KEYS)  # type: ignore[misc]
    for state in ({}, {"version": 9, "tasks": {}, "random": {}}, {"version": 1, "tasks": {"a": 1}, "random": {}}):
        with pytest.raises(ValueError, match="not the state of a TaskSampler"):
            TaskSampler().load_state_dict(state)


def test_a_state_is_loaded_at_any_time_and_goes_on_exactly() -> None:
    one = TaskSampler(share=0.01, seed=3)
    one.begin(KEYS)
    for _ in range(40):
        one.update(0, 1.0)  # not as many as there are tasks: the sums are not fresh
    for task in range(1, 50):
        one.update(task, 1.0)
    for _ in range(7):
        one.update(3, 0.0)
        one.update(4, 1.0)
    state = json.loads(json.dumps(one.state_dict()))
    other = TaskSampler(share=0.01, seed=9)
    other.begin(KEYS)
    play(other, 100)
    other.load_state_dict(state)
    assert [one.draw() for _ in range(300)] == [other.draw() for _ in range(300)]
    other.load_state_dict(state)
    assert [other.probability(task) for task in range(50)] == [one.probability(task) for task in range(50)]


def test_equal_tasks_keep_what_is_known_of_each() -> None:
    one, other = TaskSampler(), TaskSampler()
    one.begin(["same", "same"])
    for _ in range(50):
        one.update(0, 1.0)
    other.load_state_dict(one.state_dict())
    other.begin(["same", "same"])
    assert other.probability(0) == one.probability(0) < 0.4


def test_many_tasks_are_begun_and_drawn_soon() -> None:
    keys = [str(number) for number in range(100_000)]
    one, other = TaskSampler(), TaskSampler(weight=lambda number: float(number < 3))
    one.begin(keys)
    other.load_state_dict(one.state_dict())
    other.begin(keys)  # once for each known task a set of all keys was made
    assert {other.draw().task_index for _ in range(100)} == {0, 1, 2}  # without millions of draws


def test_what_is_not_a_number_is_refused() -> None:
    nan, inf = float("nan"), float("inf")
    for prior in ((1.0, nan), (inf, 1.0), (1.0,), (1.0, 1.0, 1.0), 1.0):
        with pytest.raises(ValueError, match="prior is two numbers"):
            TaskSampler(prior=prior)  # type: ignore[arg-type]
    sampler = TaskSampler()
    with pytest.raises(ValueError, match="`begin` comes first"):
        sampler.draw()
    sampler.begin(["a", "b"])
    with pytest.raises(ValueError, match="A reward is"):
        sampler.update(0, nan)
    for counts in ([nan, 1.0], [-1.0, 2.0], [inf, 1.0]):
        with pytest.raises(ValueError, match="what it knows of 'a'"):
            sampler.load_state_dict({**sampler.state_dict(), "tasks": {"a": counts}})
    assert sampler.probability(0) == 0.5
