"""Recorded load: the turns of a rollout file's episodes, and how an engine's answers slow down with their number."""

from __future__ import annotations

import heapq
import json
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_llm.errors import DataError
from gym_llm.records.record_files import read_records


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """The times and tokens of an episode.

    Attributes:
        order: Task and repeat index: episodes were started in this order.
        before: Seconds before the first request: making the task.
        turns: Seconds of each turn: the engine's, then the environment's.
        input_tokens: Given to the model over all turns.
        cached_tokens: Of these, from the server's cache.
        output_tokens: Generated.
    """

    order: tuple[int, int]
    before: float
    turns: tuple[tuple[float, float], ...]
    input_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def seconds(self) -> float:
        """The whole time."""
        return self.before + sum(engine + env for engine, env in self.turns)


@dataclass(frozen=True, slots=True)
class Recording:
    """A rollout file's episodes.

    Attributes:
        episodes: The episodes, in the order of their start.
        concurrency: How many of them were played at once.
        cpu_seconds: CPU seconds that an episode took on the event loop; 0.0 if the summary does not say it.
    """

    episodes: list[RecordedEpisode]
    concurrency: int
    cpu_seconds: float = 0.0


def read_recording(path: str | os.PathLike[str], concurrency: int | None = None) -> Recording:
    """Read a rollout file.

    Args:
        path: The file, with `NAME.summary.json` beside it.
        concurrency: Episodes at once; None for what the summary says.

    Raises:
        DataError: If there is no episode with timing, or the concurrency is unknown.
    """
    episodes = []
    for _, record in read_records(Path(path)):
        turns = tuple((turn["engine"], turn["env"]) for turn in record.get("turn_timing") or ())
        if record["reward"] is None or not turns:
            continue
        ids = record["rollout_id"]
        usage: Any = record.get("response", {}).get("usage") or {}
        played = sum(engine + env for engine, env in turns)
        episodes.append(
            RecordedEpisode(
                order=(ids["task_index"], ids["repeat_index"]),
                before=max(0.0, record["timing"].get("total", played) - played),
                turns=turns,
                input_tokens=usage.get("input_tokens") or 0,
                cached_tokens=(usage.get("input_tokens_details") or {}).get("cached_tokens") or 0,
                output_tokens=usage.get("output_tokens") or 0,
            )
        )
    if not episodes:
        raise DataError(f"{path} has no scored episode with `turn_timing`: record it with this version.")
    summary = Path(path).with_suffix("").with_suffix(".summary.json")
    try:
        stored = json.loads(summary.read_text("utf-8"))
        concurrency = concurrency or int(stored["settings"]["concurrency"])
        cpu_seconds = float(stored.get("cpu_seconds", 0.0)) / max(1, stored.get("episodes_this_run", 1))
    except (OSError, ValueError, LookupError, TypeError):
        if concurrency is None:
            raise DataError(f"{summary} does not say the concurrency of {path}: give it.") from None
        cpu_seconds = 0.0
    return Recording(sorted(episodes, key=lambda episode: episode.order), max(1, concurrency), cpu_seconds)


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """An engine's answers take `1 + slope * (n - 1)` times as long while it answers n requests at once."""

    slope: float

    def slowdown(self, in_flight: float) -> float:
        """Return how many times longer an answer takes than alone."""
        return 1.0 + self.slope * max(in_flight - 1.0, 0.0)


def turn_loads(recording: Recording) -> list[list[float]]:
    """Return the mean number of requests in flight during each turn of each episode.

    A free slot takes the next episode, so the start of each follows from the times of those before it.
    """
    free = [0.0] * min(recording.concurrency, len(recording.episodes))
    spans: list[list[tuple[float, float]]] = []
    for episode in recording.episodes:
        now = heapq.heappop(free) + episode.before
        mine = []
        for engine, env in episode.turns:
            mine.append((now, now + engine))
            now += engine + env
        spans.append(mine)
        heapq.heappush(free, now)
    turns = [span for each in spans for span in each]
    changes = sorted([(start, 1) for start, _ in turns] + [(end, -1) for _, end in turns])
    times, integral, counts = [0.0], [0.0], [0]
    for time, change in changes:
        integral.append(integral[-1] + counts[-1] * (time - times[-1]))
        times.append(time)
        counts.append(counts[-1] + change)

    def area(until: float) -> float:
        place = bisect_right(times, until) - 1
        return integral[place] + counts[place] * (until - times[place])

    return [
        [max(1.0, (area(end) - area(start)) / (end - start)) if end > start else 1.0 for start, end in each]
        for each in spans
    ]


def fit_speed(recordings: Sequence[Recording], engines: int = 1) -> EngineSpeed:
    """Fit how much slower answers become with the load, by least squares over the turns.

    The load of one recording varies as it begins and ends; recordings of several concurrencies say more.

    Args:
        recordings: Of the same engine, tasks and model.
        engines: The number of equal servers behind it.
    """
    loads, seconds = [], []
    for recording in recordings:
        for episode, each in zip(recording.episodes, turn_loads(recording), strict=True):
            loads += [load / engines - 1.0 for load in each]
            seconds += [engine for engine, _ in episode.turns]
    x, y = np.maximum(np.asarray(loads), 0.0), np.asarray(seconds)
    spread = float(((x - x.mean()) ** 2).sum())
    if spread <= 1e-9 or y.mean() <= 0.0:
        return EngineSpeed(0.0)
    slope = max(0.0, float(((x - x.mean()) * (y - y.mean())).sum()) / spread)
    alone = float(y.mean() - slope * x.mean())
    if alone <= 0.02 * y.mean():  # as good as one request at a time
        alone = 0.02 * float(y.mean())
        slope = float(y.mean() - alone) / max(float(x.mean()), 1e-9)
    return EngineSpeed(slope / alone)
