"""Random generators that are made on first use."""

from __future__ import annotations

from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
_ANY_SEED: Any = np.random.SeedSequence(0)


class LazilySeeded(gym.Env[ObsType, ActType]):
    """An environment whose `reset` notes the seed, and whose `np_random` is made of it when it is first asked for.

    Making numpy's generator costs more than all the rest of a `reset`, and few episodes draw from it. Nothing else is
    different: not the numbers, nor what Gymnasium's own checks see.
    """

    _np_random_made: np.random.Generator | None = None

    def reset(  # type: ignore[return] # as of Gymnasium's own: subclasses return what begins the episode
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Seed `np_random`.

        Raises:
            gymnasium.error.Error: If the seed is not an int, or is negative.
        """
        if seed is not None:
            if type(seed) is not int or seed < 0:
                seeding.np_random(seed)  # knows what to say
            self._np_random_made, self._np_random_seed = None, seed

    @property  # type: ignore[override]
    def _np_random(self) -> np.random.Generator | None:
        if self._np_random_made is None and self._np_random_seed is not None:
            self._np_random_made, _ = seeding.np_random(self._np_random_seed)
        return self._np_random_made

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:
        self._np_random_made = generator


def copy_generator(generator: np.random.Generator) -> np.random.Generator:
    """Return a generator that draws what this one will draw; a tenth of the time of `copy.deepcopy`."""
    bits = type(generator.bit_generator)(_ANY_SEED)
    bits.state = generator.bit_generator.state
    return np.random.Generator(bits)


def forget_seed(env: gym.Env[Any, Any]) -> None:
    """Have an environment draw as if it had been made just now, whatever seeds it was reset with."""
    bare = env.unwrapped
    bare._np_random, bare._np_random_seed = None, None
