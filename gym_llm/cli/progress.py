"""Progress of a run on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gym_llm.cli.bars import show_bars
from gym_llm.rollout.run import Run


class Progress:
    """Shows how far a run is.

    Args:
        quiet: Show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.show: Callable[[], None] = lambda: None
        """Shows where the run is, if it is time; cheap to call for every episode."""
        self._quiet = quiet
        self._waiting = ""

    @contextmanager
    def of(self, run: Run) -> Iterator[None]:
        """Show this run while the block lasts."""
        if self._quiet:
            yield
            return
        total = run.summary.episodes + run.remaining
        with show_bars() as draw:
            draw("episodes", run.summary.episodes, total, lambda: "starting the engine")
            self.show = lambda: draw("episodes", run.summary.episodes, total, lambda: self._figures(run, total))
            yield

    def note(self, waiting: dict[str, int]) -> None:
        """Note how many episodes wait for what."""
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(waiting.items()))
        self._waiting = f"{sum(waiting.values()):,} in flight ({counts})" if waiting else ""
        self.show()

    def _figures(self, run: Run, total: int) -> str:
        summary, seconds = run.summary, run.seconds
        figures = (
            f"{summary.episodes:,} of {total:,}",
            f"mean reward {summary.mean_reward:.3f}" if summary.episodes else "",
            f"{run.played / seconds if seconds else 0.0:.1f} episodes/s",
            f"{summary.failures} failed" if summary.failures else "",
            f"{run.settings.workers} shards" if run.settings.workers else "",
            self._waiting,
        )
        return ", ".join(filter(None, figures))
