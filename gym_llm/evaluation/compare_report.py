"""A comparison as tables, for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gym_llm.evaluation.compare import DETECT, Comparison
from gym_llm.evaluation.report import markdown_table
from gym_llm.evaluation.tables import Table, figure, shares
from gym_llm.stats.intervals import Estimate
from gym_llm.stats.paired import Flip, Paired, part_name


def tables(comparison: Comparison, *, detect: float = DETECT, flips: int = 10) -> list[Table]:
    """Return a comparison as tables.

    Args:
        comparison: Made by `compare_runs`.
        detect: The difference for which it is said how many tasks it takes.
        flips: The most tasks that are listed of those that a run gained, and of those that it lost.
    """
    columns = {"mean reward": [figure(each["mean_reward"]) for each in comparison.figures]}
    if any(_value(each["mean_reward"]) != _passed(each) for each in comparison.figures):  # not only 0 and 1
        columns["passed"] = ["–" if (share := _passed(each)) is None else f"{share:.3f}" for each in comparison.figures]
    header = ["run", "tasks", "episodes", *columns, "truncated", "masked", "tool errors"]
    rows = [
        [name, f"{each['tasks']:,}", f"{each['episodes']:,}", *figures, *shares(each)]
        for name, each, *figures in zip(comparison.runs, comparison.figures, *columns.values(), strict=True)
    ]
    level = f"[low, high]: {comparison.level * 100:g}% confidence, clustered by task."
    if "passed" in columns:
        level += f" An episode passes with a reward of {comparison.pass_threshold:g} or more."
    result = [Table("Runs", header, rows, 1, level)]
    for pair in comparison.pairs:
        header = ["", "tasks", "difference", "better", "worse", "p"]
        counts = [f"{pair.better:,}", f"{pair.worse:,}"]
        rows = [["all", f"{len(pair.tasks):,}", _difference(pair.difference), *counts, _p_value(pair)]]
        rows += [
            [part_name(part), f"{each.tasks:,}", _difference(each), "", "", ""] for part, each in pair.parts.items()
        ]
        notes = _notes(pair, detect, several=len(comparison.pairs) > 1)
        result.append(Table(f"{pair.run} against {pair.baseline}", header, rows, 1, " ".join(notes)))
        for what, tasks in (("gained", pair.gained), ("lost", pair.lost)):
            if tasks and flips:
                result.append(_flips(what, tasks, flips))
    return result


def as_markdown(comparison: Comparison, *, detect: float = DETECT, flips: int = 10) -> str:
    """Return a comparison as Markdown, for a merge request. The arguments are those of `tables`."""
    found = tables(comparison, detect=detect, flips=flips)
    return "\n\n".join(["# Comparison of runs", *map(markdown_table, found)]) + "\n"


def _value(estimate: Mapping[str, Any] | None) -> float | None:
    return None if estimate is None else estimate["value"]


def _passed(figures: Mapping[str, Any]) -> float | None:
    return _value(figures.get("pass_at", {}).get("1"))


def _difference(estimate: Estimate) -> str:
    if estimate.low != estimate.low:
        return f"{estimate.value:+.4f}"
    return f"{estimate.value:+.4f} [{estimate.low:+.4f}, {estimate.high:+.4f}]"


def _p_value(pair: Paired) -> str:
    return f"{pair.test.p_value:.3g}" if pair.test.p_value >= 1e-4 else f"{pair.test.p_value:.1e}"


def _notes(pair: Paired, detect: float, *, several: bool) -> list[str]:
    notes = ["p is that of the sign-flip test."]
    if several:
        notes.append(f"Corrected for several comparisons (Holm) it is {pair.p_value_holm:.3g}.")
    if pair.test.method == "sampled":
        notes.append(f"It is estimated from {pair.test.samples:,} choices of signs drawn at random.")
    needed, detectable = pair.tasks_needed(detect), pair.detectable()
    if needed is None or detectable is None:
        notes.append("All differences are equal, so the number of tasks that a comparison needs is unknown.")
    else:
        notes.append(
            f"A difference of {detect:g} needs {needed:,} such tasks to be seen (80% power). "
            f"The smallest that these {len(pair.tasks):,} can show is {detectable:.3f}."
        )
    for count, name in ((pair.only_in_baseline, pair.baseline), (pair.only_in_run, pair.run)):
        if count:
            verb = "task has" if count == 1 else "tasks have"
            notes.append(f"{count:,} {verb} a reward in {name} only, and are left out.")
    return notes


def _flips(what: str, flips: Sequence[Flip], most: int) -> Table:
    largest = sorted(flips, key=lambda flip: abs(flip.pass_rate_after - flip.pass_rate_before), reverse=True)[:most]
    rows = [
        [
            " ".join(filter(None, (part_name(flip.part), str(flip.task_index)))),
            f"{flip.pass_rate_before:.2f}",
            f"{flip.pass_rate_after:.2f}",
        ]
        for flip in largest
    ]
    count = len(flips)
    rest = f"… and {count - most:,} more; --json has all." if count > most else ""
    title = f"{count:,} task{'s' * (count != 1)} {what}"
    return Table(title, ["task", "passed before", "passed after"], rows, 1, rest)
