"""`gym-llm health`: signs of trouble in the episodes of a run."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import printable

_EXAMPLES = """\
examples:
  gym-llm health runs/mcqa.jsonl                     loops, empty turns, cut-offs, repetition, storms of tool errors
  gym-llm health runs/mcqa.jsonl --json              the same as JSON, with the rollout ids of the worst episodes
  gym-llm show runs/mcqa.jsonl --task 3 --repeat 1   one of these as a conversation

Each sign has the number of its episodes, their share and mean reward, and the first episodes (task-repeat). Answers are
suspiciously equal if one text answers a large share of different tasks. The file is read as a stream.

exit codes: 0 read, 2 wrong arguments or data; 130 after Ctrl-C.
"""
app = typer.Typer()


@app.command("health", cls=Command, epilog=_EXAMPLES)
def health(
    path: options.RunFile,
    *,
    as_json: Annotated[bool, options.what(None, "print everything as JSON", None, "--json")] = False,
) -> int:
    """Count loops, empty turns, cut-offs, repetition, tool errors and equal answers, and list the worst episodes."""
    from gym_llm.cli.progress import show_file
    from gym_llm.evaluation.health import health_of

    with show_file(path, "reading") as on_read:
        found = health_of(path, on_read=on_read)
    if as_json:
        print(json.dumps(found))
    else:
        _print(found)
    return 0


def _print(found: dict[str, Any]) -> None:
    from rich.text import Text

    from gym_llm.cli.bars import columns_table, table_console

    console = table_console()
    outcomes = ", ".join(f"{count:,} {name}" for name, count in found["outcomes"].items())
    unreadable = f"; {found['unreadable']:,} lines cannot be read" if found["unreadable"] else ""
    title = f"{found['path']}: {found['episodes']:,} episodes ({outcomes or 'empty'}){unreadable}"
    console.print(Text(printable(title), "bold"), soft_wrap=True)
    table = columns_table("sign", "episodes", "share", "mean reward", "first")
    for name, sign in found["signs"].items():
        style = "yellow" if sign["episodes"] else "dim"
        first = " ".join(map(_place, sign["first"]))
        figures = f"{sign['episodes']:,}", f"{sign['share']:.1%}", _reward(sign["mean_reward"]), first
        table.add_row(*(Text(printable(cell), style) for cell in (name, *figures)))
    console.print(table)
    console.print(Text(f"mean reward of all: {_reward(found['mean_reward'])}"))
    for sentence in _sentences(found):
        console.print(Text(printable(sentence), "yellow"), soft_wrap=True)
    if found["worst"]:
        worst = found["worst"][0]
        dataset = ["--dataset", worst["dataset"]] if worst["dataset"] else []
        command = ["gym-llm", "show", found["path"], "--task", str(worst["task_index"])]
        command += ["--repeat", str(worst["repeat_index"]), *dataset]
        console.print(Text(printable(f"worst: {' '.join(map(_place, found['worst']))}")), soft_wrap=True)
        console.out(f"look:  {printable(shlex.join(command))}", highlight=False)


def _sentences(found: dict[str, Any]) -> list[str]:
    """What the counts say about the run as a whole."""
    sentences = []
    for answer in found["equal_answers"]:
        if answer["suspicious"]:
            text = " ".join(answer["text"].split())
            sentences.append(
                f"Suspiciously equal answers: {answer['count']:,} episodes ({answer['share']:.1%}) of different tasks "
                f"say {text!r:.80}, first {_place(answer['first'])}."
            )
    repeats = found["equal_repeats"]
    if repeats["tasks"] and repeats["equal_answers"] == repeats["tasks"]:
        sentences.append("All repeats of each task have the same answer: the sampling may not be random.")
    elif repeats["equal_rewards"]:
        share = repeats["equal_rewards"] / repeats["tasks"]
        sentences.append(f"Tasks whose repeats all have one reward, which teach a group nothing: {share:.1%}.")
    return sentences


def _place(episode: dict[str, Any]) -> str:
    return f"{episode['task_index']}-{episode['repeat_index']}"


def _reward(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
