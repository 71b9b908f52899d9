"""Generators that are made when somebody draws from them are, to everybody else, Gymnasium's own."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import seeding
from testing import row

from gym_llm import VerifierEnv
from gym_llm.rollouts.factory import EnvFactory

DRAWS = 5


class Theirs(gym.Env):
    """An environment with Gymnasium's own `reset`."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)


class Ours(VerifierEnv):
    """Does not draw anything itself."""

    def verify(self, task, episode):
        return 0.0


def ours():
    return Ours(tasks=[row()])


def begin(env, seed=None):
    env.reset(seed=seed, options={"task_index": 0} if isinstance(env, Ours) else None)


def draws(env):
    return env.np_random.integers(1000, size=DRAWS).tolist()


def test_the_same_seed_gives_the_same_numbers_and_none_goes_on_with_them():
    both = ours(), Theirs()
    for seed in (3, None, 3, 0, 2**63, None):
        for env in both:
            begin(env, seed)
        assert both[0].np_random_seed == both[1].np_random_seed
        if seed is not None or both[0].np_random_seed is not None:
            assert draws(both[0]) == draws(both[1])


def test_no_generator_is_made_where_nobody_draws(monkeypatch):
    made = []
    real = seeding.np_random
    monkeypatch.setattr(seeding, "np_random", lambda seed=None: made.append(seed) or real(seed))
    env = ours()
    for seed in range(10):
        begin(env, seed)
    assert made == [] and env.np_random_seed == 9
    assert draws(env) == real(9)[0].integers(1000, size=DRAWS).tolist() and made == [9]


@pytest.mark.parametrize("seed", [-1, 1.5, "1", np.int64(1)])
def test_a_seed_that_is_none_is_refused_in_gymnasiums_words(seed):
    errors = []
    for env in (ours(), Theirs()):
        with pytest.raises(gym.error.Error) as caught:
            begin(env, seed)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_a_generator_can_be_set_and_never_seeded_ones_differ():
    env = ours()
    env.np_random = np.random.default_rng(4)
    assert draws(env) == np.random.default_rng(4).integers(1000, size=DRAWS).tolist() and env.np_random_seed == -1
    assert draws(ours()) != draws(ours()) and ours().np_random_seed is not None


def test_copies_go_on_alike():
    env = EnvFactory("gym_llm/FollowUp-v0").make()
    env.reset(seed=7, options={"task_index": 0})
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    assert [draws(each.unwrapped) for each in copies] == [draws(env.unwrapped)] * 2
