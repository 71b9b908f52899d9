"""A comparison as pictures: each run's mean reward, the differences, and every task's difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gym_llm.evaluation.compare import Comparison
from gym_llm.evaluation.plots import draw_pictures
from gym_llm.evaluation.tables import plain
from gym_llm.stats.paired import Paired, part_name

_LONGEST = 36  # characters of a name
_BLUE, _GREEN, _RED, _GREY = "#3367b1", "#2e8b57", "#c0392b", "#8a8f98"
_MOST_BARS = 2000  # of one picture: more cannot be told apart


def plot_comparison(comparison: Comparison, folder: str | os.PathLike[str]) -> list[Path]:
    """Draw a comparison, each picture as PNG and as SVG.

    Args:
        comparison: Made by `compare_runs`.
        folder: Where the pictures go; it is made if it is missing.

    Returns:
        The files: `means`, and where there are several runs `differences` and `tasks-1`, `tasks-2`, …

    Raises:
        UsageError: If matplotlib is not installed.
        DataError: If the pictures cannot be written.
    """
    pictures: list[tuple[str, Callable[[Any], None], float]] = [
        ("means", partial(_means, comparison=comparison), 1.3 + 0.45 * len(comparison.runs))
    ]
    if comparison.pairs:
        rows = sum(1 + len(pair.parts) for pair in comparison.pairs)
        pictures.append(("differences", partial(_differences, comparison=comparison), 1.5 + 0.4 * rows))
    for number, pair in enumerate(comparison.pairs, 1):
        pictures.append((f"tasks-{number}", partial(_tasks, pair=pair), 3.6))
    return draw_pictures(pictures, folder)


def _means(figure: Any, comparison: Comparison) -> None:
    axes = figure.add_subplot()
    rows = []
    for name, figures in zip(comparison.runs, comparison.figures, strict=True):
        mean = figures["mean_reward"] or {"value": None, "interval": [None, None]}
        rows.append((_name(name), mean["value"], *mean["interval"], _BLUE))
    _forest(axes, rows, "{:.3f}")
    axes.set_title(f"Mean reward, {comparison.level * 100:g}% intervals", loc="left")


def _differences(figure: Any, comparison: Comparison) -> None:
    axes = figure.add_subplot()
    rows: list[tuple[Any, ...]] = []
    for pair in comparison.pairs:
        for name, each in [(pair.run, pair.difference), *((part_name(p), e) for p, e in pair.parts.items())]:
            color = _GREEN if each.low > 0 else _RED if each.high < 0 else _GREY
            label = _name(name) if each is pair.difference else f"{_name(name)}  "
            rows.append((label, each.value, each.low, each.high, color))
    _forest(axes, rows, "{:+.3f}")
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    baseline = _name(comparison.pairs[0].baseline)
    axes.set_title(f"Difference in mean reward to {baseline}, {comparison.level * 100:g}% intervals", loc="left")


def _forest(axes: Any, rows: Sequence[tuple[Any, ...]], form: str) -> None:
    """A point and an interval for each name, the first on top."""
    for place, (_, value, low, high, color) in enumerate(rows):
        if value is None:
            continue
        if low is not None and low == low:
            axes.plot([low, high], [place, place], color=color, linewidth=2, solid_capstyle="butt")
        axes.plot([value], [place], "o", color=color, markersize=6)
        axes.annotate(form.format(value), (value, place), (0, 7), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.7)
    axes.margins(x=0.08)
    axes.grid(axis="x")


def _tasks(figure: Any, pair: Paired) -> None:
    axes = figure.add_subplot()
    ordered = np.sort(pair.differences)[::-1]
    shown = ordered
    if len(ordered) > _MOST_BARS:
        shown = ordered[np.linspace(0, len(ordered) - 1, _MOST_BARS).round().astype(int)]
    edges = np.linspace(0, len(ordered), len(shown) + 1)
    axes.stairs(np.maximum(shown, 0.0), edges, fill=True, color=_GREEN)
    axes.stairs(np.minimum(shown, 0.0), edges, fill=True, color=_RED)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlim(0, len(ordered))
    equal = len(ordered) - pair.better - pair.worse
    axes.set_xlabel(f"{len(ordered):,} tasks: {pair.better:,} better, {equal:,} equal, {pair.worse:,} worse")
    axes.set_ylabel("difference in reward")
    axes.set_title(f"{_name(pair.run)} against {_name(pair.baseline)}, task by task", loc="left")


def _name(text: str) -> str:
    text = plain(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
