"""`gym-llm list --benchmarks`: the benchmarks, as a table for people, lines for programs, or Markdown for the docs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from gym_llm.data.files.atomic import write_atomically
from gym_llm.data.recipes.catalogue import benchmarks
from gym_llm.data.recipes.prepared import pinned
from gym_llm.data.recipes.recipe import Benchmark, Need
from gym_llm.errors import UsageError
from gym_llm.utils.text import did_you_mean

_BLOCK = re.compile(r"(<!-- benchmarks\b.*?-->\n).*?(<!-- end of benchmarks -->)", re.DOTALL)


def list_benchmarks(domain: str | None, needs: str | None, into: str | None, *, is_markdown: bool) -> None:
    """Print the benchmarks, or write them into a page.

    Raises:
        UsageError: If a domain or a need is unknown, or the page has no markers.
    """
    chosen = _chosen(domain, needs)
    if into is not None:
        page = Path(into)
        text = page.read_text("utf-8")
        if not _BLOCK.search(text):
            raise UsageError(f"{into} has no markers `<!-- benchmarks -->` and `<!-- end of benchmarks -->`.")
        table = markdown(chosen)
        write_atomically(page, _BLOCK.sub(lambda match: f"{match[1]}{table}{match[2]}", text).encode())
    elif is_markdown:
        print(markdown(chosen), end="")
    else:
        _print(chosen)


def markdown(chosen: Iterable[Benchmark]) -> str:
    """Return a table of benchmarks in Markdown."""
    lines = ["| name | what it is | verifier | repeats | needs | pinned |", "|---|---|---|---:|---|---|"]
    pins = pinned()
    for each in chosen:
        names = ", ".join(f"`{name}`" for name in (each.name, *each.aliases))
        verifier = each.env_id.rpartition("/")[2] if each.env_id else "none yet"
        pin = "yes" if each.name in pins else "at first fetch"
        lines.append(f"| {names} | {each.title} | {verifier} | {each.repeats} | {', '.join(each.needs)} | {pin} |")
    return "\n".join(lines) + "\n"


def _chosen(domain: str | None, needs: str | None) -> list[Benchmark]:
    every = list(benchmarks().values())
    domains = sorted({each.domain for each in every})
    for value, known, what in ((domain, domains, "domain"), (needs, get_args(Need), "need")):
        if value is not None and value not in known:
            raise UsageError(
                f"No benchmark has the {what} {value!r}.{did_you_mean(value, known)} There are {', '.join(known)}."
            )
    return [each for each in every if domain in (None, each.domain) and (needs is None or needs in each.needs)]


def _print(chosen: list[Benchmark]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        print("benchmark", "title", "domain", "environment", "tasks", "repeats", "needs", sep="\t")
        for each in chosen:
            tasks = "" if each.rows is None else each.rows
            print(
                each.name,
                each.title,
                each.domain,
                each.env_id or "",
                tasks,
                each.repeats,
                ",".join(each.needs),
                sep="\t",
            )
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("benchmark", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("needs")
    for each in sorted(chosen, key=lambda each: (each.domain, each.name)):
        title = each.title if each.env_id else f"{each.title} (no verifier yet)"
        table.add_row(
            each.name,
            f"{title}\n[dim]{each.domain}, {each.repeats} repeat{'s' if each.repeats > 1 else ''}[/dim]",
            ", ".join(each.needs),
        )
    console.print(table)
    console.print(f"{len(chosen)} benchmarks. gym-llm eval NAME --engine http://HOST:PORT/v1", highlight=False)
