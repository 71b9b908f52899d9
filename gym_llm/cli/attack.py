"""`gym-llm env attack`: play wrong answers and report those that a verifier rewards."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from gym_llm.cli.refusals import printable
from gym_llm.cli.shared_options import EnvIds, EnvKwargs, read_env_kwargs
from gym_llm.errors import UsageError

EXAMPLES = """\
examples:
  gym-llm env attack gym_llm/MathVerify-v0
  gym-llm env attack ./my_env.py:Quiz --tasks train.jsonl --limit 20
  gym-llm env attack gym_llm/TextToSQL-v0 --json
  gym-llm env attack --all --card

Plays wrong answers: an empty one, NaN, the prompt, all options, many boxes, the answer in the reasoning only,
look-alike letters, a megabyte of each delimiter, verdicts for the judge, the same call many times, and near misses of
the right answer. None may earn the reward of the right answer. The attack also checks that an episode earns the same
reward in another order, environment and process, and with another hash seed; that neither prompt, info nor tools reveal
the expected answer; and what a verification costs.

The verifier's `oracle` returns the right answer; without one the attack reads the row's `expected_...` field. A check
without a right answer reports "not applicable". Findings that are intended stand in the class's `accepted_findings`,
each with its reason.

exit codes: 0 no findings; 1 findings; 2 wrong arguments; 130 interrupted.
"""


def attack(
    env_ids: EnvIds = None,
    every: Annotated[bool, typer.Option("--all", help="every registered verifier")] = False,
    rows: Annotated[
        str | None, typer.Option("--tasks", "--rows", metavar="FILE", help="tasks instead of the verifier's own")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="number of tasks to play")] = 5,
    env_kwargs: EnvKwargs = None,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="seed of generated tasks")] = 0,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=1, help="time limit for each verifier; checks that did not run are listed")
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="print the reports as one JSON array")] = False,
    cards: Annotated[bool, typer.Option("--card", help="write CARD.md into each verifier's folder")] = False,
) -> int:
    """Play wrong answers, and report those that a verifier rewards."""
    from gym_llm.author import attack as attacks
    from gym_llm.author.attack.campaign import CHECKS
    from gym_llm.author.attack.card import write_card
    from gym_llm.author.scaffold import find_verifier, missing_package
    from gym_llm.cli.bars import show_bars
    from gym_llm.core.registry.ids import env_ids as registered

    if bool(env_ids) == every:
        raise UsageError("No verifier is given: name one or more, or add --all.")
    kwargs = read_env_kwargs(env_kwargs)
    reports = []
    for env_id in env_ids or registered():
        if every and (missing := missing_package(find_verifier(env_id))):
            print(f"{env_id}: skipped: {missing}", file=sys.stderr)
            continue
        made = 0
        with show_bars() as draw:

            def show(check: str, env_id: str = env_id, draw: Any = draw) -> None:
                nonlocal made
                made += 1
                draw(env_id, min(made, CHECKS), CHECKS, lambda: check)

            report = attacks.attack(
                env_id, rows=rows, limit=limit, env_kwargs=kwargs, seed=seed, seconds=seconds, on_check=show
            )
        reports.append(report)
        if cards and (path := write_card(report)):
            print(path, file=sys.stderr)
        if not as_json:
            _print(report)
    if as_json:
        print(json.dumps([report.as_json() for report in reports], indent=2))
    return 1 if any(report.open_findings for report in reports) else 0


def _print(report: Any) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gym_llm.cli.bars import table_console

    console = table_console()
    console.print(Text(report.env_id, "bold"), soft_wrap=True)
    if report.findings:
        table = Table(box=box.SIMPLE_HEAD)
        for name in ("check", "attack", "severity", "task", "played", "should be", "is"):
            table.add_column(name, overflow="fold")
        for finding in report.findings:
            style = "dim" if finding.accepted else "red" if finding.severity == "high" else "yellow"
            action = json.dumps(finding.action, ensure_ascii=False)
            cells = (finding.check, finding.attack, finding.severity, str(finding.task_index), action)
            got = f"{finding.got} (accepted: {finding.accepted})" if finding.accepted else finding.got
            table.add_row(*(Text(printable(cell), style) for cell in (*cells, finding.expected, got)))
        console.print(table)
    unchecked = [
        f"{check.name} ({check.why})" for check in report.checks if check.state in ("not applicable", "not run")
    ]
    if unchecked:
        console.print(Text(f"  not checked: {'; '.join(unchecked)}", "dim"), soft_wrap=True)
    count = len(report.open_findings)
    accepted = len(report.findings) - count
    plays = sum(check.plays for check in report.checks)
    oracle = f"right answers of {sum(each is not None for each in report.oracle)} of {report.tasks} tasks known"
    console.print(
        f"  {count} findings, {accepted} accepted; {oracle}; {plays:,} episodes in {report.seconds:.1f} s",
        style="red" if count else "green",
        soft_wrap=True,
    )
