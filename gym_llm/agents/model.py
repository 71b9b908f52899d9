"""EpisodeModel: the model, as one episode's agent has it."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from gym_llm.engines.engine import Engine
from gym_llm.engines.engine_response import FULL
from gym_llm.errors import EngineError
from gym_llm.types import Item, Request, ResponseDict, Usage, sum_usage
from gym_llm.utils.json_codec import dumps


class EpisodeModel(Engine):
    """Answers the calls of one episode's agent, and keeps their results.

    Args:
        engine: The run's engine, with parsers after it.

    Attributes:
        calls: The number of answered calls.
        last: The latest answer.
        unmade: The tool calls in it that the agent has not made yet.
        before_call: Awaited before each call.
        full: Why the latest call could not be answered at all (`gym_llm.engines.engine_response.FULL`); None if it was.
    """

    def __init__(self, engine: Engine) -> None:
        self.model = engine.model
        self.capabilities = engine.capabilities
        self.calls = 0
        self.last: ResponseDict | None = None
        self.unmade: list[Item] = []
        self.before_call: Callable[[], Awaitable[None]] | None = None
        self.full: str | None = None
        self._engine = engine
        self._failed: dict[bytes, EngineError] = {}
        self._usage: Usage | None = None

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one call; see `Engine.respond`."""
        if self.before_call is not None:
            await self.before_call()
        try:
            response = await self._engine.respond(request, episode_id=episode_id)
        except EngineError as error:
            self._failed[_digest(request)] = error
            raise
        if self._failed:
            self._failed.pop(_digest(request), None)
        self.calls += 1
        self.last = response
        self.unmade = [item for item in response["output"] if item.get("type") == "function_call"]
        reason = (response.get("incomplete_details") or {}).get("reason")
        self.full = reason if reason in FULL else None
        self._add(response.get("usage"))
        return response

    @property
    def failure(self) -> EngineError | None:
        """A failure that was not the agent's doing, and that it did not make good by asking again; the latest one."""
        failures = [error for error in self._failed.values() if error.failure_kind != "agent_request_failed"]
        return failures[-1] if failures else None

    @property
    def latest_failure(self) -> EngineError | None:
        """The latest failure of any kind that asking again did not make good."""
        return next(reversed(self._failed.values()), None)

    def take_usage(self) -> Usage | None:
        """Return the tokens of the calls since the last time; None if no call counted any."""
        usage, self._usage = self._usage, None
        return usage

    def _add(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage = sum_usage(self._usage, usage)


def _digest(request: Request) -> bytes:
    return hashlib.sha256(dumps(request)).digest()
