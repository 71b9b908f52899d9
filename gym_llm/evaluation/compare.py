"""Comparisons of runs over the same tasks: which run is better, by how much, on which tasks, and is it significant?"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.results import RESULTS, read_results
from gym_llm.evaluation.suite import file_names
from gym_llm.records.record import OWN_NAMES
from gym_llm.records.record_files import read_records
from gym_llm.stats.episode_scores import EpisodeScore, rollout_files, score_of
from gym_llm.stats.figures import evaluate_scores
from gym_llm.stats.intervals import LEVEL, RESAMPLES
from gym_llm.stats.paired import Paired, TaskKey, pair, part_name
from gym_llm.stats.run_summary import PASS_THRESHOLD
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps
from gym_llm.version import __version__

SCHEMA_VERSION = 1
"""The keys of `Comparison.as_dict`."""
DETECT = 0.02
"""The difference for which it is said how many tasks it takes: two points."""


@dataclass(slots=True)
class RunScores:
    """A run's episodes.

    Attributes:
        name: What reports call it.
        path: Where it is from.
        scores: Its rows.
        digests: Of each task's fields and first messages, by its part and number.
    """

    name: str
    path: str
    scores: list[EpisodeScore] = field(default_factory=list)
    digests: dict[TaskKey, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Comparison:
    """A baseline and the runs that are compared with it.

    Attributes:
        runs: The runs' names, the baseline first.
        paths: Where they are from.
        figures: What each says by itself; see `gym_llm.stats.figures.evaluate_scores`.
        pairs: One for each run but the baseline.
        pass_threshold: The reward from which on an episode passes.
        level: Of confidence.
    """

    runs: list[str]
    paths: list[str]
    figures: list[dict[str, Any]]
    pairs: list[Paired]
    pass_threshold: float
    level: float

    def as_dict(self, *, detect: float = DETECT) -> dict[str, Any]:
        """JSON values; NaN is None. `detect` is the difference that `power` is about."""
        return {
            "schema_version": SCHEMA_VERSION,
            "gym_llm": __version__,
            "level": self.level,
            "pass_threshold": self.pass_threshold,
            "runs": [
                {"name": name, "path": path, **figures}
                for name, path, figures in zip(self.runs, self.paths, self.figures, strict=True)
            ],
            "comparisons": [pair.as_dict(detect=detect) for pair in self.pairs],
        }

    def failures(self, *, below: float | None = None, worse_by: float | None = None) -> list[str]:
        """Return the reasons why a gate refuses the runs, a sentence each; empty if it lets them pass.

        Args:
            below: The mean reward that each run but the baseline has to reach; the baseline, if it is the only one.
            worse_by: How much lower than the baseline's, over the tasks of both, a run's mean reward may be. It is the
                measured difference that counts, not its interval.
        """
        sentences = []
        if below is not None:
            first = 0 if len(self.runs) == 1 else 1
            for name, figures in list(zip(self.runs, self.figures, strict=True))[first:]:
                mean = figures["mean_reward"] and figures["mean_reward"]["value"]
                if mean is None or mean < below:
                    shown = "unknown, as no episode has one" if mean is None else f"{mean:.4f}"
                    sentences.append(f"{name}: the mean reward is {shown}; expected {below:g} or more.")
        if worse_by is not None:
            sentences += [
                f"{pair.run}: the mean reward is {-pair.difference.value:.4f} below that of {pair.baseline} "
                f"(p = {pair.test.p_value:.2g}); allowed are {worse_by:g}."
                for pair in self.pairs
                if not pair.difference.value >= -worse_by - 1e-12
            ]
        return sentences


def read_run(
    path: str | os.PathLike[str], *, name: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> RunScores:
    """Read a run for comparing it.

    Args:
        path: A rollout file, or an evaluation's folder.
        name: What reports call it; None for the file's or folder's name.
        on_bytes: Called with the size of each line that was read.

    Raises:
        DataError: If a file cannot be read, or a line is not a rollout.
        UsageError: If a file has no episode, or one twice, e.g. in a folder with several engines.
    """
    run = RunScores(name or Path(path).absolute().name.removesuffix(".jsonl"), os.fspath(path))
    seen: dict[tuple[TaskKey, int], Path] = {}
    for file in rollout_files(path):
        for line, record in read_records(file):
            score = score_of(record)
            key = (score.env_id, score.dataset), score.task_index
            if (other := seen.setdefault((key, score.repeat_index), file)) is not file:
                raise UsageError(
                    f"{path}: {other.name} and {file.name} both have task {score.task_index}, repeat "
                    f"{score.repeat_index}: name a file."
                )
            run.scores.append(score)
            if key not in run.digests and "responses_create_params" in record:
                run.digests[key] = _digest(record)
            if on_bytes is not None:
                on_bytes(len(line))
    if not run.scores:
        raise UsageError(f"{path} has no episodes.")
    return run


def engine_runs(path: str) -> list[str]:
    """Return the file of each engine of a `gym-llm eval` folder, in the order of its command; else the path alone.

    Args:
        path: An evaluation's folder, its folder of records, or a rollout file.
    """
    if not Path(path).exists():
        raise DataError(f"Cannot read {path}: No such file or directory.")
    if not Path(path).is_dir() or len(files := rollout_files(Path(path).absolute())) == 1:
        return [path]
    results = files[0].parent.with_name(RESULTS)
    if not results.exists():
        return [path]
    names = list(file_names(read_results(results).data["suite"]["engines"]).values())
    return [str(files[0].with_name(name)) for name in names if files[0].with_name(name) in files]


def compare_runs(
    runs: Sequence[RunScores],
    *,
    pass_threshold: float = PASS_THRESHOLD,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = RESAMPLES,
    check_tasks: bool = True,
) -> Comparison:
    """Compare runs over the same tasks with the first of them.

    Args:
        runs: The baseline, and any number of others; see `read_run`.
        pass_threshold: The smallest reward of an episode that passes.
        level: The confidence level.
        seed: Seed of the bootstrap and of the sign-flip test.
        resamples: Number of resamples of the bootstrap.
        check_tasks: Whether tasks of one number must have the same fields and the same first messages.

    Raises:
        ValueError: If the level is invalid.
        UsageError: If no run is given, or two runs have no task in common. Also if rewards are too large to subtract,
            or tasks of one number differ.
    """
    if not runs:
        raise UsageError("Which runs? Give the baseline's file first, then others.")
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [run.path for run in runs]
    options: dict[str, Any] = {
        "pass_threshold": pass_threshold, "level": level, "seed": seed, "resamples": resamples
    }  # fmt: skip
    figures = [evaluate_scores(run.scores, repeats=1, **options) for run in runs]
    for found in figures:
        del found["repeats"]
    pairs = []
    for run, name in zip(runs[1:], names[1:], strict=True):
        parts = [{(score.env_id, score.dataset) for score in each.scores} for each in (runs[0], run)]
        is_single = all(len(each) == 1 for each in parts)  # then it is the same one, whatever it is called
        before, after = (_by_task(each, is_single) for each in (runs[0], run))
        if not before.keys() & after.keys():
            raise UsageError(
                f"{runs[0].path} and {run.path} have no scored task in common: compare runs over the same tasks."
            )
        if check_tasks:
            _check_tasks(runs[0], run, is_single)
        try:
            pairs.append(pair(before, after, (names[0], name), **options))
        except ValueError as error:
            raise UsageError(f"{runs[0].path} and {run.path} cannot be compared: {error}.") from None
    for each, p_value in zip(pairs, _holm([each.test.p_value for each in pairs]), strict=True):
        each.p_value_holm = p_value
    return Comparison(names, [run.path for run in runs], figures, pairs, pass_threshold, level)


def _by_task(run: RunScores, is_single: bool) -> dict[TaskKey, list[EpisodeScore]]:
    tasks: dict[TaskKey, list[EpisodeScore]] = defaultdict(list)
    for score in run.scores:
        if score.reward is not None:
            tasks[_key(((score.env_id, score.dataset), score.task_index), is_single)].append(score)
    return dict(tasks)


def _check_tasks(baseline: RunScores, run: RunScores, is_single: bool) -> None:
    digests, others = (
        {_key(key, is_single): digest for key, digest in each.digests.items()} for each in (baseline, run)
    )
    common = digests.keys() & others.keys()
    if changed := sorted(key for key in common if digests[key] != others[key]):
        part, index = changed[0]
        where = f" of {part_name(part)}" if any(part) else ""
        raise UsageError(
            f"{len(changed):,} of {len(common):,} tasks differ in {baseline.path} and {run.path}, the first is "
            f"{index}{where}. See --unchecked."
        )


def _key(key: TaskKey, is_single: bool) -> TaskKey:
    return (("", ""), key[1]) if is_single else key


def _digest(record: Rollout) -> bytes:
    """Return a digest of a task: its own fields and its first messages, not the sampling."""
    fields = {name: value for name, value in record.items() if name not in OWN_NAMES}
    request: Any = fields.pop("responses_create_params")
    fields.update(record.get("task_fields", {}))
    hasher = blake2b(dumps([request.get("instructions"), request["input"]]), digest_size=16)
    for name in sorted(fields):
        hasher.update(dumps([name, fields[name]]))
    return hasher.digest()


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction for several comparisons."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
