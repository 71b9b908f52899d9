"""What a run prints when it is over: a few conversations, and the table of its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gym_llm.cli.usage import printable
from gym_llm.responses.transcript import transcript
from gym_llm.rollout.summary import Summary
from gym_llm.types import Rollout

_SPEAKER = r"(?m)^(system|developer|user|assistant|thinking|call|tool):"
_AFTER_SPEAKER = re.compile(_SPEAKER + r"\s+")
_EMPTY_LINES = re.compile(r"\n(\s*\n)+")


def print_transcript(console: Console, record: Rollout) -> None:
    """Print one episode as a conversation in a frame headed by its task and reward."""
    items: list[Any] = []
    if "response" in record:  # not if the environment could not even be reset
        items = [*record["responses_create_params"]["input"], *record["response"]["output"]]
    conversation = _EMPTY_LINES.sub("\n\n", printable(transcript(items)))  # reasoning models write many
    text = Text(_AFTER_SPEAKER.sub(r"\1: ", conversation).rstrip())
    text.highlight_regex(_SPEAKER, "bold cyan")
    number = record["rollout_id"]
    title = f"task {number['task_index']}, repeat {number['repeat_index']}: reward {record['reward']:g}"
    if error := record.get("error"):
        text.append(f"\n\nfailed: {printable(error)}", "bold red")
    console.print(Panel(text, title=Text(title, "bold"), title_align="left", box=box.ROUNDED))


def print_summary(console: Console, title: str, summary: Summary, played: int, seconds: float) -> None:
    """Print the table of a run's numbers.

    Args:
        console: Where to.
        title: Heads the table.
        summary: All records.
        played: How many of them this run played.
        seconds: What that took.
    """
    numbers = summary.as_dict()
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")

    def row(name: str, value: str) -> None:
        table.add_row(name, value)

    row("episodes", f"{summary.episodes:,} ({numbers['tasks']:,} tasks)")
    error = f" ± {summary.standard_error:.4f}" if summary.episodes > 1 else ""
    row("mean reward", f"{summary.mean_reward:.4f}{error}")
    for k, value in numbers["pass_at"].items():
        row(f"pass@{k}", f"{value:.4f}")
    row("turns per episode", f"{numbers['turns_per_episode']:.2f}")
    row("tokens in / out", f"{summary.input_tokens:,} / {summary.output_tokens:,}")
    row("tool errors", f"{summary.tool_errors:,}")
    row("truncated", f"{summary.truncated:,}")
    row("failures", f"{summary.failures:,}")
    if played:
        row("episodes/s", f"{played / seconds:,.1f}")
        row("wall time", f"{seconds:.1f} s")
    console.print(Text(title, "bold"), table, sep="\n", soft_wrap=True)
    if summary.first_error:
        console.print(Text(f"first failure: {printable(summary.first_error)}", "red"), soft_wrap=True)


def print_parts(console: Console, kind: str, parts: Mapping[str, Summary]) -> None:
    """Print a line of numbers for each part of a run, if there are several; `kind` heads their names."""
    if len(parts) < 2:
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column(kind, overflow="fold")
    for name in ("episodes", "mean reward", "turns", "failures"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, summary in parts.items():
        turns = summary.turns / summary.episodes if summary.episodes else math.nan
        error = f" ± {summary.standard_error:.4f}" if summary.episodes > 1 else ""
        numbers = (
            f"{summary.episodes:,}",
            f"{summary.mean_reward:.4f}{error}",
            f"{turns:.2f}",
            f"{summary.failures:,}",
        )
        table.add_row(Text(name), *numbers)
    console.print(table)
