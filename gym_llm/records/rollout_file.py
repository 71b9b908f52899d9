"""The file that a run of rollouts leaves: appended to by one process, completable after any kill."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

import orjson

from gym_llm.data.files.atomic import open_locked, refuse_special, replacing
from gym_llm.data.files.jsonl import read_tail, repair_tail, write_all
from gym_llm.errors import DataError
from gym_llm.records.record_files import is_torn, numbered_records, parse_record, read_records
from gym_llm.records.token_spans import without_copies
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps, dumps_record
from gym_llm.utils.secrets import mask

_STREAMS = {1: "stdout", 2: "stderr"}


class RolloutFile(AbstractContextManager["RolloutFile"]):
    """A file with one JSON line per finished episode. `NAME.summary.json` beside it has the settings and the figures.

    Each record is a single append. A kill at any moment costs at most an unfinished last line, which the next run cuts
    off. The file is locked while it is open; the kernel drops the lock with the process. A file that is still empty
    when it is closed is removed. Symbolic links are kept.

    Args:
        path: The file; folders are made as needed.
        resume: Whether to go on with a file that already holds records.

    Raises:
        DataError: If the file holds records and `resume` is false, or another process has it open. If it cannot be
            written, or is a device, a pipe or this program's output. If its summary belongs to another file.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False) -> None:
        self.path = Path(path)
        refuse_special(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A program that changes its folder, or a link that is set to another file, does not change where this is.
            self._target = os.path.realpath(path)
            self._summary_target = os.path.realpath(self.summary_path)
            self._descriptor = open_locked(self.path)
        except OSError as error:
            raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None
        self._status = os.fstat(self._descriptor)
        self._has_tail = True  # maybe; looked for before the first write
        self._wrote = self._told_of_loss = False
        try:
            self._check_opened(resume)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _check_opened(self, resume: bool) -> None:
        for number, name in _STREAMS.items():
            with suppress(OSError):  # closed
                if os.path.samestat(self._status, os.fstat(number)):
                    raise DataError(f"Cannot write {self.path}: {name} goes there, too; name another file.")
        if self._status.st_size and not resume:
            raise DataError(f"{self.path} already exists: resume it (--resume) or name another file.")
        self._check_summary(is_new=not self._status.st_size)

    @property
    def summary_path(self) -> Path:
        """`runs/a.summary.json` for `runs/a.jsonl`."""
        return self.path.with_name(self.path.name.removesuffix(".jsonl") + ".summary.json")

    def read_summary(self) -> dict[str, Any]:
        """Return the summary beside the file; empty if it is missing or broken."""
        return read_summary(self._summary_target)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Replace `NAME.summary.json`, whole or not at all.

        Raises:
            DataError: If it cannot be written, or this file is not where it was.
        """
        self._check_place()
        self._check_summary()
        with replacing(self._summary_target, name=self.summary_path) as file:
            file.write(dumps({"output": self.path.name, **mask(summary)}, indent=True))

    def remove_summary(self) -> None:
        """Remove `NAME.summary.json`, if it is there."""
        Path(self._summary_target).unlink(missing_ok=True)

    def records(self) -> Iterator[Rollout]:
        """Yield the complete records of the file; a DataError names an invalid or repeated line."""
        lines: dict[tuple[Any, ...], int] = {}
        for number, line, record in numbered_records(self.path, parse_record):
            if not line.endswith(b"\n"):
                return  # the next write cuts it off
            dataset, ids = record.get("dataset"), record["rollout_id"]
            key = dataset if isinstance(dataset, str) else None, ids["task_index"], ids["repeat_index"]
            if lines.setdefault(key, number) != number:
                raise DataError(
                    f"{self.path}: lines {lines[key]} and {number} have the same episode "
                    f"(task {key[1]}, repeat {key[2]}): remove one."
                )
            yield record

    def append(self, record: Any) -> None:
        """Add one record.

        Raises:
            DataError: If it cannot be written, e.g. because the disk is full, or the file is not where it was.
        """
        data = dumps_record(without_copies(record))
        try:
            self._cut_tail()
            self._has_tail = True  # until it is written to its end
            write_all(self._descriptor, data)
            self._has_tail = False
        except OSError as error:
            raise DataError(
                f"Cannot write {self.path}: {error.strerror or error}. The records before this one are whole: make "
                "room and go on with them (--resume)."
            ) from None
        self._wrote = True
        self._check_place()

    def keep(self, condition: Callable[[Rollout], bool]) -> int:
        """Rewrite the file without the records that fail a condition, and count these; a kill leaves it as it was."""
        dropped = 0
        with ExitStack() as unless_replaced:
            with replacing(self._target, name=self.path) as file:
                status = os.fstat(self._descriptor)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
                for line, record in read_records(self._target):
                    if not line.endswith(b"\n"):
                        break
                    if condition(record):
                        file.write(line)
                    else:
                        dropped += 1
                # Its lock is the new file's, too: there is no moment at which the path is unlocked.
                descriptor = os.dup(file.fileno())
                unless_replaced.callback(os.close, descriptor)
                self._check_place()
            unless_replaced.pop_all()
        os.close(self._descriptor)
        self._descriptor, self._status = descriptor, os.fstat(descriptor)
        return dropped

    def close(self) -> None:
        """Unlock the file, or remove it if there is nothing in it.

        Raises:
            DataError: If it is not where it was, or the last of it cannot be written.
        """
        descriptor, self._descriptor = self._descriptor, -1  # whoever writes after this gets an error
        try:
            if self._wrote and not self._told_of_loss:
                self._check_place()
            if os.fstat(descriptor).st_size == 0 and self._is_in_place():
                os.unlink(self._target)
        finally:
            try:
                os.close(descriptor)
            except OSError as error:
                raise DataError(f"Cannot write {self.path}: {error.strerror or error}.") from None

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _cut_tail(self) -> None:
        if not self._has_tail:
            return
        if (tail := read_tail(self._target)) and not (tail.isspace() or is_torn(tail)):
            raise DataError(f"{self.path} is not a rollout file: its last line is invalid.")
        repair_tail(self._target)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._target), self._status)
        except OSError:
            return False

    def _check_place(self) -> None:
        """Make sure that what was written can be found by the file's name."""
        if self._is_in_place():
            return
        self._told_of_loss = True
        what = "another file is in its place" if os.path.lexists(self._target) else "it was renamed or removed"
        raise DataError(
            f"{self.path} is no longer this run's file: {what}. Put it back and use --resume, or name another file."
        )

    def _check_summary(self, is_new: bool = False) -> None:
        """Make sure that the summary is not that of `a`, where this is `a.jsonl`, or the other way round."""
        name = self.path.name
        sibling = name.removesuffix(".jsonl") if name.endswith(".jsonl") else f"{name}.jsonl"
        summary = self.read_summary()
        owner = summary.get("output", sibling if is_new else name)  # earlier versions did not say it
        if summary and owner == sibling and os.path.isfile(os.path.join(os.path.dirname(self._summary_target), owner)):
            raise DataError(f"{self.summary_path} is the summary of {sibling}; name another file than {self.path}.")


def read_summary(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A summary file; empty if it is missing or broken."""
    try:
        summary = orjson.loads(Path(path).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return summary if _is_summary(summary) else {}


def _is_summary(value: Any) -> bool:
    if not (isinstance(value, dict) and isinstance(settings := value.get("settings", {}), dict)):
        return False
    mappings = value.get("datasets", {}), settings.get("datasets", {})
    return all(isinstance(each, dict) and all(isinstance(part, dict) for part in each.values()) for each in mappings)
