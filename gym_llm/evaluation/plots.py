"""The plots of an evaluation: PNG and SVG, in colours for light pages and for dark ones. Needs matplotlib."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_llm.data.files.atomic import write_atomically
from gym_llm.errors import UsageError
from gym_llm.evaluation.tables import chosen_ks, natural_order, plain
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f", "#475569")
_LIGHTER = ("#60a5fa", "#fbbf24", "#34d399", "#f87171", "#a78bfa", "#22d3ee", "#f472b6", "#a3e635", "#cbd5e1")
_INK, _MUTED, _LINE, _GROUND = "#0f172a", "#64748b", "#e2e8f0", "#ffffff"
_ON_DARK = {
    **dict(zip(_COLOURS, _LIGHTER, strict=True)),
    **{_INK: "#e2e8f0", _MUTED: "#94a3b8", _LINE: "#334155", _GROUND: "#0f172a"},
}
"""What the colours are on a dark page."""

_MARKERS = "osD^vPX*h"
_MOST_PANELS = 12
_MOST_GROUPS = 20
_WIDTH = 9.0  # inches
_LONGEST = 34  # characters of a name


@dataclass(frozen=True)
class Plot:
    """A plot.

    Attributes:
        name: Of its files.
        title: What it shows.
        files: By suffix: `png` and `svg`.
        dark: The SVG in colours for dark pages.
    """

    name: str
    title: str
    files: dict[str, bytes]
    dark: bytes


def draw_plots(data: Mapping[str, Any]) -> list[Plot]:
    """The plots of what `results.json` says; none where matplotlib is not installed, or nothing has a reward."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return []
    results = [result for result in data["results"] if result["metrics"].get("mean_reward")]
    engines = list(dict.fromkeys(result["engine"] for result in data["results"]))
    drawers: list[tuple[str, str, Any]] = [("mean_reward", "Mean reward", _mean_reward)]
    if len({result["dataset"] for result in results if result.get("benchmark")}) > 1:
        drawers.append(("scores", "Scores by each benchmark's own rule", _scores))
    if len(chosen_ks(result["metrics"].get("pass_at") for result in results)) > 1:
        drawers.append(("pass_at_k", "pass@k (solid) and pass^k (dashed)", _pass_at_k))
    if any(result.get("histogram", {}).get("counts") for result in results):
        drawers.append(("rewards", "Rewards", _rewards))
    for number, field in enumerate(data["suite"].get("by", ())):
        if any(field in result["groups"] for result in results):
            drawers.append((f"group_{number + 1}", f"Mean reward by {plain(field)}", _by(field)))
    plots = []
    for name, title, draw in drawers if results else ():
        with matplotlib.rc_context(style()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of letters that the font does not have
            figure = draw(results, engines)
            figure.draw_without_rendering()  # lays it out, once for all formats
            figure.set_layout_engine("none")
            files = {suffix: image(figure, suffix) for suffix in ("png", "svg")}
        plots.append(Plot(name, title, files, _darkened(files["svg"])))
    return plots


def draw_pictures(
    pictures: Iterable[tuple[str, Callable[[Figure], None], float]], folder: str | os.PathLike[str]
) -> list[Path]:
    """Draw pictures, each as PNG and as SVG, and return the files.

    Args:
        pictures: Of each: its name, a function that draws into a figure, and its height in inches.
        folder: Where they go; it is made if it is missing.

    Raises:
        UsageError: If matplotlib is not installed.
        DataError: If they cannot be written.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(f"Drawing needs matplotlib, which is not installed: {install('plots')}") from None
    paths = []
    for name, draw, height in pictures:
        with rc_context(style()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of letters that the font does not have
            figure = Figure(figsize=(7.2, height), layout="constrained")
            draw(figure)
            for ending in ("png", "svg"):
                paths.append(Path(folder, f"{name}.{ending}"))
                write_atomically(paths[-1], image(figure, ending))
    return paths


def style() -> Any:
    """Settings of matplotlib."""
    return {
        "text.parse_math": False,  # a name may have dollar signs
        "text.color": _INK,
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.facecolor": _GROUND,
        "axes.edgecolor": _LINE,
        "axes.labelcolor": _MUTED,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "figure.facecolor": _GROUND,
        "grid.color": _LINE,
        "grid.linewidth": 0.8,
        "xtick.color": _MUTED,
        "ytick.color": _MUTED,
        "xtick.labelcolor": _INK,
        "ytick.labelcolor": _INK,
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.w_pad": 0.1,
        "legend.frameon": False,
        "legend.labelcolor": _INK,
        "svg.fonttype": "path",
        "svg.hashsalt": "gym_llm",
    }


def image(figure: Figure, suffix: str) -> bytes:
    """A figure as `png` or `svg`, the same bytes each time."""
    file = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {"Software": None}
    figure.savefig(file, format=suffix, dpi=160, metadata=metadata)
    return file.getvalue()


def _darkened(svg: bytes) -> bytes:
    colours = re.compile(b"|".join(colour.encode() for colour in _ON_DARK))
    return colours.sub(lambda match: _ON_DARK[match[0].decode()].encode(), svg)


def _mark(engines: Sequence[str], engine: str) -> tuple[str, str]:
    index = engines.index(engine)
    return _COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)]


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), layout="constrained")


def _panels(names: Sequence[str], columns: int, height: float) -> tuple[Figure, Iterator[tuple[str, Axes]]]:
    """A figure with a panel for each name, the first few of them, and the panels."""
    names = names[:_MOST_PANELS]
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    figure = _figure(height * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    return figure, zip(names, axes.flat, strict=False)


def _mean_reward(results: Sequence[Mapping[str, Any]], engines: Sequence[str]) -> Figure:
    datasets = list(dict.fromkeys(result["dataset"] for result in results))
    figure = _figure(0.9 + 0.26 * len(results) + 0.22 * len(datasets))
    axis = figure.subplots()
    _intervals(axis, [(result["dataset"], result["engine"], result["metrics"]) for result in results], engines)
    axis.set_xlabel("mean reward, with its interval")
    _legend(figure, engines)
    return figure


def _scores(results: Sequence[Mapping[str, Any]], engines: Sequence[str]) -> Figure:
    """Bars of the benchmarks' figures, a colour for each engine; figures on a scale of their own are left out."""
    found = [
        (result, about["figure"])
        for result in results
        if (about := result.get("benchmark")) and about["figure"] and about.get("is_share", True)
    ]
    names = list(dict.fromkeys(result["dataset"] for result, _ in found))
    figure = _figure(3.6)
    axis = figure.subplots()
    width = 0.8 / len(engines)
    for result, estimate in found:
        offset = (engines.index(result["engine"]) - (len(engines) - 1) / 2) * width
        place, value = names.index(result["dataset"]) + offset, 100 * estimate["value"]
        low, high = (100 * _or(end, estimate["value"]) for end in estimate.get("interval") or (None, None))
        colour, _ = _mark(engines, result["engine"])
        axis.bar(place, value, width * 0.92, color=colour)
        axis.plot([place, place], [low, high], color=_INK, linewidth=1.1, alpha=0.6)
        axis.annotate(f"{value:.0f}", (place, value), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    axis.set_xticks(range(len(names)), [_short(name) for name in names], rotation=30 if len(names) > 5 else 0)
    axis.set_ylabel("percent")
    axis.set_ylim(0, 105)
    axis.grid(axis="y")
    _legend(figure, engines)
    return figure


def _intervals(axis: Axes, rows: Sequence[tuple[str, str, Mapping[str, Any]]], engines: Sequence[str]) -> None:
    """A point and its interval for each label and engine, the labels from the top down."""
    labels = list(dict.fromkeys(label for label, _, _ in rows))
    spread = 0.7 / max(1, len(engines) - 1) if len(engines) > 1 else 0.0
    for label, engine, metrics in rows:
        estimate = metrics.get("mean_reward") or {}
        if estimate.get("value") is None:
            continue
        offset = (engines.index(engine) - (len(engines) - 1) / 2) * spread
        place, value = labels.index(label) + offset, estimate["value"]
        colour, marker = _mark(engines, engine)
        low, high = (_or(end, value) for end in estimate.get("interval") or (None, None))
        axis.plot([low, high], [place, place], color=colour, linewidth=2.2, alpha=0.55, solid_capstyle="round")
        axis.plot(value, place, marker, color=colour, markersize=6.5, markeredgecolor=_GROUND)
    axis.set_yticks(range(len(labels)), [_short(label) for label in labels])
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")
    axis.spines["left"].set_visible(False)
    _unit(axis, "x")


def _pass_at_k(results: Sequence[Mapping[str, Any]], engines: Sequence[str]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    figure, panels = _panels(list(dict.fromkeys(result["dataset"] for result in results)), 3, 2.7)
    for dataset, axis in panels:
        for result in results:
            if result["dataset"] == dataset:
                colour, marker = _mark(engines, result["engine"])
                _curve(axis, result["metrics"].get("pass_at"), colour, marker, "-")
                _curve(axis, result["metrics"].get("pass_all"), colour, "", "--")
        axis.set_title(_short(dataset))
        axis.set_ylim(-0.03, 1.03)
        axis.set_xlabel("k")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axis.grid()
    _legend(figure, engines)
    return figure


def _curve(axis: Axes, figures: Mapping[str, Any] | None, colour: str, marker: str, line: str) -> None:
    points = {int(k): each for k, each in (figures or {}).items() if each.get("value") is not None}
    ks, values = list(points), [each["value"] for each in points.values()]
    axis.plot(ks, values, line, color=colour, linewidth=1.8, marker=marker if len(ks) <= 16 else "", markersize=4.5)
    if line == "-" and ks:
        ends = [[_or(end, each["value"]) for end in each["interval"]] for each in points.values()]
        lows, highs = zip(*ends, strict=True)
        axis.fill_between(ks, lows, highs, color=colour, alpha=0.14, linewidth=0)


def _rewards(results: Sequence[Mapping[str, Any]], engines: Sequence[str]) -> Figure:
    shown = [result for result in results if result.get("histogram", {}).get("counts")]
    several = len(engines) > 1
    by_name = {result["dataset"] + (f"\n{result['engine']}" if several else ""): result for result in shown}
    figure, panels = _panels(list(by_name), min(4, max(2, len(engines))) if several else 3, 1.9)
    for name, axis in panels:
        result = by_name[name]
        edges, counts = result["histogram"]["edges"], result["histogram"]["counts"]
        colour, _ = _mark(engines, result["engine"])
        width = edges[1] - edges[0]
        heights = [100 * count / sum(counts) for count in counts]
        axis.bar(edges[:-1], heights, width=width * 0.92, align="edge", color=colour)
        axis.set_xlim(edges[0] - width / 2, edges[-1] + width / 2)
        axis.set_ylim(0, max(heights) * 1.08)
        axis.set_title("\n".join(map(_short, name.split("\n"))))
        axis.set_xlabel("reward")
        axis.set_ylabel("% of episodes")
        axis.grid(axis="y")
    return figure


def _by(field: str) -> Any:
    """Draws the means of the groups of a field, those with the most episodes."""

    def draw(results: Sequence[Mapping[str, Any]], engines: Sequence[str]) -> Figure:
        grouped = [result for result in results if result["groups"].get(field)]
        datasets = list(dict.fromkeys(result["dataset"] for result in grouped))[:_MOST_PANELS]
        rows: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
        for dataset in datasets:
            mine = [result for result in grouped if result["dataset"] == dataset]
            sizes: dict[str, int] = {}
            for result in mine:
                for value, metrics in result["groups"][field].items():
                    sizes[value] = sizes.get(value, 0) + metrics["episodes"]
            largest = set(sorted(sizes, key=lambda value: -sizes[value])[:_MOST_GROUPS])
            rows[dataset] = [
                (value, result["engine"], result["groups"][field][value])
                for value in natural_order(largest)
                for result in mine
                if value in result["groups"][field]
            ]
        heights = [0.75 + 0.24 * len(each) for each in rows.values()]
        figure = _figure(sum(heights) + 0.4)
        axes = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)
        for (dataset, each), axis in zip(rows.items(), axes.flat, strict=True):
            _intervals(axis, each, engines)
            axis.set_title(_short(dataset))
        axes.flat[-1].set_xlabel("mean reward, with its interval")
        _legend(figure, engines)
        return figure

    return draw


def _legend(figure: Figure, engines: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    if len(engines) < 2:
        return
    handles = []
    for engine in engines:
        colour, marker = _mark(engines, engine)
        handles.append(Line2D([], [], color=colour, marker=marker, linewidth=2, label=_short(engine)))
    figure.legend(handles=handles, loc="outside upper left", ncols=min(4, len(handles)))


def _unit(axis: Axes, which: str) -> None:
    low, high = axis.get_xlim() if which == "x" else axis.get_ylim()
    if low >= -0.06 and high <= 1.06:
        axis.set_xlim(-0.02, 1.02)


def _or(end: float | None, value: float) -> float:
    return value if end is None else end


def _short(name: str) -> str:
    name = plain(name)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
