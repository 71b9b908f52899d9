"""The progress bar of `gym_llm.collect` on a terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gym_llm.types import Rollout

_PATIENCE_SECONDS = 2.0


@contextmanager
def episode_bar(total: int, progress: bool | None) -> Iterator[Callable[[Rollout], None]]:
    """A bar on stderr that counts episodes, for as long as the block lasts; called with each record.

    Args:
        total: Episodes to be played.
        progress: Whether there is one; None: if stderr is a terminal, and it takes longer than two seconds.
    """
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("episodes{task.fields[text]}"), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=console.is_terminal)
    task = bar.add_task("", total=total, text="")
    scored, rewards = 0, 0.0

    def count(record: Rollout) -> None:
        nonlocal scored, rewards
        reward: Any = record["reward"]
        if reward is not None:
            scored, rewards = scored + 1, rewards + reward
        bar.update(task, advance=1, text=f", mean reward {rewards / scored:.3f}" if scored else "")

    start = asyncio.get_running_loop().call_later(0.0 if progress else _PATIENCE_SECONDS, bar.start)
    try:
        yield count
    finally:
        start.cancel()
        bar.stop()
