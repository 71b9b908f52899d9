"""`gym-llm list`: the environments there are."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gym_llm.cli.help import Command
from gym_llm.errors import UsageError

_EXAMPLES = """\
examples:
  gym-llm list
  gym-llm list --domain math
  gym-llm list | grep get_weather
  gym-llm list --format markdown --into docs/environments.md
"""
app = typer.Typer()


@app.command("list", cls=Command, epilog=_EXAMPLES)
def list_envs(
    *,
    how: Annotated[Literal["table", "markdown"], typer.Option("--format", help="of what is printed")] = "table",
    into: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="write the Markdown tables between the marks of this page"),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="NAME", help="only environments of this domain, e.g. math")
    ] = None,
) -> int:
    """List every registered environment by domain: what it is, how many tasks it comes with, its tools."""
    from gym_llm.catalogue import markdown_table, refresh_table

    if into is not None and domain is not None:
        raise UsageError("--into writes the environments of all domains: leave out --domain.")
    if into is not None:
        refresh_table(into)
    elif how == "markdown":
        print(markdown_table(domain=domain), end="")
    else:
        _print_table(domain)
    return 0


def _print_table(domain: str | None) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gym_llm.catalogue import describe, ids_of
    from gym_llm.cli.bars import table_console

    console = table_console()
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, leading=int(console.is_terminal))
    for heading in ("environment", "what it is", "tasks", "domain", "tools")[: 2 if console.is_terminal else 5]:
        table.add_column(heading, overflow="fold", no_wrap=heading == "environment")
    for env_id, group in ((env_id, name) for name, ids in ids_of(domain).items() for env_id in ids):
        about = describe(env_id)
        summary, tasks, tools = Text(about.summary), about.tasks, ", ".join(about.tools)
        if console.is_terminal:  # four columns would be narrow ones
            summary.append(f"\n{tools}" if tools else "", "cyan")
            notes = f"  {group}, tasks: {tasks}" if tasks else f"  {group}"
            table.add_row(f"{env_id}\n{notes}", summary)
        else:
            table.add_row(env_id, summary, tasks, group, tools)
    console.print(table)
