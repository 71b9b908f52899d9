"""Answers that a client may ask for again, because the first one was lost on its way."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

_KEPT = 4_096
_LARGEST = 1 << 16
_KEPT_BYTES = 1 << 24


class IdempotencyCache:
    """Works an answer out once for each key, goes on when the client leaves, and keeps the last ones for a while.

    What is raised is not kept: the next to ask has it worked out again.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[bytes]] = {}
        self._done: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0

    def done(self, key: Hashable) -> bytes | None:
        """The answer, if it is kept."""
        return self._done.get(key)

    async def get(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """The answer of a key.

        Args:
            key: Says whose answer to what.
            work: Works it out.

        Raises:
            Exception: What `work` raises.
        """
        if (answer := self._done.get(key)) is not None:
            return answer
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(work())
            task.add_done_callback(lambda ended: self._end(key, ended))
        return await asyncio.shield(task)

    def _end(self, key: Hashable, task: asyncio.Task[bytes]) -> None:
        del self._under_way[key]
        if task.cancelled() or task.exception() is not None:
            return
        if len(answer := task.result()) <= _LARGEST:
            self._done[key] = answer
            self._bytes += len(answer)
            while len(self._done) > _KEPT or self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._done.popitem(last=False)[1])
