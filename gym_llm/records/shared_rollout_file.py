"""SharedRolloutFile: one file of rollouts that many environments, in any number of processes, append to."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gym_llm.data.files.atomic import refuse_special
from gym_llm.data.files.jsonl import write_all
from gym_llm.errors import DataError
from gym_llm.records.record_files import is_torn, parse_record
from gym_llm.records.token_spans import without_copies
from gym_llm.types import Rollout, RolloutId
from gym_llm.utils.json_codec import dumps_record


class SharedRolloutFile:
    """A rollout file and how often each task occurs in it, so that every record gets a `repeat_index` of its own.

    Writers lock the file while they read what others have added since and append their line. Each process has one
    object for a file (`SharedRolloutFile.at`), so a line is read at most once per process.

    Args:
        path: The file, absolute.
    """

    _open: dict[str, SharedRolloutFile] = {}

    def __init__(self, path: str) -> None:
        self.path = path
        self._repeats: Counter[int] = Counter()
        self._end = self._lines = 0
        self._inode = (0, 0)

    @classmethod
    def at(cls, path: str) -> SharedRolloutFile:
        """This process's object for a path."""
        path = os.path.abspath(path)
        return cls._open.setdefault(path, cls(path))

    def prepare(self) -> None:
        """Make the file, and its folder, if it is missing, and read what it has.

        Raises:
            DataError: If the file has lines that are not rollouts, or is a device, a pipe or a folder.
            OSError: If the file cannot be opened for writing.
        """
        refuse_special(self.path)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with self._locked() as descriptor:
            self._catch_up(descriptor)

    def append(self, task_index: int, make: Callable[[RolloutId], Rollout]) -> None:
        """Append one record with a single write: what `make` makes, given its id.

        That is the task that was played and how often the file had it before.

        Raises:
            DataError: If it cannot be written.
        """
        with self._locked() as descriptor:
            self._catch_up(descriptor)
            record = make({"task_index": task_index, "repeat_index": self._repeats[task_index]})
            data = dumps_record(without_copies(record))
            try:
                write_all(descriptor, data)
            except OSError as error:  # what was written of it the next writer cuts off
                raise DataError(f"Cannot write {self.path}: {error.strerror or error}.") from None
            self._repeats[task_index] += 1
            self._end += len(data)
            self._lines += 1

    @contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # closing the file unlocks it
            yield descriptor
        finally:
            os.close(descriptor)

    def _catch_up(self, descriptor: int) -> None:
        """Count the lines that were added since; cut off an unfinished last one, what a killed writer leaves."""
        status = os.fstat(descriptor)
        if self._inode != (inode := (status.st_dev, status.st_ino)) or status.st_size < self._end:
            self._repeats.clear()  # it is another file, or another one's content
            self._end = self._lines = 0
            self._inode = inode
        if status.st_size == self._end:
            return
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n") and (line.isspace() or is_torn(line)):
                    os.ftruncate(descriptor, self._end)
                    break
                if not line.isspace():
                    try:
                        self._repeats[parse_record(line)["rollout_id"]["task_index"]] += 1
                    except DataError as error:
                        raise DataError(
                            f"{self.path}, line {self._lines + 1} is not a rollout: {error}; give a new file, or one "
                            "that rollouts were written to."
                        ) from None
                self._end += len(line)
                self._lines += 1
