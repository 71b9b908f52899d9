"""The report of a finished run: conversations, and a table of its figures."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from gym_llm.cli.bars import columns_table, figures_table
from gym_llm.cli.print_conversation import print_conversation
from gym_llm.cli.refusals import printable
from gym_llm.evaluation.headlines import sample_notice
from gym_llm.rollouts.run import Run
from gym_llm.stats.run_summary import Summary
from gym_llm.types import Rollout


def print_report(run: Run, conversations: Sequence[Rollout]) -> None:
    """Print some episodes and the tables of a run's figures, if it has episodes."""
    if not run.summary.episodes:
        return
    console = Console()
    for record in conversations:
        print_conversation(console, record)
    _print_summary(console, run)
    for kind, summaries in (("dataset", run.datasets), ("environment", run.environments)):
        if len(summaries) > 1:
            _print_parts(console, kind, summaries)
    for name, part in run.parts.items():
        if sentence := sample_notice(name or part.env_id, part.env_id, part.origin):
            console.print(Text(printable(sentence), "bold yellow"), soft_wrap=True)
    equal, groups = run.summary.equal_groups()
    if groups and equal == groups:
        sentence = (
            f"Nothing can be learned from these groups: all {groups:,} tasks have equal rewards in their repeats."
        )
        console.print(Text(sentence, "yellow"), soft_wrap=True)
    look = f"gym-llm view {shlex.quote(str(run.path))}"
    console.out(f"records: {run.path}\nsummary: {run.summary_path}\nlook:    {look}", highlight=False)


def _print_summary(console: Console, run: Run) -> None:
    summary, numbers = run.summary, run.summary.as_dict()
    rows = {
        "episodes": f"{summary.episodes:,} ({numbers['tasks']:,} tasks)",
        "mean reward": _mean_reward(summary),
        **{f"pass@{k} (reward >= {summary.pass_threshold:g})": f"{v:.4f}" for k, v in numbers["pass_at"].items()},
        "turns per episode": f"{numbers['turns_per_episode']:.2f}",
        "tokens in / out": f"{summary.input_tokens:,} / {summary.output_tokens:,}",
        **_cached(summary),
        "tool errors": f"{summary.tool_errors:,}",
        "truncated": _truncated(summary),
        "masked": _masked(summary),
    }
    if run.played:
        rows |= {"episodes/s": f"{run.played / run.seconds:,.1f}", "wall time": f"{run.seconds:.1f} s"}
    title = printable(f"{run.title} played by {run.model or 'no model'}")
    console.print(Text(title, "bold"), figures_table(rows), sep="\n", soft_wrap=True)
    if summary.first_error:
        console.print(Text(f"first masked: {printable(summary.first_error)}", "red"), soft_wrap=True)


def _print_parts(console: Console, kind: str, summaries: Mapping[str, Summary]) -> None:
    table = columns_table(kind, "episodes", "mean reward", "turns", "masked")
    for name, summary in summaries.items():
        turns = summary.turns / summary.episodes if summary.episodes else math.nan
        numbers = f"{summary.episodes:,}", _mean_reward(summary), f"{turns:.2f}", f"{summary.failures:,}"
        table.add_row(Text(name), *numbers)
    console.print(table)


def _mean_reward(summary: Summary) -> str:
    if not summary.scored:
        return "none"
    error = f" ± {summary.standard_error:.4f}" if summary.scored > 1 else ""
    return f"{summary.mean_reward:.4f}{error}"


def _cached(summary: Summary) -> dict[str, str]:
    if not (summary.cached_tokens and summary.input_tokens):
        return {}
    share = summary.cached_tokens / summary.input_tokens
    return {"tokens in from the server's cache": f"{summary.cached_tokens:,} ({share:.1%})"}


def _truncated(summary: Summary) -> str:
    budgets = ", ".join(f"{count:,} by {name}" for name, count in summary.budgets.most_common())
    return f"{summary.truncated:,} ({budgets})" if budgets else f"{summary.truncated:,}"


def _masked(summary: Summary) -> str:
    if not summary.failures:
        return "0"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.failure_kinds.most_common())
    return f"{summary.failures:,} ({kinds}); {summary.coverage:.1%} have a reward"
