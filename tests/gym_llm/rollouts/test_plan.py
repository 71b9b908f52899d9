from __future__ import annotations

import gymnasium as gym
import pytest
from testing import row

from gym_llm.errors import DataError
from gym_llm.rollouts.plan import Job, Plan, open_plan

TASKS = [row(str(n), expected_answer="x") for n in range(3)]


def plan(**numbers: int) -> Plan:
    return open_plan("gym_llm/FollowUp-v0", tasks=TASKS, **numbers)


def generated(**numbers: int) -> Plan:
    return open_plan("gym_llm/Arithmetic-v0", **numbers)


@pytest.mark.parametrize(
    "numbers, jobs",
    [
        ({}, [(0, 0), (1, 0), (2, 0)]),
        ({"repeats": 2}, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]),
        ({"limit": 2}, [(0, 0), (1, 0)]),
        ({"limit": 9}, [(0, 0), (1, 0), (2, 0)]),
        ({"limit": 1, "repeats": 3}, [(0, 0), (0, 1), (0, 2)]),
        ({"episodes": 2}, [(0, 0), (1, 0)]),
        ({"episodes": 5}, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]),
    ],
)
def test_the_numbers_say_which_episodes_are_played(numbers: dict[str, int], jobs: list[tuple[int, int]]) -> None:
    opened = plan(**numbers)
    assert list(opened.jobs()) == jobs and len(opened) == len(jobs)
    assert opened.num_tasks == len({task for task, _ in jobs}) and opened.repeats == 1 + max(
        repeat for _, repeat in jobs
    )


@pytest.mark.parametrize(
    "numbers, length, tasks",
    [({}, 64, 64), ({"limit": 100}, 100, 100), ({"episodes": 7}, 7, 7), ({"repeats": 2}, 128, 64)],
)
def test_generated_tasks_are_counted_too(numbers: dict[str, int], length: int, tasks: int) -> None:
    jobs = list(generated(**numbers).jobs())
    assert len(jobs) == length and len({job.task_index for job in jobs}) == tasks


def test_another_seed_generates_other_tasks_but_plays_the_same_rows() -> None:
    zero, one = ({job.task_index for job in generated(seed=seed).jobs()} for seed in (0, 1))
    assert not zero & one
    assert list(plan(seed=0).jobs()) == list(plan(seed=1).jobs())


def test_every_episode_of_every_run_has_randomness_of_its_own() -> None:
    seeds = {Job(task, repeat).env_seed(run) for run in range(5) for task in range(50) for repeat in range(20)}
    assert len(seeds) == 5 * 50 * 20 and all(0 <= seed < 2**63 for seed in seeds)
    assert Job(3, 4).env_seed(5) == Job(3, 4).env_seed(5) and Job(3, 4).episode_id == "3-4"


@pytest.mark.parametrize(
    "numbers",
    [
        {"episodes": 0},
        {"limit": -1},
        {"repeats": 0},
        {"seed": -1},
        {"episodes": 2, "repeats": 2},
        {"episodes": 1, "limit": 1},
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"\w+ is \d or more|not both"):
        plan(**numbers)


def test_whatever_is_wrong_with_the_environment_shows_when_the_plan_is_made() -> None:
    with pytest.raises(DataError, match="Row 1"):
        open_plan("gym_llm/FollowUp-v0", tasks=[TASKS[0], row()])
    with pytest.raises(gym.error.NameNotFound):
        open_plan("gym_llm/Nothing-v0")
    with pytest.raises(TypeError, match="VerifierEnv"):
        open_plan("CartPole-v1")


def test_environments_share_their_tasks() -> None:
    factory = plan().factory
    assert factory.make().unwrapped.tasks is factory.make().unwrapped.tasks
