"""The file that a run of rollouts leaves: appended to by one process, completable after any kill."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import orjson

from gym_llm.data.files.atomic import open_locked, replacing, write_atomically
from gym_llm.data.files.jsonl import dumps, repair_tail, write_all
from gym_llm.data.files.records import read_records
from gym_llm.errors import DataError
from gym_llm.types import Rollout


class RolloutFile(AbstractContextManager["RolloutFile"]):
    """One JSON line per finished episode, and beside it `NAME.summary.json`: what was run, and in the end its numbers.

    Each record is a single append, so that a kill at any moment costs at most an unfinished last line, which the next
    opening cuts off. The file is locked while it is open; the kernel drops the lock with the process. A file that is
    still empty when it is closed is removed.

    Args:
        path: The file; folders are made as needed.
        resume: Whether to go on with a file that already holds records.

    Raises:
        DataError: If the file holds records and is not to be resumed, is open in another process, or cannot be written.

    Attributes:
        path: The file.
        cut_off: Bytes of an unfinished last line that were cut off when it was opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = open_locked(self.path)
        except OSError as error:
            raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None
        if not resume and os.fstat(self._descriptor).st_size:
            os.close(self._descriptor)
            raise DataError(f"{path} already exists: resume it (--resume) or name another file.")
        self.cut_off = repair_tail(self.path)

    @property
    def summary_path(self) -> Path:
        """`runs/a.summary.json` for `runs/a.jsonl`."""
        return self.path.with_name(self.path.name.removesuffix(".jsonl") + ".summary.json")

    def read_summary(self) -> dict[str, Any]:
        """What the last run wrote beside the file; empty if that is missing or broken."""
        try:
            summary = orjson.loads(self.summary_path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}
        return summary if isinstance(summary, dict) else {}

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Replace `NAME.summary.json`; see `write_atomically`."""
        data = orjson.dumps(summary, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        write_atomically(self.summary_path, data)

    def records(self) -> Iterator[Rollout]:
        """The records in the file, one at a time; see `read_records`."""
        return (record for _, record in read_records(self.path))

    def append(self, record: Any) -> None:
        """Add one record; a DataError if it cannot be written, e.g. because the disk is full."""
        try:
            write_all(self._descriptor, dumps(record))
        except OSError as error:
            raise DataError(f"Cannot write {self.path}: {error.strerror or error}.") from None

    def keep(self, condition: Callable[[Rollout], bool]) -> int:
        """Rewrite the file without the records that fail a condition, and count these; a kill leaves it as it was."""
        dropped = 0
        with ExitStack() as unless_replaced:
            with replacing(self.path) as file:
                for line, record in read_records(self.path):
                    if condition(record):
                        file.write(line)
                    else:
                        dropped += 1
                # Its lock is the new file's, too: there is no moment at which the path is unlocked.
                descriptor = os.dup(file.fileno())
                unless_replaced.callback(os.close, descriptor)
            unless_replaced.pop_all()
        os.close(self._descriptor)
        self._descriptor = descriptor
        return dropped

    def close(self) -> None:
        """Unlock the file, or remove it if there is nothing in it."""
        if os.fstat(self._descriptor).st_size == 0:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
