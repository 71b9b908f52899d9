"""`EnvFactory`: every slot of a vector is what its id says, the first like the others."""

import gymnasium as gym
import pytest
from gymnasium.wrappers import TimeLimit
from testing import function_call, message, row

from gym_llm import VerifierEnv, collect, tool
from gym_llm.core.driver import Driver
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.vector import LocalVectorEnv

SLOTS = 3
TASKS = [row(), row(fails=True)]
GO, DONE = [function_call("go")], message("done")


class Walk(VerifierEnv):
    """Goes on for ever; its setup fails for rows that say so."""

    def __init__(self, tasks=None, *, pay=1.0, **kwargs):
        self.pay = pay
        super().__init__(tasks, **kwargs)

    def setup(self, task):
        if getattr(task, "fails", False):
            raise ArithmeticError("a bug in setup")

    @tool
    def go(self) -> str:
        """Go on."""
        return "went"

    def verify(self, task, episode):
        return self.pay


class Pays(gym.RewardWrapper, gym.utils.RecordConstructorArgs):
    """A wrapper that a spec can name: it pays so much more."""

    def __init__(self, env, more):
        gym.utils.RecordConstructorArgs.__init__(self, more=more)
        gym.RewardWrapper.__init__(self, env)
        self.more = more

    def reward(self, reward):
        return reward + self.more


def short(tasks=None, **kwargs):
    """An entry point with a wrapper of its own."""
    return TimeLimit(Walk(tasks, **kwargs), 2)


def own_tasks(pay=3.0):
    """An entry point that brings its tasks."""
    return Walk(TASKS, pay=pay)


SPECS = {
    "Plain": {"entry_point": Walk},
    "Limited": {"entry_point": Walk, "max_episode_steps": 2},
    "Paid": {"entry_point": Walk, "kwargs": {"pay": 5.0, "tasks": TASKS}},
    "Short": {"entry_point": short},
    "OwnTasks": {"entry_point": own_tasks},
    "Richer": {"entry_point": Walk, "additional_wrappers": (Pays.wrapper_spec(more=2.0),)},
}


@pytest.fixture(autouse=True)
def ids():
    for name, spec in SPECS.items():
        gym.register(f"factory/{name}-v0", **spec)
    yield
    for name in SPECS:
        del gym.registry[f"factory/{name}-v0"]


def steps(env, action, most=4):
    """Rewards, and whether it was cut short, of an episode in which the same is said every time."""
    env = Driver(env)
    env.reset(options={"task_index": 0})
    rewards, over = [], False
    while not over and len(rewards) < most:
        _, reward, terminated, truncated, _ = env.step(action)
        rewards.append(reward)
        over = terminated or truncated
    return rewards, truncated


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("env_kwargs", [{}, {"max_episode_steps": 3}, {"pay": 7.0}])
def test_every_environment_plays_like_the_one_of_gym_make(name, env_kwargs):
    brings_tasks = name in ("Paid", "OwnTasks")
    factory = EnvFactory(f"factory/{name}-v0", tasks=None if brings_tasks else TASKS, env_kwargs=env_kwargs)
    made = gym.make(f"factory/{name}-v0", **env_kwargs, **({} if brings_tasks else {"tasks": TASKS}))
    expected = [steps(made, GO), steps(made, DONE)]
    for _ in range(SLOTS):
        env = factory.make()
        assert [steps(env, GO), steps(env, DONE)] == expected
        assert env.unwrapped.tasks is factory.tasks and env.unwrapped.spec.id == f"factory/{name}-v0"


def test_a_spec_of_a_wrapped_environment_gives_it_with_its_wrappers_once():
    spec = Pays(TimeLimit(gym.make("factory/Short-v0", tasks=TASKS), 3), 2.0).spec
    factory = EnvFactory(spec)
    assert [steps(factory.make(), DONE) for _ in range(SLOTS)] == [steps(gym.make(spec), DONE)] * SLOTS


def test_limits_of_an_id_hold_in_every_slot_of_a_vector():
    with LocalVectorEnv("factory/Limited-v0", SLOTS, tasks=[row()]) as envs:
        envs.reset()
        envs.step([GO] * SLOTS)
        assert envs.step([GO] * SLOTS)[3].tolist() == [True] * SLOTS


@pytest.mark.parametrize("name", ["Plain", "Limited"])
def test_a_reset_that_fails_costs_no_episode_but_its_own(name):
    with LocalVectorEnv(f"factory/{name}-v0", 1, tasks=TASKS) as envs:
        with pytest.raises(ArithmeticError):
            envs.reset(options={"task_index": 1})
        envs.reset(options={"task_index": 0})
        assert envs.step([DONE])[1].tolist() == [1.0]


def test_the_episode_after_one_whose_setup_failed_is_scored():
    with pytest.warns(UserWarning, match="1 of 2 episodes is masked"):
        records = collect("factory/Plain-v0", tasks=TASKS[::-1], concurrency=1)
    assert [bool(record["error"]) for record in records] == [True, False]
