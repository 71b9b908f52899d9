"""Stored runs: their records and settings, for commands that go through records again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from gym_llm.data.files.atomic import refuse_special
from gym_llm.errors import DataError, UsageError
from gym_llm.records.record_files import numbered_records, parse_record, read_records
from gym_llm.records.rollout_file import read_summary
from gym_llm.types import Rollout

_ENDINGS = (".gz", ".zst")


def run_settings(path: str | os.PathLike[str], dataset: str = "") -> dict[str, Any]:
    """Return a run's settings, from the summary beside its file, of one dataset where it had several; {} without one.

    Args:
        path: The rollout file, also a compressed one.
        dataset: The records' `dataset`.
    """
    name = os.fspath(path)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    settings = read_summary(Path(name.removesuffix(".jsonl") + ".summary.json")).get("settings", {})
    own = settings.get("datasets", {}).get(dataset, {})
    sampling = {**_dict(own.get("sampling")), **_dict(settings.get("sampling"))}
    return {**settings, **own, "sampling": sampling}


def records_of(path: str | os.PathLike[str], on_read: Callable[[int], None] | None = None) -> Iterator[Rollout]:
    """Yield the records of a file; `on_read` is called with the bytes of each line."""
    for line, record in read_records(path):
        if on_read is not None:
            on_read(len(line))
        yield record


def episodes_of_task(
    path: str | os.PathLike[str], task_index: int, repeat_index: int | None = None, dataset: str | None = None
) -> Iterator[Rollout]:
    """The episodes of a task, or the one repeat of it; other lines are looked at, but not parsed.

    Args:
        path: The rollout file, also NeMo Gym's and compressed.
        task_index: Which task.
        repeat_index: Which of its episodes; None for all, in the file's order.
        dataset: Of which dataset; None for any.

    Raises:
        DataError: If the file cannot be read, or a line of the task is not a record.
    """
    place = re.compile(rb'task_index"\s*:\s*%d\b' % task_index)
    for _, _, record in numbered_records(path, parse_record, where=place.search):
        found, name = record["rollout_id"], record.get("dataset", "")
        is_asked_for = repeat_index in (None, found["repeat_index"]) and dataset in (None, name)
        if found["task_index"] == task_index and is_asked_for:
            yield record


def of_one_dataset(records: Iterable[Rollout], path: object, dataset: str | None) -> Iterator[Rollout]:
    """The records of a dataset.

    Args:
        records: A file's.
        path: Its name, for the error.
        dataset: Its name; None where the file has one only.

    Raises:
        UsageError: If the file has several, or has none of that name.
    """
    names: dict[str, None] = {}
    count = 0
    for record in records:
        name = record.get("dataset", "")
        names[name] = None
        if dataset is None and len(names) > 1:
            raise UsageError(f"{path} holds several datasets: choose one with --dataset, e.g. {' or '.join(names)}.")
        if dataset in (None, name):
            count += 1
            yield record
    if not count:
        has = f"it has {', '.join(filter(None, names))}" if any(names) else "its records name none"
        raise UsageError(f"{path} has no record." if not names else f"{path} has no dataset {dataset!r}: {has}.")


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise unless a new file can have this name; existing files are not replaced.

    Raises:
        DataError: If the file exists, cannot be a file, or has a compressed file's name.
    """
    refuse_special(path)
    if (name := os.fspath(path)).endswith(_ENDINGS):
        raise DataError(f"{path} would be written uncompressed: name it {name.rpartition('.')[0]}.")
    if os.path.lexists(path):
        raise DataError(f"{path} already exists: name another file.")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
