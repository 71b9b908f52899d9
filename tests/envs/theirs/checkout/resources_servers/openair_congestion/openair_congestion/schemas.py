"""Calls and observations."""

from typing import Any, Literal

from pydantic import BaseModel


class ToolCall(BaseModel):
    """A call."""

    name: Literal["set_cap", "noop"]
    arguments: dict[str, Any]


class LastActionEcho(ToolCall):
    """The last call."""


class AgentAux(BaseModel):
    """What the agent did last."""

    last_action: LastActionEcho | None = None
    last_reward: float | None = None
    last_rejection: str | None = None
    step_idx: int = 0


class Observation(BaseModel):
    """The load."""

    load: int
    agent_aux: AgentAux = AgentAux()
