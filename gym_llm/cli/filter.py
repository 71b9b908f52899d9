"""`gym-llm filter`: choose tasks by the results of a run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import printable
from gym_llm.errors import UsageError

_EXAMPLES = """\
examples:
  gym-llm rollout gym_llm/Arithmetic-v0 --limit 500 --repeats 8 --output first.jsonl
  gym-llm filter first.jsonl --min 0.1 --max 0.9 --output medium.jsonl      neither too easy nor too hard
  gym-llm rollout gym_llm/Arithmetic-v0 --tasks medium.jsonl
  gym-llm filter first.jsonl --drop-zero-variance                           only count; nothing is written
  gym-llm filter first.jsonl --max-tokens 2000 --drop-masked --output short.jsonl
  gym-llm filter first.jsonl --drop-error judge_failed --output judged.jsonl

The output is a task file: the rows as they were played, with two more fields, `pass_rate` and `episodes` (the number of
rewards in that rate). Tasks without a reward are always dropped.

exit codes: 0 tasks are left, 1 no task is left, 2 wrong arguments or data.
"""
app = typer.Typer()

_MIN = "the least pass rate (default: 0)"
_MAX = "the greatest pass rate (default: 1)"
_VARIANCE = "drop tasks whose episodes all have the same reward: their advantages are 0"
_TOKENS = "mean number of generated tokens per episode"
_ERROR = "drop tasks with an episode that failed this way, e.g. judge_failed (several: give it again)"
_DATASET = "only tasks of this dataset"
_OUTPUT = "the new task file (default: none, only count)"


def failure_kind(text: str) -> str:
    """Check the name of a failure kind; NeMo Gym's servers have their own, `server:kind`."""
    from gym_llm.records.failures import FAILURE_KINDS
    from gym_llm.utils.text import did_you_mean

    if text not in FAILURE_KINDS and ":" not in text:
        hint = did_you_mean(text, FAILURE_KINDS) or f" There are {', '.join(FAILURE_KINDS)}."
        raise typer.BadParameter(f"{text!r} is not a failure kind.{hint}")
    return text


@app.command("filter", cls=Command, epilog=_EXAMPLES)
def filter_rollouts(
    path: options.RunFile,
    *,
    output: Annotated[str | None, options.what("TASKS", _OUTPUT)] = None,
    lowest: Annotated[float, options.what("RATE", _MIN, float, "--min")] = 0.0,
    highest: Annotated[float, options.what("RATE", _MAX, float, "--max")] = 1.0,
    drop_zero_variance: Annotated[bool, options.what(None, _VARIANCE, None, "--drop-zero-variance")] = False,
    min_tokens: Annotated[float | None, options.what("N", f"the least {_TOKENS}", options.finite)] = None,
    max_tokens: Annotated[float | None, options.what("N", f"the greatest {_TOKENS}", options.finite)] = None,
    drop_masked: Annotated[bool, options.what(None, "drop tasks with a masked episode", None, "--drop-masked")] = False,
    drop_error: Annotated[list[str] | None, options.what("KIND", _ERROR, failure_kind)] = None,
    pass_threshold: Annotated[
        float, options.what("X", "a reward of X or more is a pass (default: 1)", options.finite)
    ] = 1.0,
    dataset: Annotated[str | None, options.what("NAME", _DATASET)] = None,
    as_json: Annotated[bool, options.what(None, "print the numbers as JSON", None, "--json")] = False,
) -> int:
    """Write the tasks with a given pass rate, variance, length or failures to a new task file."""
    from gym_llm.cli.progress import show_file
    from gym_llm.evaluation.filter import TaskRules, filter_tasks

    if (
        output is None
        and not as_json
        and (lowest, highest) == (0.0, 1.0)
        and not (drop_zero_variance or min_tokens or max_tokens or drop_masked or drop_error)
    ):
        raise UsageError("No rule is given: add one, e.g. --min 0.1 --max 0.9, or --output to write all tasks.")
    rules = TaskRules(
        lowest=lowest,
        highest=highest,
        drop_zero_variance=drop_zero_variance,
        min_tokens=min_tokens,
        max_tokens=max_tokens,
        drop_masked=drop_masked,
        drop_errors=frozenset(drop_error or ()),
        pass_threshold=pass_threshold,
    )
    with show_file(path, "reading") as on_read:
        filtered = filter_tasks(path, rules, output=output, dataset=dataset, on_read=on_read)
    numbers = filtered.as_dict()
    if as_json:
        print(json.dumps({**numbers, "output": output}))
    else:
        _print(numbers, output)
    return 0 if filtered.rows else 1


def _print(numbers: dict[str, Any], output: str | None) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gym_llm.cli.bars import table_console

    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("tasks", f"{numbers['tasks']:,}")
    for reason, count in numbers["dropped"].items():
        table.add_row(Text(f"dropped: {printable(reason)}"), f"-{count:,}")
    table.add_row(Text("kept", "bold"), Text(f"{numbers['kept']:,}", "bold"))
    console = table_console()
    console.print(table)
    if output is not None:
        console.out(f"tasks: {output}", highlight=False)
