"""Health checks, in the background, of servers that failed: probing with requests would be expensive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from gym_llm.engines.routing import Server
from gym_llm.utils.secrets import redacted_logger

logger = redacted_logger(__name__)

CHECK_SECONDS = 5.0
"""How long a server that failed rests before it is asked whether it answers, and again if it does not."""


LIMITED_SECONDS = 60.0
"""The pause between two warnings about a server's rate limit."""


class HealthChecks:
    """Lets servers that failed rest until they answer: `answers` asks one for something small, and does not raise."""

    def __init__(self, answers: Callable[[Server], Awaitable[bool]]) -> None:
        self._answers = answers
        self._tasks: dict[Server, asyncio.Task[None]] = {}
        self._closed = False

    def failed(self, server: Server, *, hung: bool = False) -> None:
        """Note a failure; `hung` if it let a deadline pass, and may do so again although it answers what is asked here.

        Until the server answers, new episodes go elsewhere (`Router`).
        """
        server.failures += 1
        if self._closed:
            return
        server.resting = True
        server.on_trial = server.on_trial or hung
        if server not in self._tasks:
            self._tasks[server] = asyncio.create_task(self._watch(server))

    def limited(self, server: Server, failure: str, seconds: float) -> None:
        """Log that a server refuses requests for their rate, and the pause; once a minute of many requests."""
        now = time.monotonic()
        if now - server.warned_at >= LIMITED_SECONDS:
            server.warned_at = now
            logger.warning("%s; waiting %.0f s before the next try", failure, max(1.0, seconds))

    async def aclose(self) -> None:
        """Stop permanently. The next user of the servers checks them first."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for server in self._tasks:
            server.resting = False

    async def _watch(self, server: Server) -> None:
        while server.resting:
            failures = server.failures
            await asyncio.sleep(CHECK_SECONDS)
            # A failure since then counts, too: a server that lists its models may still be unable to use them.
            if server.failures == failures and await self._answers(server):
                server.resting = server.failures != failures
        del self._tasks[server]
        logger.info("%s answers again", server.base_url)
