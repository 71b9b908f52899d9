"""Environments and engines as servers."""

from gym_llm.serve.env_server import EnvServer
from gym_llm.serve.server import ModelServer
from gym_llm.serve.workers import EnvWorkers

__all__ = ["EnvServer", "EnvWorkers", "ModelServer"]
