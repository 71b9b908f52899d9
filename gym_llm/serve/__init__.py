"""Environments and engines as servers."""

from gym_llm.engines.model_server import ModelServer
from gym_llm.serve.env_server import EnvServer
from gym_llm.serve.worker_processes import EnvWorkers

__all__ = ["EnvServer", "EnvWorkers", "ModelServer"]
