"""Bridge: an agent loop of another framework asks for the model's outputs, and an episode's actions are the answers.

The loop is a coroutine that runs as a task. It calls `ask(turn)` whenever it needs the model: that turn is what `reset`
or `step` returns, and the next action is what `ask` returns. What the loop returns is the last turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Bridge:
    """An agent loop under way."""

    def __init__(self) -> None:
        self._turns: asyncio.Queue[Any] = asyncio.Queue()
        self._actions: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self, loop: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Start the loop; returns its first turn."""
        self._task = asyncio.create_task(self._run(loop))
        return await self._next()

    async def ask(self, turn: dict[str, Any]) -> dict[str, Any]:
        """Show a turn and wait for the action: for the loop. Loops that ask twice at once are answered in order."""
        self._turns.put_nowait(turn)
        return await self._actions.get()

    async def answer(self, action: dict[str, Any]) -> dict[str, Any]:
        """Answer the loop with an action; returns its next turn.

        Raises:
            Exception: If the loop raises it.
        """
        self._actions.put_nowait(action)
        return await self._next()

    def stop(self) -> None:
        """Cancel the loop."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, loop: Coroutine[Any, Any, dict[str, Any]]) -> None:
        try:
            self._turns.put_nowait(await loop)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._turns.put_nowait(error)

    async def _next(self) -> dict[str, Any]:
        turn = await self._turns.get()
        if isinstance(turn, BaseException):
            raise turn
        found: dict[str, Any] = turn
        return found
