"""The Open Reward Standard (https://openrewardstandard.io, `openreward` 0.1): episodes as tool calls over HTTP."""

from gym_llm.serve.ors.ors_frontend import OrsFrontend

__all__ = ["OrsFrontend"]
