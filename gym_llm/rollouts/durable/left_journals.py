"""LeftJournals: the journals of workers that have ended, and the episodes that can be restored from them.

A run's journals are a folder beside its output, `FILE.journal/PART/WORKER/NUMBER.log`. A worker holds a lock in its
folder while it lives; the kernel drops the lock with the process. So a folder without a lock is one that was left.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from gym_llm.data.files.atomic import open_locked
from gym_llm.errors import DataError
from gym_llm.rollouts.durable.lines import BEGIN, Line, read_lines, unpack_line
from gym_llm.rollouts.plan import Job

LOCK = "lock"
HIDDEN = "."
"""How the names of folders begin that are being made."""

Place: TypeAlias = tuple[Path, int, int]
"""The place of a line: file, start, length."""


@dataclass(slots=True)
class LeftEpisode:
    """An episode as its journal has it.

    Attributes:
        generation: How often it was begun, by any worker.
        attempt: How often it was played before because it had failed, plus 1.
        copied: The number of lines that were copied at its beginning.
        places: The places of its lines, in their order.
    """

    generation: int
    attempt: int = 1
    copied: int = -1
    places: list[Place] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all that was to be copied is there."""
        return 0 <= self.copied <= len(self.places)

    def read(self) -> list[bytes]:
        """Return the lines after the first, each with its newline."""
        lines: list[bytes] = []
        with ExitStack() as stack:
            files: dict[Path, BinaryIO] = {}
            for path, start, length in self.places:
                file = files.get(path) or files.setdefault(path, stack.enter_context(path.open("rb")))
                file.seek(start)
                lines.append(file.read(length))
        return lines

    def lines(self) -> list[Line]:
        """Return the content of the lines after the first."""
        return [line for data in self.read() if (line := unpack_line(data[:-1])) is not None]


class LeftJournals:
    """The journals in a folder whose workers have ended.

    Args:
        folder: The folder of a part's journals.
        own: The name of the reader's own journal, which is left out.
    """

    def __init__(self, folder: Path, own: str = "") -> None:
        self.folder = folder
        self._read = {own}
        self._episodes: dict[Job, LeftEpisode] = {}

    def take(self, job: Job) -> LeftEpisode | None:
        """Return the newest whole state of an episode, once; None if no worker has begun it."""
        self.scan()
        return self._episodes.pop(job, None)

    def scan(self) -> dict[Job, LeftEpisode]:
        """Read the journals that were left since the last call, and return all episodes that were not taken."""
        for name in sorted(os.listdir(self.folder)) if self.folder.is_dir() else ():
            path = self.folder / name
            if name in self._read or name.startswith(HIDDEN) or not is_left(path):
                continue
            self._read.add(name)
            for job, episode in read_journal(path).items():
                known = self._episodes.get(job)
                if known is None or known.generation < episode.generation:
                    self._episodes[job] = episode
        return self._episodes


def is_left(path: Path) -> bool:
    """Whether a folder is the journal of a worker that has ended."""
    if not (path / LOCK).is_file():
        return False
    try:
        os.close(open_locked(path / LOCK))
    except (DataError, OSError):
        return False
    return True


def read_journal(path: Path) -> dict[Job, LeftEpisode]:
    """Return the episodes of one worker's journal, each in its newest whole generation."""
    episodes: dict[tuple[Job, int], LeftEpisode] = {}
    for file in sorted(path.glob("*.log")):
        for start, length, line in read_lines(file):
            name = line.job, line.generation
            episode = episodes.get(name) or episodes.setdefault(name, LeftEpisode(line.generation))
            if line.kind == BEGIN:
                episode.attempt, episode.copied = int(line.key), int(line.body)
            else:
                episode.places.append((file, start, length))
    newest: dict[Job, LeftEpisode] = {}
    for (job, generation), episode in episodes.items():
        if episode.is_whole and (job not in newest or newest[job].generation < generation):
            newest[job] = episode
    return newest


def new_name() -> str:
    """Return a name for a worker's folder that no other has."""
    return f"{time.time_ns():x}-{os.getpid():x}"
