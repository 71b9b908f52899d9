"""Environments and engines as servers."""

from gym_llm.serve.env_server import EnvServer
from gym_llm.serve.server import ModelServer

__all__ = ["EnvServer", "ModelServer"]
