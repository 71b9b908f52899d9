"""`gym-llm list`: the environments there are."""

from __future__ import annotations

import inspect
from typing import Any

import typer

from gym_llm.cli.help import Command

_EXAMPLES = """\
examples:
  gym-llm list
  gym-llm list | grep get_weather
"""
app = typer.Typer()


@app.command("list", cls=Command, epilog=_EXAMPLES)
def list_envs() -> int:
    """List every registered environment: what it is, how many tasks it comes with, its tools."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gym_llm.cli.bars import table_console
    from gym_llm.registration import env_ids

    console = table_console()
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, leading=int(console.is_terminal))
    for heading in ("environment", "what it is", "tasks", "tools")[: 2 if console.is_terminal else 4]:
        table.add_column(heading, overflow="fold", no_wrap=heading == "environment")
    for env_id in env_ids():
        doc, tasks, tools = _describe(env_id)
        if console.is_terminal:  # four columns would be narrow ones
            count, tools = f"\n  {tasks} tasks" if tasks else "", f"\n{tools}" if tools else ""
            table.add_row(Text(env_id + count), Text.assemble(doc, (tools, "cyan")))
        else:
            table.add_row(*map(Text, (env_id, doc, tasks, tools)))
    console.print(table)
    return 0


def _describe(env_id: str) -> tuple[str, str, str]:
    import gymnasium as gym

    try:
        env: Any = gym.make(env_id).unwrapped
        tools = ", ".join(schema["name"] for schema in env.tool_schemas())
        count = env.num_tasks
    except Exception as error:  # another package's environment may fail in any way; the others are listed all the same
        return f"cannot be made: {type(error).__name__}: {error}", "", ""
    doc = (inspect.getdoc(type(env)) or "").strip().partition("\n")[0]
    tasks = "generated" if env.tasks is not None and count is None else str(count or "no")
    return doc, tasks, tools
