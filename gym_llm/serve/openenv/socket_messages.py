"""An episode over `/ws`: messages of type reset, step, state, mcp and close, each with one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from gym_llm.serve.episode_session import BadRequest, EpisodeFailed, EpisodeSession, Step
from gym_llm.serve.openenv import reply_messages as answers
from gym_llm.serve.openenv.action_messages import LIST_TOOLS, ToolCall, read_action, read_reset
from gym_llm.serve.openenv.reply_messages import Invalid
from gym_llm.serve.openenv.rpc import Rpc
from gym_llm.serve.openenv.socket import CloseConnection, PendingReply
from gym_llm.serve.openenv.tool_results import called, listed, tools_of
from gym_llm.serve.served_env import ServedEnv
from gym_llm.utils.secrets import redacted_logger
from gym_llm.utils.text import excerpt

_FIELDS = {"type", "data"}
_NOTHING: dict[str, Any] = {}
logger = redacted_logger(__name__)


class SocketSession:
    """Answers the messages of one client.

    Args:
        env: The environment.
        session: The client's session.
        split: The name of the environment's tasks.
        rpc: Answers JSON-RPC messages.
    """

    __slots__ = ("_env", "_rpc", "_session", "_split")

    def __init__(self, env: ServedEnv, session: EpisodeSession, split: str, rpc: Rpc) -> None:
        self._env = env
        self._session = session
        self._split = split
        self._rpc = rpc

    def answer(self, message: Any) -> bytes | PendingReply:
        """Answer a message.

        Args:
            message: The JSON value, or the error of one that is not JSON.

        Raises:
            CloseConnection: If it was the last.
        """
        self._env.sessions.keep(self._session)
        try:
            if message.__class__ is not dict:
                if isinstance(message, Exception):
                    return answers.error(f"Invalid JSON: {message}", answers.INVALID_JSON)
                raise Invalid("", "A message is a JSON object", "dict_type")
            kind = message.get("type")
            if kind == "step":
                return self._step(message)
            if kind == "reset":
                return self._reset(message)
            return self._other(kind, message)
        except Invalid as fault:
            return answers.invalid(fault)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _step(self, message: dict[str, Any]) -> bytes | PendingReply:
        if len(message) != 2 or "data" not in message:
            _check(message)
        session = self._session
        action = read_action(message.get("data"))
        if action is LIST_TOOLS:
            return _observation(listed(tools_of(self._env, session)))
        result: Callable[[Step], dict[str, Any]] = answers.result
        if action.__class__ is ToolCall:
            result = partial(called, action, tools=tools_of(self._env, session))
            action = [action.item(len(session.turn_rewards) + 1)]
        try:
            outcome = session.start_step(action)
            return self._answered(outcome, result)
        except Exception as error:
            return self._refusal(error)

    def _reset(self, message: dict[str, Any]) -> bytes | PendingReply:
        if len(message) != 2 or "data" not in message:
            _check(message)
        session = self._session
        data = message.get("data", _NOTHING)
        if data.__class__ is not dict:
            raise Invalid("data", "Input should be a valid dictionary", "dict_type")
        seed, options, episode_id = read_reset(data, self._split)
        try:
            _ = session.verifier
        except Exception as error:
            logger.exception("%s could not be made.", session.env_id)
            message_text = f"Environment factory '{self._env.name}' failed to create instance: {type(error).__name__}."
            answer = answers.error(message_text, answers.FACTORY_ERROR, factory_name=self._env.name)
            raise CloseConnection(answer) from None
        session.notes["episode_id"] = episode_id
        try:
            return self._answered(session.start_reset(seed, options), partial(answers.result, began=True))
        except Exception as error:
            return self._refusal(error)

    def _other(self, kind: Any, message: dict[str, Any]) -> bytes | PendingReply:
        if kind == "state":
            _check(message, {"type"})
            if self._session.is_busy:  # a step of an earlier connection, which nobody is to take twice
                return PendingReply(asyncio.ensure_future(self._session.settled()), lambda _: self._state())
            return self._state()
        if kind == "close":
            _check(message, {"type"})
            raise CloseConnection()
        if kind == "mcp":
            _check(message)
            if message.get("data").__class__ is not dict:
                raise Invalid("data", "Input should be a valid dictionary", "dict_type")
            answer = self._rpc.answer(message["data"], self._session)
            return PendingReply(
                asyncio.ensure_future(answer),
                lambda future: answers.encode({"type": "mcp", "data": future.result()}),
            )
        name = kind if isinstance(kind, str) else excerpt(kind) if kind else ""
        return answers.error(f"Unknown message type: {name[:100]}", answers.UNKNOWN_TYPE)

    def _state(self) -> bytes:
        return answers.encode({"type": "state", "data": answers.state(self._session)})

    def _answered(
        self, outcome: Step | asyncio.Future[Step], result: Callable[[Step], dict[str, Any]]
    ) -> bytes | PendingReply:
        if isinstance(outcome, asyncio.Future):
            return PendingReply(outcome, lambda future: self._late(future, result))
        return _observation(result(outcome))

    def _late(self, future: asyncio.Future[Step], result: Callable[[Step], dict[str, Any]]) -> bytes:
        try:
            return _observation(result(future.result()))
        except asyncio.CancelledError:
            return answers.error("The server has been stopped.", answers.SESSION_ERROR)
        except Exception as error:
            return self._refusal(error)

    def _refusal(self, error: Exception) -> bytes:
        if isinstance(error, EpisodeFailed):
            return answers.failed(error)
        if isinstance(error, BadRequest):
            if self._session.is_playing:  # then it is the action that is none; the episode goes on
                return answers.invalid(Invalid("data", str(error)))
            return answers.error(str(error), answers.EXECUTION_ERROR)
        logger.error("A message could not be answered.", exc_info=error)
        return answers.error("The server has failed; its log says how.", answers.EXECUTION_ERROR)


def _observation(result: dict[str, Any]) -> bytes:
    return answers.encode({"type": "observation", "data": result})


def _check(message: dict[str, Any], fields: set[str] = _FIELDS) -> None:
    if unknown := message.keys() - fields:
        raise Invalid(str(min(unknown))[:100], "Extra inputs are not permitted", "extra_forbidden")
