"""`gym-llm list`: the environments there are."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

import gymnasium as gym

from gym_llm.registration import env_ids

_EXAMPLES = """\
examples:
  gym-llm list
  gym-llm list | grep get_weather
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
    parser.set_defaults(run=run, command_parser=parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("environment", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("tasks", justify="right")
    table.add_column("tools", overflow="fold")
    for env_id in env_ids():
        table.add_row(*(Text(cell) for cell in (env_id, *_describe(env_id))))
    console = Console()
    if not console.is_terminal:
        console = Console(width=400)  # one line per environment, for grep
    console.print(table)
    return 0


def _describe(env_id: str) -> tuple[str, str, str]:
    try:
        env: Any = gym.make(env_id).unwrapped
        tools = ", ".join(schema["name"] for schema in env.tool_schemas())
        count = env.num_tasks
    except Exception as error:  # another package's environment may fail in any way; the others are listed all the same
        return f"cannot be made: {type(error).__name__}: {error}", "", ""
    doc = (inspect.getdoc(type(env)) or "").strip().partition("\n")[0]
    tasks = "generated" if env.tasks is not None and count is None else str(count or "none")
    return doc, tasks, tools
