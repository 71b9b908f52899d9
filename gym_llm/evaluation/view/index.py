"""RunIndex: a rollout file that is listed while it is read, and followed while it is written."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

from gym_llm.concurrency.processes import ProcessPool
from gym_llm.data.files.atomic import replacing
from gym_llm.errors import DataError, DeadlinePassed, UsageError, WorkerDied
from gym_llm.evaluation.view.episode_table import EpisodeRow, EpisodeTable
from gym_llm.evaluation.view.scan import scan_open

PART = 32 << 20
"""Bytes that a worker process reads at a time."""
SAVED_FROM = 16 << 20
"""A smaller file is read again each time: that takes less than a tenth of a second, and leaves nothing beside it."""

_GROWING_SECONDS = 10.0
_SUM = 16  # bytes
_LARGEST_INDEX = 8 << 30
_SCAN = "gym_llm.evaluation.view.scan:scan_part"


class RunIndex:
    """The rows of one rollout file. `update` may run in one event loop, all else in any thread.

    The file is read, never mapped: another process may cut it short at any time. A file that is replaced or cut is read
    from its beginning again.

    Args:
        path: The file.

    Raises:
        UsageError: If it cannot be read, or is not a regular file.

    Attributes:
        path: The file.
        changed: Grows whenever rows were added or thrown away.
        generation: Grows whenever all rows were thrown away.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.changed = self.generation = 0
        self._lock = Lock()
        self.table = EpisodeTable()
        self._indexed = 0
        self._saved_rows = 0
        self._last_fingerprint = ""
        self._is_done = False
        self._seen: tuple[int, int] | None = None
        self._descriptor = -1
        self._open()

    @property
    def size(self) -> int:
        """The file's bytes now."""
        return os.fstat(self._descriptor).st_size

    @property
    def indexed(self) -> float:
        """The share of the file that is in the rows, [0, 1]; a torn last line counts as what it is, nothing."""
        return 1.0 if self._is_done else min(1.0, self._indexed / max(1, self.size))

    @property
    def is_growing(self) -> bool:
        """Whether it was written to in the last ten seconds."""
        return time.time() - self.modified < _GROWING_SECONDS

    @property
    def modified(self) -> float:
        """The time of its last change, in seconds since 1970."""
        return os.fstat(self._descriptor).st_mtime

    def line(self, n: int, limit: int) -> bytes:
        """The line of a row, or how it begins.

        Raises:
            DataError: If it is not there any more.
        """
        for offset, length in self.table.select("offset, length", "WHERE n = ?", (n,)):
            line = self.read(offset, min(limit, length))
            if len(line) == min(limit, length):
                return line
        raise DataError(f"{self.path.name} was cut short: this episode is not in it any more.")

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file, fewer where it ends."""
        pieces = []
        while length and (piece := os.pread(self._descriptor, length, offset)):
            pieces.append(piece)
            offset, length = offset + len(piece), length - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def update(self, pool: ProcessPool | None = None) -> bool:
        """Read what has been written since the last time.

        Args:
            pool: Workers that run `scan.scan_part`; None to read large files in this process, too.

        Returns:
            Whether there is anything new.
        """
        before = self.changed
        if self._is_another_file():
            self._open()
        status = os.fstat(self._descriptor)
        seen = status.st_size, status.st_mtime_ns
        if seen == self._seen:
            return self.changed != before
        if self._seen is None:
            await asyncio.to_thread(self._load)
        elif status.st_size < self._indexed or not self._is_continued(status.st_size):
            self._reset()
        self._is_done = False
        if pool is not None and status.st_size - self._indexed > 2 * PART:
            await self._update_with(pool, status.st_size)
        await asyncio.to_thread(self._scan, status.st_size)
        self._seen, self._is_done = seen, True
        if status.st_size >= SAVED_FROM and len(self.table) > 1.1 * self._saved_rows:
            await asyncio.to_thread(self.save)
        return self.changed != before

    def save(self) -> None:
        """Write the index beside the file, or into the user's cache; nowhere if both are read-only."""
        status, rows = os.fstat(self._descriptor), len(self.table)
        meta = {"source": _identity(status), "end": self._indexed, "fingerprint": self._fingerprint(self._indexed)}
        data = self.table.packed(meta)
        for place in index_paths(self.path):
            with suppress(DataError, OSError), replacing(place) as file:
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode) & 0o666)  # as private as the file itself
                file.write(blake2b(data, digest_size=_SUM).digest() + data)
                break
        self._saved_rows = rows

    def close(self) -> None:
        """Let go of the file."""
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def _open(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"Cannot read {self.path}: {error.strerror or error}.") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UsageError(f"Cannot show {self.path}: it is not a file; give a rollout file or a folder of them.")
        if self._descriptor >= 0:
            os.dup2(descriptor, self._descriptor, inheritable=False)  # whoever is reading it has a descriptor still
            os.close(descriptor)
            self._reset()
        else:
            self._descriptor = descriptor
        self._seen, self._is_done = None, False

    def _is_another_file(self) -> bool:
        with suppress(OSError):  # it was removed: what is open is shown
            there = os.stat(self.path)
            return stat.S_ISREG(there.st_mode) and not os.path.samestat(there, os.fstat(self._descriptor))
        return False

    def _is_continued(self, size: int) -> bool:
        return size > (self._seen or (0, 0))[0] and self._fingerprint(self._indexed) == self._last_fingerprint

    def _fingerprint(self, end: int) -> str:
        head, tail = self.read(0, min(end, 64 << 10)), self.read(max(0, end - (4 << 10)), min(end, 4 << 10))
        return blake2b(head + tail, digest_size=16).hexdigest()

    def _load(self) -> None:
        status = os.fstat(self._descriptor)
        for place in index_paths(self.path) if status.st_size >= SAVED_FROM else ():
            with suppress(OSError, ValueError, KeyError, TypeError):
                meta = load_index(place, self.table)
                device, inode, size, changed = meta["source"]
                now, end = _identity(status), meta["end"]
                is_same = [device, inode] == now[:2] and (now[2] > size or [size, changed] == now[2:])
                if not is_same or end > status.st_size or meta["fingerprint"] != self._fingerprint(end):
                    self.table.clear()
                    continue
                with self._lock:
                    self._indexed, self._last_fingerprint, self._saved_rows = end, meta["fingerprint"], len(self.table)
                    self.changed += 1
                return

    def _reset(self) -> None:
        with self._lock:
            self.table.clear()
            self._indexed = self._saved_rows = 0
            self.changed += 1
            self.generation += 1

    def _add(self, end: int, rows: list[EpisodeRow]) -> None:
        with self._lock:
            self.table.add(rows)
            self._indexed = max(self._indexed, end)
            self.changed += bool(rows)

    def _scan(self, size: int) -> None:
        for end, rows in scan_open(self._descriptor, self._indexed, size, whole=True):
            self._add(end, rows)
            if self._descriptor < 0:  # closed meanwhile
                return
        self._last_fingerprint = self._fingerprint(self._indexed)

    async def _update_with(self, pool: ProcessPool, size: int) -> None:
        """Read parts of a large file in worker processes; whatever goes wrong there is left for this process."""
        path = os.path.realpath(self.path)
        starts = iter(range(self._indexed, size, PART))
        calls: list[asyncio.Task[tuple[int, list[EpisodeRow]]]] = []

        def begin() -> None:
            if (start := next(starts, None)) is not None:
                calls.append(asyncio.create_task(pool.call((path, start, min(start + PART, size)))))

        try:
            for _ in range(2 * pool.workers):
                begin()
            while calls:
                end, rows = await calls[0]
                calls.pop(0)
                if self._is_another_file():
                    return
                self._add(end, rows)
                begin()
        except (DeadlinePassed, WorkerDied, RuntimeError):
            return
        finally:
            for call in calls:
                call.cancel()


def index_paths(path: Path) -> list[Path]:
    """Return where a file's index may be: beside it, or in the user's cache where that folder is read-only."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = blake2b(os.fsencode(os.path.realpath(path)), digest_size=16).hexdigest()
    return [path.with_name(f".{path.name}.index"), cache / "gym_llm" / "view" / f"{key}.index"]


def load_index(place: Path, table: EpisodeTable) -> dict[str, Any]:
    """Load a saved index into a table, and return its description.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not an index, or is damaged.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_INDEX:
            raise ValueError("not an index")
        digest, data = file.read(_SUM), file.read()
    if blake2b(data, digest_size=_SUM).digest() != digest:
        raise ValueError("the index is damaged")
    return table.unpack(data)


def _identity(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def scan_pool() -> ProcessPool:
    """The workers that `RunIndex.update` takes."""
    return ProcessPool(_SCAN, deadline=600.0)
