"""Examples of an evaluation's episodes: the first that were masked, failed or solved, on a page beside the report."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gym_llm.concurrency import wait
from gym_llm.stats.episode_scores import EpisodeScore

PAGE = "episodes.html"

_MOST = 8
_LARGEST = 1 << 22  # bytes of a record
_NOTE = "These are the report's examples. `gym-llm view records` shows all episodes, and the figures of all."


class Examples:
    """Collects the first episodes of each kind, engine and dataset.

    Args:
        pass_threshold: The reward from which on an episode counts as solved.

    Attributes:
        places: What the report says of each: its engine, dataset, kind, run, task and repeat.
    """

    def __init__(self, pass_threshold: float) -> None:
        self.places: list[dict[str, Any]] = []
        self._threshold = pass_threshold
        self._lines: defaultdict[str, list[bytes]] = defaultdict(list)
        self._counts: Counter[tuple[str, ...]] = Counter()

    def see(self, engine: str, file: str, score: EpisodeScore, line: bytes) -> None:
        """Take an episode: its score, and its line of the engine's file."""
        kind = "masked" if score.reward is None else "solved" if score.reward >= self._threshold else "failed"
        key = engine, score.dataset, kind
        if self._counts[key] >= _MOST or len(line) > _LARGEST:
            return
        self._counts[key] += 1
        self._lines[file].append(line)
        place = {"run": Path(file).stem, "task": score.task_index, "repeat": score.repeat_index}
        self.places.append({"engine": engine, "dataset": score.dataset, "kind": kind, **place})

    def write(self, folder: Path) -> None:
        """Write the page.

        Raises:
            DataError: If it cannot be written.
        """
        from gym_llm.evaluation.view.static_page import export_page

        if not self._lines:
            return
        with TemporaryDirectory() as place:
            for name, lines in self._lines.items():
                (Path(place) / name).write_bytes(b"".join(lines))
            wait(export_page([Path(place) / name for name in self._lines], folder / PAGE, note=_NOTE))
