"""Which rollout files a user means: files, folders of them, or what was played last."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from gym_llm.errors import UsageError
from gym_llm.records.nemo_records import is_nemo_record
from gym_llm.utils.json_codec import loads
from gym_llm.utils.text import printable

MOST_FILES = 32
"""The most that a folder stands for: the newest ones."""

_ROLLOUTS = "rollouts"
_LARGEST_SUMMARY = 4 << 20
_LONGEST_FIRST_LINE = 1 << 20


def find_runs(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The rollout files that paths stand for.

    Args:
        paths: Files, and folders: of a folder its files of rollouts (`records/*.jsonl` of a result folder, else
            `*.jsonl`), the newest first, at most `MOST_FILES`. None at all stands for `./rollouts`.

    Raises:
        UsageError: If there are no rollouts, or a file holds something else.
    """
    if not paths:
        if not os.path.isdir(_ROLLOUTS):
            raise UsageError(
                "There is no folder ./rollouts here: play something first (`gym-llm rollout ENV_ID`), or give a FILE."
            )
        paths = [_ROLLOUTS]
    runs: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            runs += _of_folder(path)
        else:
            _refuse_other(path)
            runs.append(path)
    return list(dict.fromkeys(runs))


def find_run(path: str) -> str:
    """Return the one rollout file that a path stands for: a file, or a folder with one, such as `gym-llm eval` writes.

    Raises:
        UsageError: If the folder has none, or several.
    """
    if not os.path.isdir(path):
        return path
    runs = find_runs([path])
    if len(runs) > 1:
        named = ", ".join(map(str, sorted(runs)[:8]))
        raise UsageError(f"{path} has {len(runs)} rollout files: name one of {named}.")
    return str(runs[0])


def read_summary(path: Path) -> dict[str, Any] | None:
    """Return a run's summary, `NAME.summary.json` beside its file; None if it cannot be read.

    A link is not followed: it could lead to a file of the user's own, which an exported page would give away.
    """
    place = path.with_name(path.name.removesuffix(".jsonl") + ".summary.json")
    with suppress(OSError, ValueError):
        if place.is_file() and not place.is_symlink() and place.stat().st_size <= _LARGEST_SUMMARY:
            summary = orjson.loads(place.read_bytes())
            return summary if isinstance(summary, dict) else None
    return None


def shown_name(path: Path) -> str:
    """A file's name as it may be printed, and be in a JSON text."""
    return printable(path.name)


def _of_folder(folder: Path) -> list[Path]:
    records = folder / "records"
    try:
        paths = [path for path in (records if records.is_dir() else folder).glob("*.jsonl") if path.is_file()]
        newest = sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError as error:
        raise UsageError(f"Cannot read {folder}: {error.strerror or error}.") from None
    runs = [path for path in newest if _is_of_rollouts(path) is not False][:MOST_FILES]
    if not runs:
        raise UsageError(f"There are no rollouts in {folder}: no *.jsonl file there has any.")
    return runs


def _refuse_other(path: Path) -> None:
    if path.suffix in (".gz", ".zst", ".bz2", ".xz", ".zip", ".parquet"):
        raise UsageError(f"Cannot show {path}: unpack it first; a file of rollouts is plain JSON Lines.")
    if path.is_file() and _is_of_rollouts(path) is False:
        raise UsageError(f"{path} is not a rollout file: its first line has no `rollout_id` and `reward`.")


def _is_of_rollouts(path: Path) -> bool | None:
    """Whether a file's first line is a rollout; None if that cannot be told (it is empty, broken, or very long)."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        line = file.readline(_LONGEST_FIRST_LINE)
        first = loads(line)
        return is_nemo_record(first) or {"rollout_id", "reward"} <= first.keys()
    return None
