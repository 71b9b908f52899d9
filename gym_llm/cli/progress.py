"""Progress of a run on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from gym_llm.rollout.summary import Summary

_BAR_SECONDS = 0.1
_LINE_SECONDS = 10.0


class Show(Protocol):
    """Shows how far the run is; cheap to call for every episode."""

    def __call__(self, summary: Summary, played: int, seconds: float, waiting: Mapping[str, int] | None = None) -> None:
        """Show it.

        Args:
            summary: All records so far.
            played: How many of them this run played.
            seconds: What that took.
            waiting: How many episodes wait for what; None if it is not known anew.
        """


@contextmanager
def show_progress(total: int, *, workers: int, quiet: bool) -> Iterator[Show]:
    """Show a run's progress while it lasts.

    Args:
        total: Episodes that the file will hold in the end.
        workers: Processes that play; 0 for this one.
        quiet: Show nothing.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda summary, played, seconds, waiting=None: None
    elif console.is_terminal and not console.is_dumb_terminal:
        columns = (
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, refresh_per_second=5, transient=True, expand=True) as bar:
            task = bar.add_task("", total=total, figures="starting the engine")
            yield _throttled(
                lambda summary, text: bar.update(task, completed=summary.episodes, figures=text),
                workers,
                _BAR_SECONDS,
                0.0,
            )
    else:
        yield _throttled(
            lambda summary, text: console.out(f"{summary.episodes} of {total} episodes, {text}", highlight=False),
            workers,
            _LINE_SECONDS,
            time.monotonic(),
        )


def _throttled(draw: Callable[[Summary, str], None], workers: int, every: float, last: float) -> Show:
    waited = ""

    def show(summary: Summary, played: int, seconds: float, waiting: Mapping[str, int] | None = None) -> None:
        nonlocal last, waited
        if waiting is not None:
            counts = ", ".join(f"{count:,} {what}" for what, count in sorted(waiting.items()))
            waited = f"{sum(waiting.values()):,} in flight ({counts})" if waiting else ""
        moment = time.monotonic()
        if moment - last < every:
            return
        last = moment
        figures = []
        if summary.episodes:
            figures.append(f"mean reward {summary.mean_reward:.3f}")
        figures.append(f"{played / seconds if seconds else 0.0:.1f} episodes/s")
        if summary.failures:
            figures.append(f"{summary.failures} failed")
        if workers:
            figures.append(f"{workers} shards")
        if waited:
            figures.append(waited)
        draw(summary, ", ".join(figures))

    return show
