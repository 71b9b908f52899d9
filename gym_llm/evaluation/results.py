"""Results of an evaluation: `results.json`, written, read and checked."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_llm.data.files.atomic import write_atomically
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.examples import Examples
from gym_llm.evaluation.headlines import (
    benchmark_result,
    equal_rewards,
    headline_field,
    interval_warnings,
    sample_notice,
)
from gym_llm.records.record_files import read_records
from gym_llm.rollouts.run import Run
from gym_llm.stats.episode_scores import NO_GROUP, EpisodeScore, score_of
from gym_llm.stats.figures import evaluate_groups, evaluate_scores
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.secrets import redact_values
from gym_llm.utils.text import did_you_mean
from gym_llm.version import __version__

SCHEMA_VERSION = 1
RESULTS = "results.json"

_BINS = 20
_OF_A_RESULT: dict[str, type | tuple[type, ...]] = {
    "dataset": str,
    "env_id": str,
    "engine": str,
    "model": (str, type(None)),
    "metrics": dict,
    "groups": dict,
}


@dataclass(frozen=True)
class EvaluationResult:
    """The content of `results.json`.

    Attributes:
        folder: Where it is, with the records and the reports.
        data: All of it, JSON values.
    """

    folder: Path
    data: dict[str, Any]

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is played."""
        return bool(self.data.get("complete"))

    @property
    def results(self) -> list[dict[str, Any]]:
        """The entries, one for each dataset and engine."""
        return list(self.data["results"])

    def shown(self) -> dict[str, Any]:
        """Return the figures for people to read: an engine that only has its URL as a name has its model's name.

        Two URLs of one model keep theirs.
        """
        models = {result["engine"]: result["model"] for result in self.results if result.get("model")}
        names = {
            engine: model
            for engine, model in models.items()
            if engine.startswith(("http://", "https://")) and [*models.values(), *models].count(model) == 1
        }

        def renamed(name: str) -> list[dict[str, Any]]:
            entries = self.data.get(name, [])
            return [{**entry, "engine": names.get(entry["engine"], entry["engine"])} for entry in entries]

        return {**self.data, "results": renamed("results"), "examples": renamed("examples")}

    def metrics(self, dataset: str | None = None, engine: str | None = None) -> dict[str, Any]:
        """The figures of one dataset and engine; either may be left out where there is only one.

        Raises:
            UsageError: If the name is unknown, or several fit.
        """
        wanted = {"dataset": dataset, "engine": engine}
        for name, value in wanted.items():
            known = list(dict.fromkeys(result[name] for result in self.results))
            if value is not None and value not in known:
                raise UsageError(
                    f"There is no {name} {value!r}.{did_you_mean(value, known)} There are {', '.join(known)}."
                )
            if value is None and len(known) > 1:
                raise UsageError(f"Say which {name}: {', '.join(known)}.")
        for result in self.results:
            if all(value in (None, result[name]) for name, value in wanted.items()):
                return dict(result["metrics"])
        raise UsageError(f"{dataset} was not played by {engine}.")


def collect_results(
    folder: Path,
    runs: Mapping[str, Run],
    *,
    by: Sequence[str],
    prices: Mapping[str, Mapping[str, float]],
    pass_threshold: float,
    examples: Examples,
    on_bytes: Callable[[int], None] | None = None,
) -> EvaluationResult:
    """Compute the figures of each run's datasets from its file; for the arguments see `Evaluation`."""
    datasets = dict.fromkeys(dataset for run in runs.values() for dataset in run.parts)
    origins = {name: part.origin for run in runs.values() for name, part in run.parts.items()}
    fields = [field for origin in origins.values() if (field := headline_field(origin)) is not None]
    scores = _read_scores(runs, datasets, [*dict.fromkeys([*by, *fields])], examples, on_bytes)
    every = [score for each in scores.values() for score in each]
    unknown = [name for name in by if every and all(score.groups[name] == NO_GROUP for score in every)]
    edges = {
        dataset: _edges([score for (_, name), each in scores.items() if name == dataset for score in each])
        for dataset in datasets
    }
    results = []
    for (engine, dataset), mine in scores.items():
        part = runs[engine].parts[dataset]
        options: dict[str, Any] = {
            "pass_threshold": pass_threshold,
            "declared": part.verifier.metrics,
            "prices": prices,
        }
        shown = part.model if part.model and engine.startswith(("http://", "https://")) else engine
        metrics, settings = evaluate_scores(mine, **options), runs[engine].settings
        played = {**part.describe(), "sampling": part.sampling(settings)}
        results.append(
            {
                "dataset": dataset,
                "env_id": part.env_id,
                "engine": engine,
                "model": part.model,
                "planned": len(part.plan),
                "first_error": part.summary.first_error,
                "benchmark": benchmark_result(part.origin, played, mine, metrics),
                "sample": sample_notice(dataset, part.env_id, part.origin),
                "warnings": [*interval_warnings(dataset, metrics["tasks"]), *equal_rewards(dataset, shown, mine)],
                "metrics": metrics,
                "histogram": _histogram(mine, edges[dataset]),
                "groups": evaluate_groups(mine, _told_by(mine, by), **options),
            }
        )
    data = {
        "schema_version": SCHEMA_VERSION,
        "gym_llm": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "complete": not any(run.remaining for run in runs.values()),
        "suite": {
            "by": list(by),
            "unknown_by": unknown,
            "pass_threshold": pass_threshold,
            "prices": {model: dict(price) for model, price in prices.items()},
            "engines": {engine: run.as_dict()["settings"] for engine, run in runs.items()},
        },
        "results": results,
        "examples": examples.places,
        "files": [f"{run.path.parent.name}/{run.path.name}" for run in runs.values() if run.summary.episodes],
    }
    return EvaluationResult(folder, redact_values(loads(dumps(data))))


def _read_scores(
    runs: Mapping[str, Run],
    datasets: Iterable[str],
    by: Sequence[str],
    examples: Examples,
    on_bytes: Callable[[int], None] | None,
) -> dict[tuple[str, str], list[EpisodeScore]]:
    """The scores of each engine's episodes of each dataset, in the order of the datasets."""
    scores: dict[tuple[str, str], list[EpisodeScore]] = {}
    for dataset in datasets:
        scores |= {(engine, dataset): [] for engine, run in runs.items() if dataset in run.parts}
    for engine, run in runs.items():
        for line, record in read_records(run.path) if run.summary.episodes else ():
            score = score_of(record, by)
            scores[engine, record.get("dataset", "")].append(score)
            examples.see(engine, run.path.name, score, line)
            if on_bytes is not None:
                on_bytes(len(line))
    return scores


def write_results(result: EvaluationResult) -> None:
    """Write the plots, the reports, and then `results.json`, each file whole or not at all.

    Raises:
        DataError: If one cannot be written.
    """
    from gym_llm.evaluation.page import page
    from gym_llm.evaluation.plots import draw_plots
    from gym_llm.evaluation.report import report

    shown = result.shown()
    plots = draw_plots(shown)
    for plot in plots:
        for suffix, image in plot.files.items():
            write_atomically(result.folder / "plots" / f"{plot.name}.{suffix}", image)
    write_atomically(result.folder / "report.html", page(shown, plots).encode(errors="replace"))
    write_atomically(result.folder / "report.md", report(shown, plots).encode(errors="replace"))
    write_atomically(result.folder / RESULTS, dumps(result.data, indent=True))


def read_results(path: str | os.PathLike[str]) -> EvaluationResult:
    """Read `results.json`, and check that it is what it says.

    Args:
        path: The file, or the folder that it is in.

    Raises:
        DataError: If it cannot be read, is something else, or of a later version.
    """
    path = Path(path)
    file = path / RESULTS if path.is_dir() else path
    try:
        data = loads(file.read_bytes())
    except OSError as error:
        raise DataError(f"Cannot read {file}: {error.strerror or error}.") from None
    except ValueError:
        data = None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DataError(
            f"{file} is of schema version {version}, and this gym_llm reads up to {SCHEMA_VERSION}: update it."
        )
    if problem := _problem(data, version):
        raise DataError(f"{file} is not a result of an evaluation: {problem}.")
    return EvaluationResult(file.parent, data)


def _problem(data: Any, version: Any) -> str:
    if not isinstance(data, dict):
        return "expected a JSON object"
    if type(version) is not int or version < 1:
        return f"its schema_version is {version!r:.40}, expected {SCHEMA_VERSION}"
    if not isinstance(data.get("results"), list):
        return "it has no list of `results`"
    for number, result in enumerate(data["results"]):
        if not isinstance(result, dict):
            return f"results[{number}] is no object"
        for name, kinds in _OF_A_RESULT.items():
            if name not in result or not isinstance(result[name], kinds):
                return f"results[{number}].{name} is missing or of another kind"
    return ""


def _told_by(scores: Sequence[EpisodeScore], by: Sequence[str]) -> list[str]:
    return [name for name in by if any(score.groups[name] != NO_GROUP for score in scores)]


def _edges(scores: Sequence[EpisodeScore]) -> list[float]:
    """The borders of a histogram of the rewards: the same for all engines; none if there is nothing to show."""
    rewards = [score.reward for score in scores if score.reward is not None]
    if not rewards:
        return []
    low, high = min(0.0, *rewards), max(1.0, *rewards)
    width = (high - low) / _BINS
    return [low + width * n for n in range(_BINS)] + [high] if math.isfinite(width) else []


def _histogram(scores: Sequence[EpisodeScore], edges: list[float]) -> dict[str, Sequence[float]]:
    counts = [0] * max(0, len(edges) - 1)
    for score in scores:
        if score.reward is not None and counts:
            position = (score.reward - edges[0]) / (edges[-1] - edges[0]) * len(counts)
            counts[min(len(counts) - 1, int(position))] += 1
    return {"edges": edges, "counts": counts}
