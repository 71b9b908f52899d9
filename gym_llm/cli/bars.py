"""Progress bars, and tables with the console for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

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


def figures_table(rows: Mapping[str, str]) -> Table:
    """Return a table without a header: names in bold, and their figures."""
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for row in rows.items():
        table.add_row(*row)
    return table


def columns_table(*names: str | Text, words: int = 1, **options: Any) -> Table:
    """Return an empty table: the first columns have words, which are folded; the others have figures.

    Args:
        *names: The names of the columns.
        words: The number of columns with words.
        **options: Options of `rich.table.Table`.
    """
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", **options)
    for number, name in enumerate(names):
        is_word = number < words
        table.add_column(name, justify="left" if is_word else "right", overflow="fold", no_wrap=not is_word)
    return table
