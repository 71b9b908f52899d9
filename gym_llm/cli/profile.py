"""`gym-llm profile`: measure where a verifier spends its time."""

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

Plays stored rollouts again through the environment, without an engine. All hooks and tools run, one episode at a time,
twice: once by wall-clock time, once by CPU time. A judge is asked each time. The times include yappi's overhead.

--output writes profile.json (every function) and profile.speedscope.json, a flame graph. Open it on
https://www.speedscope.app, which reads the file in the browser and sends it nowhere.

exit codes: 0 done, 1 every episode failed, 2 wrong arguments or data, or yappi is not installed; 130 after Ctrl-C.
"""
app = typer.Typer()
_FUNCTIONS, _TASKS = 15, 5
_ROLLOUTS = "a rollout file of gym_llm or NeMo Gym, also .gz or .zst"


@app.command("profile", cls=Command, epilog=_EXAMPLES)
def profile_env(
    env_id: Annotated[
        str,
        typer.Argument(
            metavar="ENV_ID", help="e.g. gym_llm/Weather-v0, or a file: ./my_env.py", autocompletion=complete_env
        ),
    ],
    *,
    rollouts: Annotated[str, typer.Option(metavar="FILE", help=_ROLLOUTS, parser=options.run_file)],
    env_kwargs: options.EnvKwargs = None,
    dataset: Annotated[str | None, options.what("NAME", "only records of this dataset")] = None,
    limit: Annotated[int | None, options.what("N", "play only the first N records", options.positive)] = None,
    output: Annotated[str | None, options.what("DIR", "folder for the files (default: write none)")] = None,
    as_json: Annotated[bool, options.what(None, "print the content of profile.json", None, "--json")] = False,
) -> int:
    """Measure a verifier's time per hook and function on stored rollouts."""
    from gym_llm.author.profile import profile
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.cli.progress import show_file

    result: Any = None
    with Interrupts() as interrupts, show_file([rollouts, rollouts], "playing") as on_read:
        kwargs = options.read_env_kwargs(env_kwargs)
        result = profile(rollouts, env_id, env_kwargs=kwargs, dataset=dataset, limit=limit, on_read=on_read)
    if result is None:
        return interrupts.code
    paths = result.write(output) if output is not None else ()
    if as_json:
        print(json.dumps(result.as_dict()))
    else:
        _print(result)
        for path in paths:
            print(f"written: {printable(os.fspath(path))}")
    return 1 if result.failed == result.episodes else 0


def _print(result: Any) -> None:
    from rich.text import Text

    from gym_llm.cli.bars import columns_table, table_console

    console = table_console()

    def table(rows: list[tuple[str, ...]], *headings: str) -> None:
        grid = columns_table(*headings)
        for row in rows:
            grid.add_row(*map(Text, row))
        console.print(grid)

    failed = f", {result.failed:,} failed" if result.failed else ""
    left_out = f", {result.left_out:,} records have no turns to play" if result.left_out else ""
    title = f"{printable(result.env_id)}: {result.episodes:,} episodes{failed}{left_out}"
    console.print(Text(title, "bold"))
    if result.first_error:
        console.print(Text(f"first failed: {printable(result.first_error)}", "red"), soft_wrap=True)
    times = ("wall", "cpu", "waiting", "mean")
    rows = [
        (hook.hook, f"{hook.calls:,}", *map(_seconds, (hook.wall, hook.cpu, hook.waiting, hook.mean_wall)))
        for hook in result.hooks
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
        for each in result.functions[:_FUNCTIONS]
    ]
    table(rows, "function", "hook", "calls", "own", "total", "own cpu", "waiting", "mean")
    rows = [
        (f"task {each['task_index']}, repeat {each['repeat_index']}", _seconds(each["seconds"]))
        for each in result.slowest[:_TASKS]
    ]
    table(rows, "slowest", "wall")
    if result.threads:
        table(
            [(printable(name), _seconds(seconds)) for name, seconds in result.threads.items()], "other threads", "wall"
        )


def _seconds(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
