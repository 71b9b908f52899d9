"""`gym-llm reverify`: score stored rollouts again, without an engine."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import complete_env, printable

_EXAMPLES = """\
examples:
  gym-llm reverify runs/mcqa.jsonl --env gym_llm/MultipleChoice-v0                       are the rewards reproduced?
  gym-llm reverify runs/mcqa.jsonl --env ./my_env.py --output runs/mcqa-new.jsonl        with another verifier
  gym-llm reverify runs/a.jsonl --env gym_llm/MultipleChoice-v0 --env-kwargs '{"conform": "nemo"}' --json
  gym-llm reverify runs/c.jsonl --env gym_llm/Counter-v0 --rerun-tools                   play its tools again
  gym-llm reverify runs/q.jsonl --env gym_llm/SimpleQA-v0 --env-kwargs '{"judge": "http://judge:8000/v1"}'
  gym-llm reverify nemo_gym_rollouts.jsonl.gz --env gym_llm/MathVerify-v0 --output ours.jsonl

`verify` scores each episode as it was recorded. No engine is needed, and no tool runs. A verifier that reads state that
tools change is refused; --rerun-tools plays the recorded turns through the environment instead. Masked episodes are
scored if only their verifier had failed; others stay masked. A judge is asked again: configure it with --env-kwargs.
Answers in its `judge_cache` file are not asked for twice.

exit codes: 0 the rewards are as recorded, or the new file is written; 1 rewards differ and there is no --output, or
episodes that had a reward are masked now; 2 wrong arguments or data; 130 after Ctrl-C.
"""
app = typer.Typer()
_PRINTED = 20

_OUTPUT = "a new rollout file, with its summary (default: only compare)"
_RERUN = "run the tools and the user's turns again, with the recorded calls"
_DATASET = "score only records of this dataset; others stay unchanged"


@app.command("reverify", cls=Command, epilog=_EXAMPLES)
def reverify_rollouts(
    path: options.RunFile,
    *,
    env: Annotated[
        str, typer.Option(metavar="ID", help="the verifier: an id, or a file: ./my_env.py", autocompletion=complete_env)
    ],
    env_kwargs: options.EnvKwargs = None,
    output: Annotated[str | None, options.what("NEW", _OUTPUT)] = None,
    rerun_tools: Annotated[bool, options.what(None, _RERUN, None, "--rerun-tools")] = False,
    dataset: Annotated[str | None, options.what("NAME", _DATASET)] = None,
    concurrency: Annotated[
        int, options.what("C", "episodes at once, for verifiers that wait (default: 64)", options.positive)
    ] = 64,
    as_json: Annotated[
        bool, options.what(None, "print the report, with every change, as JSON", None, "--json")
    ] = False,
) -> int:
    """Score stored rollouts again, and report what changed and why."""
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.cli.progress import show_file
    from gym_llm.evaluation.reverify.reverify import areverify

    reports: list[Any] = []

    async def score() -> None:
        with show_file(path, "scoring") as on_read:
            report = await areverify(
                path,
                env,
                env_kwargs=options.read_env_kwargs(env_kwargs),
                output=output,
                rerun_tools=rerun_tools,
                dataset=dataset,
                concurrency=concurrency,
                on_read=on_read,
            )
        reports.append(report)

    with Interrupts() as interrupts:
        interrupts.run(score)
    if not reports:
        return interrupts.code
    (report,) = reports
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        _print(report)
    return 1 if report.kinds["masked"] or (output is None and report.rewards_differ) else 0


def _print(report: Any) -> None:
    from rich.text import Text

    from gym_llm.cli.bars import figures_table, table_console

    console = table_console()
    numbers = report.as_dict()
    rows = {
        "records": f"{report.records:,}",
        "scored again": f"{report.scored:,}",
        "left masked": f"{report.left_masked:,}",
        "mean reward": f"{_reward(numbers['mean_reward_before'])} -> {_reward(numbers['mean_reward'])}",
        "reward is higher": f"{report.kinds['reward_up']:,}",
        "reward is lower": f"{report.kinds['reward_down']:,}",
        "has a reward now": f"{report.kinds['unmasked']:,}",
        "is masked now": f"{report.kinds['masked']:,}",
        "only details differ": f"{report.kinds['details_only']:,}",
    }
    title = Text(f"{printable(report.path)} scored by {printable(report.env_id)}", "bold")
    console.print(title, figures_table(rows), sep="\n")
    if report.changes:
        _print_changes(console, report.changes)
    if report.output is not None:
        console.out(f"records: {report.output}", highlight=False)


def _print_changes(console: Any, changes: list[Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = sorted(changes, key=lambda change: change.old == change.new)[:_PRINTED]  # those of rewards first
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for name in ("task", "repeat", "reward"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for change in shown:
        why = Text(printable(" ".join(change.why.split()))[:400])
        rewards = f"{_reward(change.old)} -> {_reward(change.new)}"
        table.add_row(str(change.task_index), str(change.repeat_index), rewards, why)
    console.print(table)
    if len(changes) > len(shown):
        console.out(f"... and {len(changes) - len(shown):,} more; --json prints all of them.", highlight=False)


def _reward(value: float | None) -> str:
    return "masked" if value is None else f"{value:.4g}"
