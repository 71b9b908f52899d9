"""Pictures of drift: residuals by position, ratios of probabilities, recorded against computed, and by version."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gym_llm.evaluation.drift.drift import Drift
from gym_llm.evaluation.drift.hypotheses import expected
from gym_llm.evaluation.plots import draw_pictures

_BLUE, _RED, _GREY = "#3367b1", "#c0392b", "#8a8f98"
_MOST_POINTS = 20_000
_BINS = 61
_WIDEST = 5.0  # nats that the histogram shows
_LEAST = 1e-7


def plot_drift(drift: Drift, folder: str | os.PathLike[str]) -> list[Path]:
    """Draw a drift, each picture as PNG and as SVG.

    Args:
        drift: Made by `gym_llm.evaluation.drift.drift.drift_of`.
        folder: Where the pictures go; it is made if it is missing.

    Returns:
        The files: `residuals`, `ratios`, `probabilities`, and `versions` where tokens are of several versions.

    Raises:
        UsageError: If matplotlib is not installed.
        DataError: If the pictures cannot be written.
    """
    pictures = {"residuals": _by_position, "ratios": _ratios, "probabilities": _probabilities}
    if len(drift.summary["by"]["version"]) > 1:
        pictures["versions"] = _versions
    return draw_pictures(((name, partial(_drawn, draw, drift), 3.6) for name, draw in pictures.items()), folder)


def _drawn(draw: Callable[[Any, Drift], None], drift: Drift, figure: Any) -> None:
    axes = figure.add_subplot()
    draw(axes, drift)
    _plain_numbers(axes)


def _shown(drift: Drift) -> np.ndarray:
    """The tokens that are drawn: all, or as many as a picture can hold."""
    count = len(drift.residuals)
    return np.linspace(0, count - 1, min(count, _MOST_POINTS)).astype(int)


def _by_position(axes: Any, drift: Drift) -> None:
    shown = _shown(drift)
    positions, residuals = drift.tokens.offset[shown] + 1, drift.residuals[shown]
    axes.plot(positions, residuals, ".", color=_BLUE, markersize=3, alpha=0.35, rasterized=True)
    edges = np.unique(np.geomspace(1, positions.max() + 1, 24).round().astype(int))
    groups = np.digitize(positions, edges)
    present = np.unique(groups)
    middles = [positions[groups == group].mean() for group in present]
    means = [np.abs(residuals[groups == group]).mean() for group in present]
    axes.plot(middles, means, color=_RED, linewidth=1.6, label="mean distance")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=_threshold(residuals))
    axes.set_xlabel("position in the turn")
    axes.set_ylabel("recorded - computed, nats")
    axes.set_title("Residual of each sampled token")
    axes.legend(loc="upper right")


def _ratios(axes: Any, drift: Drift) -> None:
    logs = np.clip(-drift.residuals, -_WIDEST, _WIDEST)
    width = min(max(float(np.abs(logs).max()), _LEAST), _WIDEST)
    axes.hist(logs, bins=np.linspace(-width, width, _BINS), color=_BLUE)
    axes.set_yscale("log")
    for bound, style_ in ((1.0, "-"), (2.0, "--")):
        if np.log(bound) <= width:
            cut = drift.summary["truncated"][f"{bound:g}"]
            axes.axvline(
                np.log(bound), color=_RED, linewidth=1, linestyle=style_, label=f"C = {bound:g} cuts {cut['mass']:.2%}"
            )
    axes.set_xlabel("log of the ratio trainer / sampler")
    axes.set_ylabel("tokens")
    effective = drift.summary["effective_sample_size"]
    axes.set_title(f"Ratios; effective sample size {effective:.1%}")
    axes.legend(loc="upper right")


def _probabilities(axes: Any, drift: Drift) -> None:
    shown = _shown(drift)
    computed = np.exp(expected(drift.tokens).middle[shown])
    recorded = np.exp(np.clip(drift.tokens.recorded[shown], -50, 5))
    axes.plot(computed, recorded, ".", color=_BLUE, markersize=3, alpha=0.35, rasterized=True)
    axes.plot([0, 1], [0, 1], color=_GREY, linewidth=1)
    axes.set_xlabel("probability under the engine")
    axes.set_ylabel("probability as recorded")
    axes.set_title("Probability of each sampled token")
    axes.grid()


def _versions(axes: Any, drift: Drift) -> None:
    groups = drift.summary["by"]["version"]
    values = [max(each["mean_absolute"], _LEAST) for each in groups.values()]
    axes.bar(range(len(groups)), values, color=_BLUE)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_yscale("log")
    axes.set_xlabel("version of the weights, as recorded")
    axes.set_ylabel("mean distance, nats")
    axes.set_title("Distance by version")


def _plain_numbers(axes: Any) -> None:
    """Write the numbers of logarithmic axes without formulas, which `style` does not draw."""
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale != "linear":
            axis.set_major_formatter(lambda value, _: f"{value:g}")


def _threshold(residuals: np.ndarray) -> float:
    return max(float(np.quantile(np.abs(residuals), 0.75)), _LEAST)
