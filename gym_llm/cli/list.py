"""`gym-llm list`: list the environments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gym_llm.cli.help import Command
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from gym_llm.author.catalogue import Description
    from gym_llm.envs.theirs.frameworks import Framework

_EXAMPLES = """\
examples:
  gym-llm list
  gym-llm list math
  gym-llm list math --benchmarks
  gym-llm list --benchmarks --needs judge
  gym-llm list --theirs
  gym-llm list --agents
  gym-llm list | grep get_weather
  gym-llm list --format markdown --into docs/environments.md
"""
app = typer.Typer()


@app.command("list", cls=Command, epilog=_EXAMPLES)
def list_envs(
    chosen: Annotated[
        str | None, typer.Argument(metavar="[DOMAIN]", help="only this domain, e.g. math (as --domain)")
    ] = None,
    *,
    how: Annotated[Literal["table", "markdown"], typer.Option("--format", help="format of the output")] = "table",
    into: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="write the Markdown tables between the markers of this page"),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="NAME", help="only environments or benchmarks of this domain, e.g. math")
    ] = None,
    theirs: Annotated[
        bool, typer.Option("--theirs", help="list the other frameworks whose environments can be played instead")
    ] = False,
    benchmarks: Annotated[bool, typer.Option("--benchmarks", help="list the benchmarks instead")] = False,
    agents: Annotated[bool, typer.Option("--agents", help="list the agents that --agent NAME plays instead")] = False,
    needs: Annotated[
        str | None, typer.Option(metavar="NEED", help="with --benchmarks: those that need a judge, sandbox, images, …")
    ] = None,
) -> int:
    """List every registered environment by domain: summary, number of tasks, tools; or every benchmark.

    If the output is not a terminal, each environment or benchmark is one line with tab-separated columns.
    """
    from gym_llm.author.catalogue import markdown_table, refresh_table

    if chosen is not None and domain is not None:
        raise UsageError("Give the domain once: as `gym-llm list math`, or with --domain.")
    domain = chosen or domain
    if agents:
        from gym_llm.cli.list_agents import list_agents

        list_agents()
        return 0
    if theirs:
        _print_theirs()
        return 0
    if benchmarks:
        from gym_llm.cli.list_benchmarks import list_benchmarks

        list_benchmarks(domain, needs, into, is_markdown=how == "markdown")
        return 0
    if needs is not None:
        raise UsageError("--needs chooses benchmarks: add --benchmarks.")

    if into is not None and domain is not None:
        raise UsageError("--into writes the environments of all domains: leave out --domain.")
    if into is not None:
        refresh_table(into)
    elif how == "markdown":
        print(markdown_table(domain=domain), end="")
    else:
        _print_table(domain)
    return 0


def _print_theirs() -> None:
    from rich.console import Console

    from gym_llm.envs.theirs.frameworks import frameworks

    console, playable = Console(), [each for each in frameworks().values() if each.env_id]
    if not console.is_terminal:
        print("play as", "environment", "packages", "about", sep="\t")
    rows = []
    for framework in playable:
        here = "installed" if framework.is_installed and not framework.is_apart else "in a process of its own"
        if console.is_terminal:
            rows.append((framework, here))
        else:
            packages = f"{' '.join(framework.packages)} ({here})"
            print(f"{framework.prefix}:NAME", framework.env_id, packages, framework.summary, sep="\t")
    if rows:
        _print_theirs_for_reading(console, rows)


def _print_theirs_for_reading(console: Console, rows: list[tuple[Framework, str]]) -> None:
    from rich.text import Text

    table = _two_columns("play as")
    for framework, here in rows:
        notes = f"{' '.join(framework.packages)}: {here}"
        table.add_row(
            f"{framework.prefix}:NAME\n  {framework.env_id}", Text(framework.summary).append(f"\n{notes}", "cyan")
        )
    console.print(table)
    console.print(
        f"{len(rows)} frameworks. gym-llm rollout FRAMEWORK:NAME --engine http://HOST:PORT/v1", highlight=False
    )


def _print_table(domain: str | None) -> None:
    from rich.console import Console

    from gym_llm.author.catalogue import describe, ids_of
    from gym_llm.cli.refusals import printable
    from gym_llm.core.registry.classes import public_splits

    console = Console()
    rows = ((env_id, group, describe(env_id)) for group, ids in ids_of(domain).items() for env_id in ids)
    if console.is_terminal:
        _print_for_reading(console, rows)
        return
    print("environment", "summary", "tasks", "domain", "tools", "public data", sep="\t")
    for env_id, group, about in rows:
        cells = (env_id, about.summary, about.tasks, group, ", ".join(about.tools), ", ".join(public_splits(env_id)))
        print(*(" ".join(printable(cell).split()) for cell in cells), sep="\t")


def _print_for_reading(console: Console, rows: Iterable[tuple[str, str, Description]]) -> None:
    """Print two columns as wide as the terminal; more would be too narrow."""
    from rich.text import Text

    from gym_llm.core.registry.classes import public_splits

    table = _two_columns("environment")
    count = 0
    for env_id, group, about in rows:
        count += 1
        tools = ", ".join(about.tools)
        summary = Text(about.summary).append(f"\n{tools}" if tools else "", "cyan")
        notes = f"  {group}, tasks: {about.tasks}" if about.tasks else f"  {group}"
        notes += "".join(f", {split}" for split in public_splits(env_id))
        table.add_row(f"{env_id}\n{notes}", summary)
    console.print(table)
    console.print(f"{count} environments. gym-llm rollout ENV_ID --engine http://HOST:PORT/v1", highlight=False)


def _two_columns(first: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, leading=1)
    table.add_column(first, no_wrap=True)
    table.add_column("summary", overflow="fold")
    return table
