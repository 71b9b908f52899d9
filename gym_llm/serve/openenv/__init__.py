"""OpenEnv's wire (https://github.com/huggingface/OpenEnv, 0.10): episodes over a WebSocket, and what goes with it."""

from gym_llm.serve.openenv.openenv_frontend import OpenEnvFrontend

__all__ = ["OpenEnvFrontend"]
