"""Progress bars, and the console for tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn

from gym_llm.cli.refusals import printable

Draw: TypeAlias = Callable[[str, int, int | None, Callable[[], str]], None]
"""`draw(name, done, total, text)` updates the bar of that name; cheap, `text` is called only if it is shown."""

_BAR_SECONDS = 0.1
_LINE_SECONDS = 10.0


@contextmanager
def show_bars() -> Iterator[Draw]:
    """Show progress on stderr: a bar for each name on a terminal, else a line every ten seconds."""
    console = Console(stderr=True)
    is_terminal = console.is_terminal and not console.is_dumb_terminal
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[text]}"))
    bars = Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, expand=True, disable=not is_terminal
    )
    tasks: dict[str, TaskID] = {}
    last = time.monotonic()

    def draw(name: str, done: int, total: int | None, text: Callable[[], str]) -> None:
        nonlocal last
        now = time.monotonic()
        if is_terminal and name not in tasks:
            tasks[name] = bars.add_task(printable(name), completed=done, total=total, text=text())
        elif is_terminal and (now - last >= _BAR_SECONDS or done == total):
            bars.update(tasks[name], completed=done, total=total, text=text())
        elif not is_terminal and now - last >= _LINE_SECONDS:
            console.out(f"{name}: {text()}", highlight=False)
        else:
            return
        last = now

    with bars:
        yield draw


def table_console() -> Console:
    """Return the console for tables on stdout; if that is not a terminal, every row is one line, for `grep`."""
    console = Console()
    return console if console.is_terminal else Console(width=400)
