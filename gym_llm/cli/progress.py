"""Progress of reading files and of runs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from gym_llm.cli.bars import Draw, show_bars
from gym_llm.data.files.reading import ON_READ
from gym_llm.rollouts.run import Run

_PATIENCE_SECONDS = 1.0
_TICK_SECONDS = 0.5


@contextmanager
def show_file(path: str | Sequence[str], name: str) -> Iterator[Callable[[int], None]]:
    """Show how much of the files is read; yields a function to call with the number of bytes read."""
    paths = [path] if isinstance(path, str) else path
    done = 0
    # The size of a compressed file says nothing about the bytes that are read from it.
    is_known = all(os.path.isfile(each) and not each.endswith((".gz", ".zst")) for each in paths)
    total = sum(map(os.path.getsize, paths)) if is_known else None

    def count(size: int) -> None:
        nonlocal done
        done += size
        draw(name, done, total, lambda: f"{done / 1e6:,.0f} MB")

    with show_bars() as draw:
        yield count


@contextmanager
def show_reading(what: str = "reading", *, quiet: bool = False) -> Iterator[None]:
    """Show a bar for each task file that takes longer than a second to read inside the block."""
    began: dict[str, float] = {}
    with ExitStack() as stack:
        draw: Draw | None = None

        def report(path: str, done: int, total: int) -> None:
            nonlocal draw
            if time.monotonic() - began.setdefault(path, time.monotonic()) < _PATIENCE_SECONDS:
                return
            draw = draw or stack.enter_context(show_bars())
            draw(f"{what} {os.path.basename(path)}", done, total, lambda: f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB")

        token = ON_READ.set(None if quiet else report)
        try:
            yield
        finally:
            ON_READ.reset(token)


@contextmanager
def show_waiting(name: str) -> Iterator[Callable[[], None]]:
    """Show for how long something is awaited, also while it blocks this thread; yields a function that ends it."""
    over, began = threading.Event(), time.monotonic()

    def tick() -> None:
        print(f"{name} ...", file=sys.stderr, flush=True)
        with show_bars() as draw:
            while not over.wait(_TICK_SECONDS):
                draw(name, 0, None, lambda: f"{time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=tick, name="gym_llm waiting", daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()

    try:
        yield end
    finally:
        end()


@contextmanager
def show_progress(run: Run) -> Iterator[Callable[[], None]]:
    """Show a run's progress; yields a function to call after every episode."""
    with show_bars() as draw:
        yield run_bar(draw, "rollout", run)


def run_bar(draw: Draw, name: str, run: Run) -> Callable[[], None]:
    """Draw a run's bar; returns a function to call after every episode."""
    total = run.summary.episodes + run.remaining
    in_flight = ""

    def figures() -> str:
        summary, seconds = run.summary, run.seconds
        texts = (
            f"{summary.episodes} of {total} episodes",
            f"mean reward {summary.mean_reward:.3f}" if summary.scored else "",
            f"{run.played / seconds if seconds else 0.0:.1f} episodes/s",
            f"{summary.failures} masked" if summary.failures else "",
            f"{run.settings.workers} shards" if run.settings.workers else "",
            in_flight,
        )
        return ", ".join(filter(None, texts))

    def note(waiting: dict[str, int]) -> None:
        nonlocal in_flight
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(waiting.items()))
        in_flight = f"{sum(waiting.values()):,} in flight ({counts})" if waiting else ""
        show()

    def show() -> None:
        draw(name, run.summary.episodes, total, figures)

    run.settings = replace(run.settings, on_waiting=note)
    draw(name, run.summary.episodes, total, lambda: "starting the engine")
    return show
