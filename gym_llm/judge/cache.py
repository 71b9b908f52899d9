"""Caches of a judge's answers: bounded in memory, and in a file that processes share."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from gym_llm.utils.secrets import redacted_logger

MOST_CHARACTERS = 64_000_000
_BUSY_SECONDS = 2.0
_TRIES = 5
logger = redacted_logger(__name__)


class MemoryCache:
    """A cache of answers by key. Above its limit of characters, the least recently used go first."""

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self.most_characters = most_characters
        self._answers: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._characters = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: bytes) -> Any:
        """The answer, or None."""
        found = self._answers.get(key)
        if found is None:
            return None
        self._answers.move_to_end(key)
        return found[0]

    def put(self, key: bytes, answer: Any, characters: int) -> None:
        """Store an answer with its number of characters."""
        if key in self._answers:
            return
        characters += 1_000  # what Python's objects take
        self._answers[key] = answer, characters
        self._characters += characters
        while self._characters > self.most_characters and self._answers:
            self._characters -= self._answers.popitem(last=False)[1][1]


class FileCache:
    """A cache of answers by key in an SQLite file, for any number of processes and event loops at once.

    A thread of its own reads and writes in batches, so the event loop never waits for a disk or a lock. A file that
    cannot be used is logged once and ignored from then on: answers are asked for again, and the episodes go on.

    Args:
        path: The file; it is made if it is not there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gym_llm-judge-cache")
        self._database: sqlite3.Connection | None = None
        self._reads: dict[bytes, asyncio.Future[Any]] = {}
        self._writes: dict[bytes, Any] = {}
        self._pump: asyncio.Task[None] | None = None
        self._broken = False

    async def get(self, key: bytes) -> Any:
        """The answer, or None."""
        if self._broken:
            return None
        future = self._reads.get(key)
        if future is None:
            future = self._reads[key] = asyncio.get_running_loop().create_future()
            self._begin()
        return await asyncio.shield(future)

    def put(self, key: bytes, answer: Any) -> None:
        """Write an answer, some time soon."""
        if not self._broken:
            self._writes[key] = answer
            self._begin()

    async def aclose(self) -> None:
        """Write what is still to be written, and close the file."""
        if self._pump is not None:
            await self._pump
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _begin(self) -> None:
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        run = asyncio.get_running_loop().run_in_executor
        while self._reads or self._writes:
            reads, self._reads = self._reads, {}
            if reads:
                answers = await run(self._thread, self._read, list(reads))
                for key, future in reads.items():
                    if not future.done():
                        future.set_result(answers.get(key))
            writes, self._writes = self._writes, {}
            if writes:
                await run(self._thread, self._write, list(writes.items()))

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _read(self, keys: list[bytes]) -> dict[bytes, Any]:
        answers: dict[bytes, Any] = {}
        try:
            database = self._open()
            for start in range(0, len(keys) if database else 0, 500):
                some = keys[start : start + 500]
                query = f"SELECT key, answer FROM answers WHERE key IN ({','.join('?' * len(some))})"
                for key, answer in database.execute(query, some):  # type: ignore[union-attr]
                    with contextlib.suppress(ValueError):
                        answers[key] = orjson.loads(answer)
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
        return answers

    def _write(self, answers: list[tuple[bytes, Any]]) -> None:
        rows = []
        for key, answer in answers:
            with contextlib.suppress(TypeError):  # a lone surrogate, which no JSON holds
                rows.append((key, orjson.dumps(answer)))
        try:
            database = self._open()
            if database is not None:
                with database:
                    database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", rows)
        except (sqlite3.Error, OSError) as error:
            self._fail(error)

    def _open(self) -> sqlite3.Connection | None:
        if self._broken or self._database is not None:
            return self._database
        for tries_left in reversed(range(_TRIES)):
            database = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, check_same_thread=False)
            try:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=NORMAL")
                with database:
                    database.execute("CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL)")
            except sqlite3.Error as error:
                database.close()
                # Two that make the file at the same moment: SQLite does not wait for the change of the journal.
                if not tries_left or "locked" not in str(error):
                    raise
                time.sleep(0.05)
            else:
                self._database = database
                break
        return self._database

    def _fail(self, error: Exception) -> None:
        if not self._broken:
            logger.warning("The judge's cache %s is not used any more: %s", self.path, error)
        self._broken = True
        self._close()

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(sqlite3.Error):
                database.close()
