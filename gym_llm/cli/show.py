"""`gym-llm show`: print stored episodes as conversations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from gym_llm.types import Rollout

_EXAMPLES = """\
examples:
  gym-llm show runs/mcqa.jsonl                            the first episode
  gym-llm show runs/mcqa.jsonl --task 3 --repeat 1
  gym-llm show runs/mcqa.jsonl --failed                   the first masked episode, or one below --pass-threshold
  gym-llm show runs/mcqa.jsonl --failed --pager           one after another: n next, p previous, q quit
  gym-llm show runs/mcqa.jsonl --task 3 --pager           all repeats of a task

`gym-llm view` shows a whole file in the browser.

exit codes: 0 shown, 1 no such episode, 2 wrong arguments or data.
"""
app = typer.Typer()


@app.command("show", cls=Command, epilog=_EXAMPLES)
def show(
    path: options.RunFile,
    *,
    task: Annotated[int | None, options.what("N", "only episodes of the task with this index", int)] = None,
    repeat: Annotated[int | None, options.what("N", "with --task: only this repeat", options.natural)] = None,
    dataset: Annotated[str | None, options.what("NAME", "only episodes of this dataset")] = None,
    failed: Annotated[
        bool, options.what(None, "only episodes that are masked or below the threshold", None, "--failed")
    ] = False,
    pass_threshold: Annotated[float, options.what("X", "with --failed (default: 1)", options.finite)] = 1.0,
    pager: Annotated[bool, options.what(None, "walk through all of them: n, p, q", None, "--pager")] = False,
) -> int:
    """Print an episode as a conversation, with the verifier's details."""
    from rich.console import Console

    from gym_llm.cli.print_conversation import print_conversation
    from gym_llm.evaluation.stored_runs import episodes_of_task, records_of

    if repeat is not None and task is None:
        raise UsageError("--repeat only makes sense with --task N.")
    episodes: Iterator[Rollout]
    if task is None:
        episodes = (record for record in records_of(path) if dataset in (None, record.get("dataset", "")))
    else:
        episodes = episodes_of_task(path, task, repeat, dataset)
    if failed:
        episodes = (record for record in episodes if (reward := record["reward"]) is None or reward < pass_threshold)
    console = Console()
    first = next(episodes, None)
    if first is None:
        print(f"{path} has no {'failed ' if failed else ''}episode{_of(task, repeat, dataset)}.", file=sys.stderr)
        return 1
    if pager:
        _walk(console, first, episodes)
    else:
        print_conversation(console, first, details=True)
    return 0


def _walk(console: Console, first: Rollout, more: Iterator[Rollout]) -> None:
    """Page through the episodes by keys; episodes already shown are kept for going back."""
    from gym_llm.cli.print_conversation import print_conversation

    seen, place, is_new = [first], 0, True
    while True:
        if is_new:
            console.clear()
            print_conversation(console, seen[place], details=True)
        console.print("n next, p previous, q quit", style="reverse", end=" ")
        key = _key()
        console.print()
        target = place + {"n": 1, " ": 1, "p": -1}.get(key, 0)
        if key in ("q", ""):
            return
        if target == len(seen):
            following = next(more, None)
            if following is None:
                console.print("That was the last one.")
                target = place
            else:
                seen.append(following)
        is_new = target != place and target >= 0
        place = max(0, target)


def _key() -> str:
    if sys.stdin.isatty():
        return typer.getchar().lower()
    while (key := sys.stdin.read(1)) == "\n":
        pass
    return key.lower()


def _of(task: int | None, repeat: int | None, dataset: str | None) -> str:
    parts = (("task", task), ("repeat", repeat), ("dataset", dataset))
    words = ", ".join(f"{name} {value}" for name, value in parts if value is not None)
    return f" of {words}" if words else ""
