"""Entry points of `gym.make_vec`: the module's attributes are ids, `gym_llm.vector.make_vector:Theirs/Own-v3`."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from gym_llm.vector.ray_vector_env import RayVectorEnv

_OPTIONS = inspect.signature(RayVectorEnv).parameters.keys() - {"env_id", "num_envs", "env_kwargs"}


def make_vector(env_id: str, num_envs: int, **kwargs: Any) -> RayVectorEnv:
    """A `RayVectorEnv` from one flat set of arguments; those that are not its own go to each environment."""
    options = {name: kwargs.pop(name) for name in _OPTIONS & kwargs.keys()}
    return RayVectorEnv(env_id, num_envs, env_kwargs=kwargs, **options)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return partial(make_vector, name)
