"""The OpenEnv protocol (https://github.com/huggingface/OpenEnv, 0.10): episodes over a WebSocket, HTTP and JSON-RPC."""

from gym_llm.serve.openenv.openenv_frontend import OpenEnvFrontend

__all__ = ["OpenEnvFrontend"]
