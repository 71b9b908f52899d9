"""`gym-llm compare`: compare runs over the same tasks, with a gate for CI."""

from __future__ import annotations

import math
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from gym_llm.cli.refusals import printable
from gym_llm.cli.shared_options import natural, panel
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from gym_llm.evaluation.compare import RunScores
    from gym_llm.evaluation.tables import Table

EXAMPLES = """\
examples:
  gym-llm compare runs/base.jsonl runs/tuned.jsonl               is the second run better?
  gym-llm compare runs/base.jsonl runs/a.jsonl runs/b.jsonl --plots plots/
  gym-llm compare runs/suite                                     the engines of one `gym-llm eval`
  gym-llm compare runs/base.jsonl runs/tuned.jsonl --markdown > comment.md
  gym-llm compare runs/tuned.jsonl --fail-below 0.8              a gate: exit code 1 if the mean is below
  gym-llm compare runs/new.jsonl --fail-if-worse-than runs/main.jsonl --by 0.01

Tasks are matched by their index in their dataset. The interval and the p-value come from the differences per task, so
they are valid for any number of repeats. Masked episodes are left out.

exit codes: 0 done, 1 a run fails a gate, 2 wrong arguments or files.
"""

_what, _gate, _statistics, _output = map(panel, (None, "Gate", "Statistics", "Output"))
_WIDE = 110  # columns of a terminal in which an interval stands beside its figure
_NAME = 10  # columns of it that a longer name has at least
_LARGE = 64 * 2**20  # bytes from which on reading takes long enough for a bar


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="rollout files, or folders of `gym-llm eval`; the first is the baseline of the others",
        ),
    ],
    unchecked: Annotated[
        bool,
        _what(None, "compare tasks of the same index even if they differ, e.g. in their prompt", None, "--unchecked"),
    ] = False,
    fail_below: Annotated[float | None, _gate("X", "exit with 1 if a run's mean reward is below X")] = None,
    fail_if_worse_than: Annotated[
        str | None,
        _gate("RUN", "use this run as the baseline; exit with 1 if a run's mean reward is lower"),
    ] = None,
    by: Annotated[
        float, _gate("D", "... by more than D (default: 0) over the common tasks, whatever the interval")
    ] = 0.0,
    pass_threshold: Annotated[float, _statistics("R", "a reward of R or more passes (default: 1)")] = 1.0,
    detect: Annotated[float, _statistics("D", "report how many tasks a difference of D needs (default: 0.02)")] = 0.02,
    level: Annotated[float, _statistics("P", "confidence level of the intervals (default: 0.95)")] = 0.95,
    seed: Annotated[int, _statistics("S", "seed of the random draws (default: 0)", natural)] = 0,
    flips: Annotated[int, _output("N", "list up to N gained and N lost tasks (default: 10)")] = 10,
    json: Annotated[bool, _output(None, "print JSON instead of tables", None, "--json")] = False,
    markdown: Annotated[bool, _output(None, "print Markdown instead of tables", None, "--markdown")] = False,
    plots: Annotated[str | None, _output("DIR", "write plots into a folder, as PNG and SVG")] = None,
) -> int:
    """Compare runs over the same tasks: differences with intervals, flipped tasks, how many tasks it takes."""
    from gym_llm.evaluation.compare import compare_runs, engine_runs
    from gym_llm.evaluation.compare_report import as_markdown, tables
    from gym_llm.utils.json_codec import dumps

    if json and markdown:
        raise UsageError("--json and --markdown exclude each other.")
    _check_numbers(by=by, detect=detect, level=level, pass_threshold=pass_threshold, fail_below=fail_below, flips=flips)
    if by and fail_if_worse_than is None:
        raise UsageError("--by only makes sense with --fail-if-worse-than RUN.")
    paths = [*([fail_if_worse_than] if fail_if_worse_than else []), *runs]
    if len(paths) == 1:
        paths = engine_runs(paths[0])
    if len(paths) < 2 and fail_below is None:
        raise UsageError("One run is given: add another, --fail-below or --fail-if-worse-than.")
    comparison = compare_runs(
        _read(paths), pass_threshold=pass_threshold, level=level, seed=seed, check_tasks=not unchecked
    )
    failures = comparison.failures(below=fail_below, worse_by=by if fail_if_worse_than else None)
    if json:
        gate = {"failures": failures, "passed": not failures}
        print(dumps(comparison.as_dict(detect=detect) | {"gate": gate}, indent=True).decode(errors="replace"))
    elif markdown:
        print(as_markdown(comparison, detect=detect, flips=flips), end="")
    else:
        _print(tables(comparison, detect=detect, flips=flips))
    if plots:
        from gym_llm.evaluation.compare_plots import plot_comparison

        paths_drawn = plot_comparison(comparison, plots)
        print(f"plots: {len(paths_drawn)} files in {printable(plots)}", file=sys.stderr)
    for sentence in failures:
        print(f"failed: {printable(sentence)}", file=sys.stderr)
    return 1 if failures else 0


def _check_numbers(
    *, by: float, detect: float, level: float, pass_threshold: float, fail_below: float | None, flips: int
) -> None:
    for name, value, holds, expected in (
        ("--by", by, by >= 0, "a difference, 0 or more"),
        ("--detect", detect, 1e-9 <= detect < math.inf, "a difference above 0, at least 1e-9"),
        ("--level", level, 0 < level <= 1 - 1e-9, "a confidence between 0 and 1, such as 0.95"),
        ("--pass-threshold", pass_threshold, math.isfinite(pass_threshold), "a reward, a finite number"),
        ("--fail-below", fail_below, not math.isnan(fail_below or 0.0), "a reward, a number"),
        ("--flips", flips, flips >= 0, "a number of tasks, 0 or more"),
    ):
        if not holds:
            raise UsageError(f"{name} is {expected}; got {value}.")


def _read(paths: list[str]) -> list[RunScores]:
    from gym_llm.cli.progress import show_file
    from gym_llm.evaluation.compare import read_run
    from gym_llm.stats.episode_scores import rollout_files

    files = [str(file) for path in paths for file in rollout_files(path)]
    is_large = sum(os.path.getsize(file) for file in files if os.path.isfile(file)) > _LARGE
    with show_file(files, "reading the records") if is_large else nullcontext(lambda size: None) as count:
        return [read_run(path, on_bytes=count) for path in paths]


def _print(tables: list[Table]) -> None:
    from rich.text import Text

    from gym_llm.cli.bars import columns_table, table_console
    from gym_llm.evaluation.tables import plain

    console = table_console()
    narrow = console.width < _WIDE
    for table in tables:
        names = (Text(name.replace(" ", "\n") if narrow else name) for name in table.header)
        shown = columns_table(*names, words=table.words, collapse_padding=narrow, pad_edge=not narrow)
        for column in shown.columns[: table.words]:
            column.min_width = min(_NAME, max(len(row[0]) for row in table.rows))
        for row in table.rows:
            shown.add_row(*(Text(plain(cell).replace(" [", "\n[") if narrow else plain(cell)) for cell in row))
        console.print(Text(plain(table.title), "bold"), shown, sep="\n", soft_wrap=True)
        if table.note:
            console.print(Text(plain(table.note)))
        console.print()
