"""The tables of an evaluation's figures, as texts: for the terminal, for Markdown and for the page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gym_llm.utils.text import printable

_Cells: TypeAlias = Callable[[Mapping[str, Any]], list[str]]

_FAMILIES = {
    "pass_at": "pass@{}",
    "pass_all": "pass^{}",
    "majority_at": "majority@{}",
    "best_of": "best of {}",
}
"""By k: at least one of k right, all of k right, the most frequent answer of k, the likeliest answer of k."""

_MARKS = re.compile("[\u061c\u200e\u200f]")  # of direction; whole conversations may have them
_LONGEST = 300  # characters of a cell
NOTE = 4_000
"""Characters of a note."""

_SHARES = ("truncated", "masked", "tool errors")


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        title: What it is of.
        header: Of each column.
        rows: A text for each column.
        words: How many columns, from the left, are words; the others are numbers.
        note: A sentence below it; may be empty.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    words: int
    note: str = ""


OVERVIEW = "Results"


def tables(data: Mapping[str, Any]) -> Iterator[Table]:
    """Every table of what `results.json` says that has something in it."""
    results = data["results"]
    yield from benchmark_tables(data)
    yield overview(data)
    for family, name in _FAMILIES.items():
        # All of them are pass@1 for k = 1, and the overview has pass@k for the largest k.
        ks = chosen_ks(result["metrics"].get(family) for result in results)[1:]
        if ks := ks[:-1] if family == "pass_at" else ks:
            having = [result for result in results if result["metrics"].get(family)]
            yield _table(name.format("k"), having, [name.format(k) for k in ks], _of_ks(family, ks))
    declared = list(dict.fromkeys(name for result in results for name in result["metrics"].get("declared", {})))
    if declared:
        columns = [_arrow(results, name) for name in declared]
        yield _table("The verifiers' own metrics", results, columns, _of_declared(declared))
    yield from group_tables(data)
    columns = ["turns", "tokens in", "tokens out", "seconds", "cost", "per solved"]
    yield _table("Length and cost", results, columns, _length)
    if kinds := list(dict.fromkeys(kind for result in results for kind in result["metrics"].get("failure_kinds", {}))):
        rows = [
            [*_names(result), *(f"{result['metrics']['failure_kinds'].get(kind, 0):,}" for kind in kinds)]
            for result in results
        ]
        yield Table("Masked episodes", ["dataset", "engine", *kinds], rows, 2, _first_error(results))


def overview(data: Mapping[str, Any]) -> Table:
    """The figures that matter most."""
    results = data["results"]
    most = chosen_ks(result["metrics"].get("pass_at") for result in results)
    ks = list(dict.fromkeys([*most[:1], *most[-1:]]))
    columns = ["episodes", "mean reward", *(f"pass@{k}" for k in ks)]

    def cells(result: Mapping[str, Any]) -> list[str]:
        metrics = result["metrics"]
        episodes, planned = metrics["episodes"], result.get("planned") or 0
        played = f"{episodes:,} of {planned:,}" if episodes < planned else f"{episodes:,}"
        return [played, figure(metrics.get("mean_reward")), *_of_ks("pass_at", ks)(result)]

    threshold = data["suite"]["pass_threshold"]
    note = (
        f"[low, high]: {_level(results)} confidence, clustered by task. A reward of {threshold:g} or more counts as "
        "solved. Masked episodes failed through no fault of the model: they have no reward and are in no figure."
    )
    note += "".join(dict.fromkeys(f" {each}" for result in results for each in result.get("warnings") or ()))
    rows = [[*_names(result), *cells(result), *shares(result["metrics"])] for result in results]
    return Table(OVERVIEW, ["dataset", "engine", *columns, *_SHARES], rows, 2, note)


def benchmark_tables(data: Mapping[str, Any]) -> Iterator[Table]:
    """Each benchmark's figure by its own rule; and for several benchmarks a row of figures for each engine."""
    found = [(result, about) for result in data["results"] if (about := result.get("benchmark"))]
    if not found:
        return
    rows = [
        [
            *_names(result),
            _RULES.get(about["rule"], about["rule"].replace("macro:", "mean over ")),
            "; ".join(about["differences"]) or "none",
            figure(about["figure"]),
            f"{about['tasks_played']:,} of {about['tasks']:,}",
            f"{published['figure']:.3f}" if (published := _published_by(about, result)) else "–",
        ]
        for result, about in found
    ]
    header = ["dataset", "engine", "rule", "differs from the recipe", "figure", "tasks", "published"]
    notes = dict.fromkeys(f"{result['dataset']}: {about['notes']}" for result, about in found if about["notes"])
    notes |= dict.fromkeys(
        f"{result['dataset']}: the published figure is from {published['where']}."
        for result, about in found
        if (published := _published_by(about, result))
    )
    yield Table("Benchmarks", header, rows, 4, " ".join(notes))
    names = list(dict.fromkeys(result["dataset"] for result, _ in found))
    if len(names) > 1:
        models = {result["engine"]: result.get("model") or "" for result, _ in found}
        by_place = {(result["engine"], result["dataset"]): _score(about) for result, about in found}
        scores = [
            [engine, model, *(by_place.get((engine, name), "–") for name in names)] for engine, model in models.items()
        ]
        own = [result["dataset"] for result, about in found if not about.get("is_share", True)]
        note = "Percent, by each benchmark's own rule."
        note += f" {', '.join(dict.fromkeys(own))}: on its own scale." if own else ""
        yield Table("Scores", ["engine", "model", *names], scores, 2, note)


_RULES = {"mean": "mean reward", "majority": "majority vote", "f1": "F1 of correct and attempted"}


def _score(about: Mapping[str, Any]) -> str:
    """The figure in percent, or on the benchmark's own scale."""
    estimate = about["figure"]
    if not estimate or estimate.get("value") is None:
        return "–"
    return f"{100 * estimate['value']:.1f}" if about.get("is_share", True) else f"{estimate['value']:.2f}"


def _published_by(about: Mapping[str, Any], result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The published figure of the very model that was played."""
    model = str(result.get("model") or "").rpartition("/")[2].lower()
    return next((each for each in about.get("published", ()) if each["model"].lower() == model), None)


def group_tables(data: Mapping[str, Any]) -> Iterator[Table]:
    """The figures of each group, a table for each field."""
    results = data["results"]
    for field in data["suite"].get("by", ()):
        grouped = [
            (result, value, result["groups"][field][value])
            for result in results
            for value in natural_order(result["groups"].get(field, ()))
        ]
        if not grouped:
            continue
        ks = chosen_ks(metrics.get("pass_at") for _, _, metrics in grouped)
        ks = list(dict.fromkeys([*ks[:1], *ks[-1:]]))
        rows = [
            [
                *_names(result),
                value,
                f"{metrics['episodes']:,}",
                figure(metrics.get("mean_reward")),
                *(figure(metrics["pass_at"].get(str(k))) if "pass_at" in metrics else "–" for k in ks),
                *shares(metrics),
            ]
            for result, value, metrics in grouped
        ]
        header = ["dataset", "engine", field, "episodes", "mean reward", *(f"pass@{k}" for k in ks), *_SHARES]
        yield Table(f"By {field}", header, rows, 3)


def figure(estimate: Mapping[str, Any] | None) -> str:
    """A figure with its interval.

    >>> figure({"value": 0.5, "interval": [0.25, 0.75]}), figure(None)
    ('0.500 [0.250, 0.750]', '–')
    """
    if not estimate or estimate.get("value") is None:
        return "–"
    low, high = estimate.get("interval") or (None, None)
    text = _number(estimate["value"])
    return text if low is None or high is None else f"{text} [{_number(low)}, {_number(high)}]"


def shares(metrics: Mapping[str, Any]) -> list[str]:
    """Return the shares of episodes that were truncated, masked, and had an error in a tool call."""
    names = ("truncated_share", "masked_share", "tool_error_share")
    return ["–" if metrics.get(name) is None else f"{metrics[name]:.1%}" for name in names]


def chosen_ks(figures: Any) -> list[int]:
    """The k of 1, 2, 4, … and the largest that some of the figures have."""
    known = sorted({int(k) for each in figures for k in each or {}})
    return [k for k in known if k & (k - 1) == 0 or k == known[-1]]


def _table(title: str, results: Sequence[Mapping[str, Any]], columns: Sequence[str], cells: _Cells) -> Table:
    rows = [[*_names(result), *cells(result)] for result in results]
    return Table(title, ["dataset", "engine", *columns], rows, 2)


def _names(result: Mapping[str, Any]) -> list[str]:
    return [result["dataset"], result["engine"]]


def _of_ks(family: str, ks: Sequence[int]) -> _Cells:
    def cells(result: Mapping[str, Any]) -> list[str]:
        figures = result["metrics"].get(family) or {}
        return [figure(figures.get(str(k))) for k in ks]

    return cells


def _of_declared(names: Sequence[str]) -> _Cells:
    def cells(result: Mapping[str, Any]) -> list[str]:
        declared = result["metrics"].get("declared", {})
        return [figure(declared.get(name)) for name in names]

    return cells


def _arrow(results: Sequence[Mapping[str, Any]], name: str) -> str:
    declared = (result["metrics"].get("declared", {}) for result in results)
    is_higher_better = next(metrics[name].get("higher_is_better") for metrics in declared if name in metrics)
    return name if is_higher_better is None else f"{name} {'↑' if is_higher_better else '↓'}"


def _length(result: Mapping[str, Any]) -> list[str]:
    metrics = result["metrics"]
    cost = metrics.get("cost") or {}
    total = _dollars(cost.get("total"))
    return [
        _or_dash(metrics.get("turns_per_episode"), "{:.2f}"),
        f"{metrics.get('input_tokens', 0):,}",
        f"{metrics.get('output_tokens', 0):,}",
        _or_dash(metrics.get("seconds_per_episode"), "{:.2f}"),
        f"no price of {', '.join(cost['unpriced'])}" if cost.get("unpriced") else total,
        _dollars(cost.get("per_solved")),
    ]


def _first_error(results: Sequence[Mapping[str, Any]]) -> str:
    errors = [error for result in results if (error := result.get("first_error"))]
    return f"The first one so: {errors[0]}" if errors else ""


def _level(results: Sequence[Mapping[str, Any]]) -> str:
    levels = [level for result in results if (level := result["metrics"].get("level"))]
    return f"{levels[0]:.0%}" if levels else "95%"


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _dollars(value: float | None) -> str:
    """An amount, small ones with the two digits that say something.

    >>> _dollars(1234.5), _dollars(0.0000316)
    ('$1,234.50', '$0.000032')
    """
    if value is None:
        return "–"
    decimals = 2 if value >= 1 or not value else 1 - math.floor(math.log10(value))
    return f"${value:,.{min(decimals, 12)}f}"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10_000 else f"{value:.4g}"


def headline(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the subject of the evaluation, and its progress."""
    results = data["results"]
    datasets, engines = (list(dict.fromkeys(result[name] for result in results)) for name in ("dataset", "engine"))
    finished = sum(result["metrics"]["episodes"] for result in results)
    planned = sum(result.get("planned", 0) for result in results)
    state = f"complete · {finished:,}" if data.get("complete") else f"not complete · {finished:,} of {planned:,}"
    if data.get("complete") and finished and not any(result["metrics"].get("mean_reward") for result in results):
        state = f"no episode has a score · {finished:,}"
    made = f"{data.get('created', '')}, gym_llm {data.get('gym_llm', '')}"
    return f"{_listed(datasets)}, played by {_listed(engines)}", f"{state} episodes · {made}"


def notices(data: Mapping[str, Any]) -> list[str]:
    """Return the notices above the figures: which tasks are sample data, and why episodes have no score."""
    samples = (str(sample) for result in data["results"] if (sample := result.get("sample")))
    return list(dict.fromkeys((*samples, *map(_masked, filter(_has_error, data["results"])))))


def _has_error(result: Mapping[str, Any]) -> bool:
    return bool(result.get("first_error"))


def _masked(result: Mapping[str, Any]) -> str:
    metrics = result["metrics"]
    count = sum(metrics.get("failure_kinds", {}).values())
    return (
        f"{result['dataset']} by {result['engine']}: {count:,} of {metrics['episodes']:,} episodes are masked, "
        f"the first so: {result['first_error']}"
    )


def natural_order(values: Iterable[str]) -> list[str]:
    """The values sorted, numbers by their size.

    >>> natural_order(["level 10", "level 9", "2"])
    ['2', 'level 9', 'level 10']
    """

    def key(value: str) -> list[tuple[bool, int, str]]:
        parts = re.findall(r"[0-9]{1,18}|[^0-9]+", value)
        return [(False, int(part), part) if part[0] in "0123456789" else (True, 0, part) for part in parts]

    return sorted(values, key=key)


def plain(text: str, longest: int = _LONGEST) -> str:
    r"""Return a foreign text on one line, without what could steer a terminal or turn the line round.

    >>> plain("a\n\u202eb")
    'a �b'
    """
    line = " ".join(printable(_MARKS.sub("\ufffd", text)).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
