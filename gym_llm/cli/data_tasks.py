"""`gym-llm data fetch`, `convert`, `pin` and `audit`: the tasks of benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import complete_benchmark
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from gym_llm.author.audit import Audit
    from gym_llm.author.real_outputs import Agreement
    from gym_llm.data.recipes.prepared import Prepared
    from gym_llm.data.recipes.recipe import Benchmark

_FETCH_EXAMPLES = """\
examples:
  gym-llm data fetch aime25 gpqa_diamond ifeval
  gym-llm data fetch aime25 --to copies                          for a machine without a network:
  GYM_LLM_BENCHMARKS=copies gym-llm eval aime25
  gym-llm data fetch ifeval --update                             take what is upstream now

Benchmarks are fetched at first use as well. HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE have their usual meaning.

exit codes: 0 done; 2 wrong arguments, or the tasks cannot be had; 130 interrupted.
"""
_CONVERT_EXAMPLES = """\
examples:
  gym-llm data convert gpqa gpqa_diamond.csv --output tasks.jsonl
  gym-llm data convert aime25_x de.jsonl fr.jsonl --load de --load fr
  gym-llm data convert mmlu_pro rows.jsonl --messages --output tasks.jsonl

The raw rows are JSON Lines, CSV, TSV, JSON or parquet, in the columns of the benchmark's dataset. A file for each load
(a language, a subject) follows the recipe's order, or says with --load which it is.

exit codes: 0 done; 2 wrong arguments, or a row does not fit; 130 interrupted.
"""
_PIN_EXAMPLES = """\
examples:
  gym-llm data pin aime25 gpqa_diamond                           write commit and digests into the recipes' pins.json

exit codes: 0 done; 2 wrong arguments, or the tasks cannot be had; 130 interrupted.
"""
_AUDIT_EXAMPLES = """\
examples:
  gym-llm data audit aime25
  gym-llm data audit mmlu_pro --limit 500
  gym-llm data audit ifeval --card ifeval.md
  gym-llm data audit bbh --outputs verdicts.jsonl.gz --output runs/audit       real outputs with published verdicts

Every task is played with its official answer, and with junk: nothing, a refusal, the question, another task's answer.

--outputs grades real outputs instead, and compares with the verdicts that were published for them. A line has `task`
(the row), `answer`, `official` (true, false, a reward, or a list for instructions) and `model`; it may have
`benchmark`, `env`, `env_kwargs`, `official_read`, `source` and `class`, a known class of difference. BENCHMARK may be
the id of an environment then.

exit codes: 0 done; 1 an official answer does not earn the full reward, junk earns some, or a published verdict differs;
2 wrong arguments, or the tasks cannot be had; 130 interrupted.
"""
Names = Annotated[list[str], typer.Argument(metavar="BENCHMARK", help="e.g. aime25", autocompletion=complete_benchmark)]
app = typer.Typer()


@app.command(cls=Command, epilog=_FETCH_EXAMPLES)
def fetch(
    *,
    names: Names,
    to: Annotated[str | None, typer.Option(metavar="DIR", help="copy the tasks to this folder, too")] = None,
    update: Annotated[bool, typer.Option("--update", help="take the newest rows, and pin those")] = False,
) -> int:
    """Fetch the tasks of benchmarks into the cache, and print the file of each."""
    from gym_llm.data.recipes.prepared import copy_to

    for benchmark in _benchmarks(names):
        prepared = _prepare(benchmark, update=update)
        path = copy_to(prepared, to) if to else prepared.path
        print(f"{benchmark.name}\t{prepared.rows} tasks\t{prepared.revision[:20]}\t{prepared.digest[:16]}\t{path}")
    return 0


@app.command(cls=Command, epilog=_CONVERT_EXAMPLES)
def convert(
    *,
    name: Annotated[str, typer.Argument(metavar="BENCHMARK", help="whose recipe", autocompletion=complete_benchmark)],
    raw: Annotated[list[str], typer.Argument(metavar="RAW", help="files of raw rows")],
    load: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="the load of each file, e.g. a language")
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="the tasks (default: standard output)")] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="write the recipe's messages, too: the file then plays with --tasks")
    ] = False,
) -> int:
    """Write the tasks that raw rows become, without a network."""
    from gym_llm.core.named_tasks import recipe_prompt
    from gym_llm.data.files.atomic import replacing
    from gym_llm.data.recipes.offline import convert_files
    from gym_llm.utils.json_codec import dumps

    (benchmark,) = _benchmarks([name])
    prompt = recipe_prompt(benchmark) if messages else None
    with ExitStack() as stack:
        file = stack.enter_context(replacing(output)) if output else sys.stdout.buffer
        for task in convert_files(benchmark, raw, load or ()):
            file.write(dumps(prompt.fill(task) if prompt else task))
    return 0


@app.command(cls=Command, epilog=_PIN_EXAMPLES)
def pin(*, names: Names) -> int:
    """Write the commits and digests of fetched benchmarks into the recipes."""
    from gym_llm.data.recipes.prepared import PINS, write_pin

    for benchmark in _benchmarks(names):
        prepared = _prepare(benchmark)
        write_pin(prepared)
        print(f"{benchmark.name}\t{prepared.revision}\t{prepared.digest}")
    print(f"written: {PINS}")
    return 0


@app.command(cls=Command, epilog=_AUDIT_EXAMPLES)
def audit(
    *,
    name: Annotated[str, typer.Argument(metavar="BENCHMARK", help="e.g. aime25", autocompletion=complete_benchmark)],
    outputs: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="real outputs with verdicts (several)")
    ] = None,
    limit: Annotated[int | None, options.episodes("N", "play only the first N of each", options.positive)] = None,
    judge: Annotated[str | None, options.engine("SPEC", "the engine that judges, where the verifier asks one")] = None,
    card: Annotated[str | None, options.output("FILE", "write the result as Markdown here, too")] = None,
    output: Annotated[str | None, options.output("DIR", "with --outputs: write audit.json and audit.html here")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="keep the card as cards/BENCHMARK.md beside the recipe")] = False,
) -> int:
    """Play official answers and junk, or real outputs, through a benchmark's verifier."""
    from gym_llm.author.audit import card_of
    from gym_llm.data.files.atomic import write_atomically
    from gym_llm.data.recipes.catalogue import is_benchmark

    if output is not None and not outputs:
        raise UsageError("--output needs --outputs FILE: the audit of official answers writes a card only.")
    if keep and not is_benchmark(name):
        raise UsageError(f"--keep needs a benchmark, got {name}: only recipes have cards of real outputs.")
    kwargs = {} if judge is None else {"judge": judge}
    report = _grade_outputs(name, outputs, kwargs, limit) if outputs else _audit_tasks(name, kwargs, limit)
    print(report.section(), end="")
    places = [Path(card)] if card is not None else []
    if keep:
        places.append(card_of(*_benchmarks([name])))
        places[-1].parent.mkdir(exist_ok=True)
    for place in places:
        write_atomically(place, report.card(place.read_text() if place.exists() else "").encode())
    if output is not None:
        _write_report(cast("Agreement", report), Path(output))
    return int(not report.is_clean)


def _audit_tasks(name: str, kwargs: dict[str, Any], limit: int | None) -> Audit:
    from gym_llm.author.audit import audit as audit_tasks
    from gym_llm.cli.bars import show_bars
    from gym_llm.core.verifier_env import VerifierEnv

    (benchmark,) = _benchmarks([name])
    if "judge" in benchmark.needs and not kwargs:
        raise UsageError(f"{benchmark.name} needs a judge: give --judge http://HOST:PORT/v1.")
    prepared = _prepare(benchmark)
    with show_bars() as draw:
        report = audit_tasks(
            benchmark,
            lambda: cast(VerifierEnv, benchmark.make(disable_env_checker=True, **kwargs).unwrapped),
            limit=limit,
            show=lambda done, total: draw("tasks", done, total, lambda: f"{done:,} of {total:,}"),
        )
    report.origin = {"digest of the tasks": prepared.digest, "revision of the raw rows": prepared.revision}
    return report


def _grade_outputs(name: str, files: list[str], kwargs: dict[str, Any], limit: int | None) -> Agreement:
    from gym_llm.author.real_outputs import grade_outputs
    from gym_llm.cli.bars import show_bars

    with show_bars() as draw:
        return grade_outputs(
            name,
            files,
            env_kwargs=kwargs,
            limit=limit,
            show=lambda done: draw("outputs", done, None, lambda: f"{done:,}"),
        )


def _write_report(report: Agreement, folder: Path) -> None:
    from gym_llm.data.files.atomic import write_atomically
    from gym_llm.utils.json_codec import dumps

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "audit.json", dumps(report.as_dict(), indent=True))
    write_atomically(folder / "audit.html", report.page().encode())
    print(f"written: {folder / 'audit.json'}, {folder / 'audit.html'}", file=sys.stderr)


def _benchmarks(names: Sequence[str]) -> list[Benchmark]:
    from gym_llm.data.recipes.catalogue import find_benchmark

    return [find_benchmark(name) for name in names]


def _prepare(benchmark: Benchmark, *, update: bool = False) -> Prepared:
    from gym_llm.data.recipes.prepared import prepare

    return prepare(benchmark, update=update, tell=lambda sentence: print(f"{sentence} …", file=sys.stderr))
