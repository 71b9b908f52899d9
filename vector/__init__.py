"""Many environments in lockstep, or as they are ready: what is a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from gym_llm.vector.local_vector_env import LocalVectorEnv
from gym_llm.vector.ray_vector_env import RayVectorEnv

__all__ = ["LocalVectorEnv", "RayVectorEnv"]
