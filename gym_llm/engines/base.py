"""What an engine is: something that answers a Responses request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from gym_llm.types import Request, ResponseDict


class Engine(ABC):
    """Produces actions. Used as an async context manager, from one event loop.

    Attributes:
        model: The name under which the answers are recorded.
    """

    model: str

    async def start(self) -> None:  # noqa: B027 - not every engine has something to start
        """Load or connect; called once, before the first `respond`.

        Raises:
            EngineUnavailable: If no request could ever be answered.
        """

    @abstractmethod
    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request. Called concurrently, for as many episodes as there are.

        Args:
            request: An observation. Not changed.
            episode_id: The same string for all turns of one episode (cache affinity, reproducible sampling).

        Returns:
            The response: a fresh dict that the caller may keep.

        Raises:
            EngineError: If this request cannot be answered, after the engine's own retries.
        """

    async def aclose(self) -> None:  # noqa: B027 - nor to close
        """Release everything. Safe to call twice."""

    async def __aenter__(self) -> Self:
        """Start the engine."""
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the engine."""
        await self.aclose()
