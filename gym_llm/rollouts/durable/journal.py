"""Journal: the append-only files of one worker, in which its durable episodes are written down.

The files have about 16 MiB. A file is removed when the records of all its episodes are written, so the journal holds
little more than the episodes under way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gym_llm.data.files.atomic import open_locked
from gym_llm.data.files.jsonl import write_all
from gym_llm.rollouts.durable.left_journals import HIDDEN, LOCK, LeftEpisode, LeftJournals, Place, new_name
from gym_llm.rollouts.durable.lines import BEGIN, Line, pack_line
from gym_llm.rollouts.plan import Job
from gym_llm.utils.secrets import redacted_logger

_FILE_BYTES = 16 << 20
logger = redacted_logger(__name__)


class Journal:
    """A worker's journal; used from one event loop.

    Args:
        folder: The folder of a part's journals, in which it makes one of its own.
        is_hidden: Whether no reader sees it before `show`.

    Raises:
        OSError: If the folder cannot be made.
    """

    def __init__(self, folder: Path, *, is_hidden: bool = False) -> None:
        name = new_name()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._path = folder, folder / (HIDDEN + name)
        self._path.mkdir()
        self._lock = open_locked(self._path / LOCK)  # before it has its name: nobody takes it for one that was left
        if not is_hidden:
            self.show()
        self._left = LeftJournals(folder, name)
        self._number, self._size = 1, 0
        self._descriptor = -1
        self._file = self._path
        self._files: dict[Job, set[int]] = {}  # in which an episode has lines
        self._episodes: dict[int, int] = {}  # of each file: episodes without a record
        self.is_broken = False

    def show(self) -> None:
        """Let readers find it."""
        path = self._folder / self._path.name.removeprefix(HIDDEN)
        self._path.rename(path)
        self._path = path

    def take_left(self, job: Job) -> LeftEpisode | None:
        """Return an episode that another worker has begun and left; None if no worker has."""
        return self._left.take(job)

    def begin(self, job: Job, generation: int, attempt: int, lines: Sequence[Line] = ()) -> list[Place]:
        """Begin a generation of an episode with the lines of an earlier one; return the places of their copies.

        All of it is in one write. Should it be cut off, the earlier generation still counts. To begin the same
        generation again, without lines, changes its attempt only.
        """
        begin = pack_line(job, generation, BEGIN, str(attempt), b"%d" % len(lines))
        return self.add(job, begin, *(pack_line(job, generation, line.kind, line.key, line.body) for line in lines))[1:]

    def add(self, job: Job, *lines: bytes) -> list[Place]:
        """Write lines of an episode, and return their places. They survive a kill of this process from now on.

        A `write(2)` to the kernel's cache takes 3 µs: less than waiting for a common one would. If a journal cannot be
        written, because the disk is full, it logs that once. It takes nothing more, and what it has is still right.
        """
        files = self._files.get(job)
        if files is None:
            files = self._files[job] = set()
        if self._number not in files:
            files.add(self._number)
            self._episodes[self._number] = self._episodes.get(self._number, 0) + 1
        places: list[Place] = []
        if self.is_broken:
            return places
        try:
            if self._descriptor < 0:
                self._open_file()
            write_all(self._descriptor, b"".join(lines))
            for line in lines:
                places.append((self._file, self._size, len(line)))
                self._size += len(line)
            if self._size >= _FILE_BYTES:
                self._next_file()
        except OSError as error:
            self.is_broken = True
            logger.error("The journal %s cannot be written: %s. Episodes are not durable now.", self._path, error)
        return places

    def recorded(self, job: Job) -> None:
        """Let go of an episode: its record is written."""
        for number in self._files.pop(job, ()):
            self._episodes[number] -= 1
            if not self._episodes[number] and number != self._number:
                self._remove(number)

    def close(self) -> None:
        """Close the files. Those with unfinished episodes stay, for another worker."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if not self._files:
            shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._lock)

    def _open_file(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._file = self._path / f"{self._number:06}.log"
        self._descriptor = os.open(self._file, flags, 0o600)

    def _next_file(self) -> None:
        os.close(self._descriptor)
        before, self._descriptor = self._number, -1
        self._number, self._size = before + 1, 0
        if not self._episodes.get(before):
            self._remove(before)

    def _remove(self, number: int) -> None:
        self._episodes.pop(number, None)
        (self._path / f"{number:06}.log").unlink(missing_ok=True)
