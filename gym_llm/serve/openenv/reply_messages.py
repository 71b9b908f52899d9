"""Write the messages to OpenEnv's clients: observations, states and errors, as JSON."""

from __future__ import annotations

import secrets
from typing import Any

from gym_llm.serve.episode_session import EpisodeFailed, EpisodeSession, Step
from gym_llm.serve.sessions import AtCapacity
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redact

INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR = "INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR"
EXECUTION_ERROR, CAPACITY_REACHED = "EXECUTION_ERROR", "CAPACITY_REACHED"
FACTORY_ERROR, SESSION_ERROR = "FACTORY_ERROR", "SESSION_ERROR"
_LONGEST_MESSAGE = 4_000


class Invalid(Exception):
    """A message, an action or a body is not what it should be.

    Attributes:
        errors: Each fault as pydantic says it, which OpenEnv's own server hands on.
    """

    def __init__(self, place: str, fault: str, kind: str = "value_error") -> None:
        super().__init__(f"{place}: {fault}" if place else fault)
        self.errors = [{"type": kind, "loc": place.split(".") if place else [], "msg": fault}]


def encode(message: dict[str, Any]) -> bytes:
    """A message's text."""
    return dumps(message)[:-1]


def result(step: Step, *, began: bool = False) -> dict[str, Any]:
    """Return the result of a reset or a step, with the reward and the end.

    Args:
        step: The step.
        began: Whether it is a reset, which has no reward.
    """
    observation = {"request": step.request, "info": step.info, "truncated": step.truncated}
    return {"observation": observation, "reward": None if began else step.reward, "done": step.done}


def state(session: EpisodeSession) -> dict[str, Any]:
    """A session's state: OpenEnv's two fields, and what a client needs that comes back after its connection was lost.

    `session_id` is what `/ws?session_id=` takes, `last` the last result, which it may have missed.
    """
    episode = session.episode
    begun = episode is not None and (session.last is not None or session.outcome is not None)
    masked = session.outcome == "masked"
    last = None if session.last is None or masked else result(session.last, began=not session.turn_rewards)
    return {
        "episode_id": _episode_id(session) if begun else None,
        "step_count": episode.turn if begun and episode is not None else 0,
        "session_id": session.id,
        "env_id": session.env_id,
        "task_index": episode.task_index if begun and episode is not None else None,
        "outcome": session.outcome,
        "total_reward": None if masked else session.total_reward,
        "failure_kind": None if session.failure is None else session.failure.kind,
        "last": last,
    }


def error(message: str, code: str, **more: Any) -> bytes:
    """A message that says what is wrong."""
    return encode({"type": "error", "data": {"message": redact(message)[:_LONGEST_MESSAGE], "code": code, **more}})


def invalid(fault: Invalid) -> bytes:
    """The message that says so."""
    return error(f"Invalid message: {fault}", VALIDATION_ERROR, errors=fault.errors)


def failed(failure: EpisodeFailed) -> bytes:
    """The message of a masked episode, which has no reward."""
    return error(str(failure), EXECUTION_ERROR, **failure_fields(failure))


def failure_fields(failure: EpisodeFailed) -> dict[str, Any]:
    """Return the fields of a masked episode's error, besides its message."""
    return {"failure_kind": failure.failure.kind, "failure_phase": failure.failure.phase}


def at_capacity(full: AtCapacity, sessions: int, capacity: int) -> bytes:
    """Return the message to a client when the server is full."""
    return error(str(full), CAPACITY_REACHED, active_sessions=sessions, max_sessions=capacity)


def _episode_id(session: EpisodeSession) -> str:
    given: str | None = session.notes.get("episode_id")
    if given is None:
        given = session.notes["episode_id"] = secrets.token_hex(16)
    return given
