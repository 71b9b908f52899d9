"""`gym-llm profile`: where a verifier spends its time."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import complete_env, printable

_EXAMPLES = """\
examples:
  gym-llm profile gym_llm/MathVerify-v0 --rollouts runs/math.jsonl
  gym-llm profile ./my_env.py --rollouts runs/mine.jsonl --limit 200 --output profile/
  gym-llm profile gym_llm/Weather-v0 --rollouts runs/w.jsonl --json

Plays stored rollouts again through the environment, with no engine: all hooks and tools run, one episode at a time,
twice (by the clock, and by the processor's time); a judge is asked each time. Times have yappi's own cost in them.

--output writes profile.json (every function) and profile.speedscope.json, a flame graph: open it on
https://www.speedscope.app, which reads it in the browser and sends it nowhere.

exit codes: 0 done, 1 every episode failed, 2 wrong arguments or data, or yappi is not installed; 130 after Ctrl-C.
"""
app = typer.Typer()
_FUNCTIONS, _TASKS = 15, 5
_ROLLOUTS = "a rollout file, ours or NeMo Gym's; also .gz or .zst"


@app.command("profile", cls=Command, epilog=_EXAMPLES)
def profile_env(
    env_id: Annotated[
        str,
        typer.Argument(
            metavar="ENV_ID", help="e.g. gym_llm/Weather-v0, or a file: ./my_env.py", autocompletion=complete_env
        ),
    ],
    *,
    rollouts: Annotated[str, typer.Option(metavar="FILE", help=_ROLLOUTS)],
    env_kwargs: Annotated[str | None, options.what("JSON", "the environment's further arguments")] = None,
    dataset: Annotated[
        str | None, options.what("NAME", "the records of this dataset, of a file that has several")
    ] = None,
    limit: Annotated[int | None, options.what("N", "play only the first N records", options.positive)] = None,
    output: Annotated[str | None, options.what("DIR", "where the files go (default: none are written)")] = None,
    as_json: Annotated[bool, options.what(None, "print what profile.json says", None, "--json")] = False,
) -> int:
    """Say where a verifier's time goes, per hook and function, from stored rollouts."""
    from gym_llm.author.profile import profile
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.cli.progress import show_file

    found: Any = None
    with Interrupts() as interrupts, show_file([rollouts, rollouts], "playing") as on_read:
        kwargs = options.read_env_kwargs(env_kwargs)
        found = profile(rollouts, env_id, env_kwargs=kwargs, dataset=dataset, limit=limit, on_read=on_read)
    if found is None:
        return interrupts.code
    paths = found.write(output) if output is not None else ()
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        _print(found)
        for path in paths:
            print(f"written: {printable(os.fspath(path))}")
    return 1 if found.failed == found.episodes else 0


def _print(found: Any) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gym_llm.cli.bars import table_console

    console = table_console()

    def table(rows: list[tuple[str, ...]], *headings: str) -> None:
        grid = Table(box=box.SIMPLE_HEAD, header_style="bold")
        for heading in headings:
            is_name = heading == headings[0]
            grid.add_column(heading, justify="left" if is_name else "right", overflow="fold", no_wrap=not is_name)
        for row in rows:
            grid.add_row(*map(Text, row))
        console.print(grid)

    failed = f", {found.failed:,} failed" if found.failed else ""
    left_out = f", {found.left_out:,} records have nothing to play" if found.left_out else ""
    title = f"{printable(found.env_id)}: {found.episodes:,} episodes{failed}{left_out}"
    console.print(Text(title, "bold"))
    if found.first_error:
        console.print(Text(f"first failed: {printable(found.first_error)}", "red"), soft_wrap=True)
    times = ("wall", "cpu", "waiting", "mean")
    rows = [
        (hook.hook, f"{hook.calls:,}", *map(_seconds, (hook.wall, hook.cpu, hook.waiting, hook.mean_wall)))
        for hook in found.hooks
    ]
    table(rows, "hook", "calls", *times)
    rows = [
        (
            f"{each.function}  {os.path.basename(each.file)}:{each.line}"
            + (f"  [{each.thread}]" if each.thread else ""),
            each.hook,
            f"{each.calls:,}",
            *map(_seconds, (each.own_wall, each.total_wall, each.own_cpu, each.waiting, each.mean_wall)),
        )
        for each in found.functions[:_FUNCTIONS]
    ]
    table(rows, "function", "hook", "calls", "own", "total", "own cpu", "waiting", "mean")
    rows = [
        (f"task {each['task_index']}, repeat {each['repeat_index']}", _seconds(each["seconds"]))
        for each in found.slowest[:_TASKS]
    ]
    table(rows, "slowest", "wall")
    if found.threads:
        table(
            [(printable(name), _seconds(seconds)) for name, seconds in found.threads.items()], "other threads", "wall"
        )


def _seconds(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
