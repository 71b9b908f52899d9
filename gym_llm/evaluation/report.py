"""`report.md`: an evaluation's tables and plots in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gym_llm.evaluation.plots import Plot
from gym_llm.evaluation.tables import NOTE, Table, headline, notices, plain, tables

_SPECIAL = re.compile(r"[\\|`*_~<>&]|!(?=\[)|(?<=\])\(|^[#+=-](?=\s)")


def report(data: Mapping[str, Any], plots: Sequence[Plot] = ()) -> str:
    """Return `results.json` as Markdown; plots are linked as files beside it."""
    title, state = headline(data)
    parts = [f"# {escaped(title)}", escaped(state), *(f"**{escaped(notice, NOTE)}**" for notice in notices(data))]
    parts += [markdown_table(table) for table in tables(data)]
    parts += [f"## {escaped(plot.title)}\n\n![{escaped(plot.title)}](plots/{plot.name}.png)" for plot in plots]
    files = "".join(f"\n- {escaped(name)}" for name in data.get("files", []))
    parts.append(f"## Records\n{files}\n\nAll figures are in `results.json`.")
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table with its title and its note."""
    rules = ["---" if number < table.words else "---:" for number in range(len(table.header))]
    lines = [list(map(escaped, table.header)), rules, *(list(map(escaped, row)) for row in table.rows)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = f"\n\n{escaped(table.note, NOTE)}" if table.note else ""
    return f"## {escaped(table.title)}\n\n{text}{note}"


def escaped(text: str, longest: int = 300) -> str:
    r"""The text on one line, as a text: no markup, no link, no image.

    >>> escaped("a|b <i>![x](http://y)")
    'a\\|b \\<i\\>\\![x]\\(http://y)'
    """
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", plain(text, longest))
