"""`gym-llm list`: the environments there are."""

from __future__ import annotations

import argparse
from typing import Any

from gym_llm.registration import env_ids

_EXAMPLES = """\
examples:
  gym-llm list
  gym-llm list | grep get_weather
  gym-llm list --format markdown --into README.md
"""


def add_list_command(commands: Any) -> None:
    """Add `list` to the parser's subcommands."""
    parser = commands.add_parser(
        "list",
        help="the environments, their tasks and tools",
        description="List every registered environment: what it is, how many tasks it comes with, its tools.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--format", choices=("table", "markdown"), default="table", help="(default: table)")
    parser.add_argument("--into", metavar="FILE", help="write the Markdown table between the marks of this README.md")
    parser.set_defaults(run=run, command_parser=parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, or write it into a README."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gym_llm.scaffold.catalogue import describe, markdown_table, refresh_readme

    if args.into is not None:
        refresh_readme(args.into)
        return 0
    if args.format == "markdown":
        print(markdown_table(), end="")
        return 0

    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("environment", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("tasks", justify="right")
    table.add_column("tools", overflow="fold")
    for env_id in env_ids():
        about = describe(env_id)
        table.add_row(*(Text(cell) for cell in (env_id, about.summary, about.tasks, ", ".join(about.tools))))
    console = Console()
    if not console.is_terminal:
        console = Console(width=400)  # one line per environment, for grep
    console.print(table)
    return 0
