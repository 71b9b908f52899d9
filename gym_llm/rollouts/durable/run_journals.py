"""The journals of a run: made, reduced to the unfinished episodes, and removed with the run's end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from gym_llm.data.files.atomic import replacing
from gym_llm.errors import DataError
from gym_llm.rollouts.durable.journal import Journal
from gym_llm.rollouts.durable.left_journals import HIDDEN, LeftJournals, is_left
from gym_llm.rollouts.durable.lines import WHOLE_GROUP
from gym_llm.rollouts.plan import Job
from gym_llm.utils.json_codec import dumps

_MADE_BY = "made_by.json"
_ONLY = "_"


def journals_beside(output: Path) -> Path:
    """Return the folder of a run's journals: `runs/a.jsonl.journal` for `runs/a.jsonl`."""
    return Path(os.path.abspath(output)).with_name(output.name + ".journal")


def part_folder(folder: Path, dataset: str) -> Path:
    """Return the folder of one part's journals."""
    return folder / (quote(dataset, safe="")[:200] or _ONLY)


def open_journals(
    folder: Path, made_by: Mapping[str, Any], recorded: Mapping[str, Container[tuple[int, int]]]
) -> dict[str, set[Job]]:
    """Get the journals of a run ready, and return the episodes of each part that can be restored.

    Args:
        folder: See `journals_beside`.
        made_by: What the run's episodes are made by. Journals of other episodes are removed.
        recorded: By part: the episodes whose records are written, and which no run goes on with.

    Raises:
        DataError: If the folder cannot be written.
    """
    written = dumps(made_by)
    if folder.is_dir() and _read(folder / _MADE_BY) != orjson.loads(written):
        remove_journals(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / _MADE_BY) as file:
            file.write(written)
        return {name: drop_recorded(part_folder(folder, name), jobs) for name, jobs in recorded.items()}
    except OSError as error:
        raise DataError(f"Cannot write the journal {folder}: {error.strerror or error}.") from None


def drop_recorded(folder: Path, recorded: Container[tuple[int, int]]) -> set[Job]:
    """Replace the journals that were left with one that has the unfinished episodes only, and return these.

    Args:
        folder: The folder of a part's journals; no worker writes there.
        recorded: The episodes whose records are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in os.listdir(folder):
        if name.startswith(HIDDEN):
            shutil.rmtree(folder / name, ignore_errors=True)
    left = LeftJournals(folder)
    everything = left.scan()
    episodes = {job: episode for job, episode in everything.items() if job not in recorded}
    old = [folder / name for name in os.listdir(folder) if is_left(folder / name)]
    played = {job for job in episodes if job.repeat_index != WHOLE_GROUP}
    if len(old) == 1 and len(episodes) == len(everything):
        return played
    if episodes:
        journal = Journal(folder, is_hidden=True)
        for job, episode in episodes.items():
            journal.begin(job, episode.generation + 1, episode.attempt, episode.lines())
        if journal.is_broken:
            raise DataError(f"Cannot write the journal {folder}: make room for {len(episodes)} unfinished episodes.")
        journal.show()
        journal.close()
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return played


def remove_journals(folder: Path) -> None:
    """Remove a run's folder of journals, of which nothing is needed any more; another folder of this name stays.

    The file that shows whose folder it is goes last, so that the next run can end a removal that a kill interrupts.
    """
    if (folder / _MADE_BY).is_file():
        for path in folder.iterdir():
            if path.name != _MADE_BY:
                shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with suppress(OSError):
            folder.rmdir()


def _read(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
