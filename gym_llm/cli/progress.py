"""Progress of a run on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from gym_llm.rollout.run import Run

_BAR_SECONDS = 0.1
_LINE_SECONDS = 10.0


class Progress:
    """Shows how far a run is; cheap to call for every episode.

    Args:
        quiet: Show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._draw: Callable[[], None] = lambda: None
        self._every = self._next = 0.0
        self._waiting = ""

    @contextmanager
    def of(self, run: Run) -> Iterator[None]:
        """Show this run while the block lasts."""
        console = Console(stderr=True)
        total = run.summary.episodes + run.remaining
        columns = (SpinnerColumn(), MofNCompleteColumn(), BarColumn(bar_width=None), TextColumn("{task.description}"))
        if self._quiet:
            yield
        elif console.is_terminal and not console.is_dumb_terminal:
            with Bar(*columns, TimeRemainingColumn(), console=console, refresh_per_second=5, transient=True) as bar:
                bar.expand = True
                task = bar.add_task("starting the engine", total=total)
                self._every = _BAR_SECONDS
                self._draw = lambda: bar.update(task, completed=run.summary.episodes, description=self._figures(run))
                yield
        else:
            self._every, self._next = _LINE_SECONDS, time.monotonic() + _LINE_SECONDS
            self._draw = lambda: console.out(
                f"{run.summary.episodes} of {total} episodes, {self._figures(run)}", highlight=False
            )
            yield

    def note(self, waiting: dict[str, int]) -> None:
        """Note how many episodes wait for what."""
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(waiting.items()))
        self._waiting = f"{sum(waiting.values()):,} in flight ({counts})" if waiting else ""
        self.show()

    def show(self) -> None:
        """Show where the run is, if it is time."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + self._every
            self._draw()

    def _figures(self, run: Run) -> str:
        summary, seconds = run.summary, run.seconds
        figures = (
            f"mean reward {summary.mean_reward:.3f}" if summary.episodes else "",
            f"{run.played / seconds if seconds else 0.0:.1f} episodes/s",
            f"{summary.failures} failed" if summary.failures else "",
            f"{run.settings.workers} shards" if run.settings.workers else "",
            self._waiting,
        )
        return ", ".join(filter(None, figures))
