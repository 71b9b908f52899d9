"""Files that a verifier reads beside a benchmark's tasks, such as databases; they are fetched with the tasks."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_llm.data.files.raw_files import unpack
from gym_llm.data.recipes.fetching import Fetched
from gym_llm.data.recipes.recipe import Attachment, Benchmark
from gym_llm.errors import DataError
from gym_llm.types import Row
from gym_llm.utils.json_codec import dumps

_CHUNK = 1 << 20


def attach(benchmark: Benchmark, loads: Sequence[Fetched], folder: Path) -> dict[str, dict[str, Any]]:
    """Write a benchmark's attachments into its folder of the cache.

    Returns:
        What `benchmark.json` says of each argument: `path` below the folder, and `files` with the size of each.

    Raises:
        DataError: If an archive cannot be read, or has no fitting member.
    """
    return {name: _attach(name, how, loads, folder) for name, how in benchmark.attachments.items()}


def attached(folder: Path, about: dict[str, Any]) -> bool:
    """Whether all attachments that `benchmark.json` names are whole."""
    try:
        return all(
            os.path.getsize(folder / entry["path"] / file) == size
            for entry in about.get("attachments", {}).values()
            for file, size in entry["files"].items()
        )
    except (OSError, KeyError, TypeError, AttributeError):
        return False


def copy_attachments(source: Path, about: dict[str, Any], target: Path) -> None:
    """Copy the attachments of one folder of a benchmark to another."""
    for entry in about.get("attachments", {}).values():
        copy = Path(tempfile.mkdtemp(prefix=".attachment-", dir=target))
        for file in entry["files"]:
            shutil.copyfile(source / entry["path"] / file, copy / file)
        _rename(copy, target / entry["path"])


def _attach(name: str, how: Attachment, loads: Sequence[Fetched], folder: Path) -> dict[str, Any]:
    fresh = Path(tempfile.mkdtemp(prefix=".attachment-", dir=folder))
    try:
        if isinstance(how, str):
            for load in loads:
                if load.source.label == how:
                    for file, path in load.files:
                        unpack(path, file, load.source.member, fresh)
        else:
            tables = {load.source.label: _Rows(loads, load.source.label) for load in loads}
            with open(fresh / f"{name}.jsonl", "wb") as rows:
                for row in how(tables):
                    rows.write(dumps(row))
        files = {path.name: path.stat().st_size for path in sorted(fresh.iterdir())}
        if not files:
            raise DataError(f"{name}: no member of the archive fits {[load.source.member for load in loads]}.")
        place = f"{name}-{_digest(fresh, files)[:16]}"
        _rename(fresh, folder / place)
        return {"path": place, "files": files}
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@dataclass(frozen=True)
class _Rows:
    """The rows of all loads with a label, read anew each time: they may be larger than memory."""

    loads: Sequence[Fetched]
    label: str

    def __iter__(self) -> Iterator[Row]:
        return (row for load in self.loads if load.source.label == self.label for row in load.rows())


def _digest(folder: Path, files: dict[str, int]) -> str:
    digest = hashlib.sha256()
    for name in files:
        digest.update(name.encode())
        with open(folder / name, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def _rename(fresh: Path, place: Path) -> None:
    """Put a folder in its place, whole; an older one of the same name goes first."""
    os.chmod(fresh, 0o755)
    if place.exists():
        shutil.rmtree(place)
    os.replace(fresh, place)
