"""`gym-llm eval`: play environments with engines, and write a report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.play_options import (
    PlayOptions,
    RunFileOptions,
    nothing_played,
    print_ending,
    print_notes,
    refuse_first,
    with_options,
)
from gym_llm.cli.refusals import complete_target, resume_command
from gym_llm.errors import BudgetSpent, EngineUnavailable, RayUnavailable, TooManyFailures, UsageError

if TYPE_CHECKING:
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.evaluation.evaluation import Evaluation
    from gym_llm.evaluation.results import EvaluationResult
    from gym_llm.rollouts.workload import Part

EXAMPLES = """\
examples:
  gym-llm eval gym_llm/Arithmetic-v0 --repeats 8    the built-in model, 64 tasks
  gym-llm eval aime25 gpqa_diamond --engine http://localhost:8000/v1
  gym-llm eval --suite reasoning --limit 100 --engine http://localhost:8000/v1

more examples:
  gym-llm eval simpleqa --engine http://localhost:8000/v1 --judge http://localhost:8001/v1 --limit 100 --seed 3
  gym-llm eval gym_llm/Arithmetic-v0 gym_llm/Weather-v0 --repeats 4 --output runs/tour
  gym-llm eval gym_llm/MultipleChoice-v0 --tasks test.jsonl --repeats 8 --by subject,level \\
      --engine base=http://localhost:8000/v1 --engine tuned=http://localhost:8001/v1 --output runs/mcqa
  gym-llm eval gym_llm/SimpleQA-v0 gym_llm/Arithmetic-v0 --env-kwargs '{"max_turns": 4}' \\
      --env-kwargs 'gym_llm/SimpleQA-v0={"judge": "http://judge:8000/v1"}'
  gym-llm eval suite.yaml --repeats 4 --limit 100 --prices prices.yaml
  gym-llm eval ... --output runs/mcqa --resume                   play what is missing, and write the reports again

A suite is YAML with sections, as for `gym-llm rollout --config`. Its engines play every environment that names no
engine. --engine NAME=SPEC, or the name of a section, takes precedence:
  letters: {env: gym_llm/MultipleChoice-v0, tasks: test.jsonl, repeats: 8, limit: 500}
  sums:    {env: gym_llm/Arithmetic-v0, kwargs: {digits: 3}, sampling: {temperature: 0.6}}
  base:    {engine: "http://localhost:8000/v1", kwargs: {model: Qwen/Qwen3-4B}}
  small:   {engine: "vllm:Qwen/Qwen3-0.6B", kwargs: {max_model_len: 8192}}

The output folder has records/ENGINE.jsonl, results.json, report.md, report.html (one file that loads nothing else),
episodes.html (examples, which the report links) and plots/. Prices are dollars per million tokens by model:
`Qwen/Qwen3-4B: {input: 0.1, output: 0.4}`.

exit codes: 0 done, 1 too many episodes masked (or all of them), 2 wrong arguments, data or engine, 3 a budget of the
run is spent (--resume goes on); 75 after SIGTERM: start the command again with --resume; 130 and 129 after Ctrl-C and
SIGHUP; 143 after a second SIGTERM.
"""
_WHAT = """benchmarks (`gym-llm list --benchmarks`), ids of environments (`gym-llm list`), files such as ./my_env.py, or
a suite, SUITE.yaml, with key=value to override it"""
_CONFIG = "a suite, or any configuration (several: later ones win)"
_SUITE = "benchmarks that are published together: reasoning, instruct, agentic or code"
_TASKS = "tasks instead of the one environment's own; see `gym-llm rollout --help`"
_ENV_KWARGS = """further arguments of every environment; ENV_ID=JSON for one of them overrides these
(several: give it again)"""
_ENGINE = f"""{options.ENGINE}; NAME=SPEC gives it a name (several: give it again)"""
_BY = "figures for each value of these fields of the tasks or of the verifier's info, too, e.g. subject,level"
_OUTPUT = "a folder (default: evaluations/<name>-<date>-<time>)"
_WIDE = 140
"""Columns of a terminal from which on an interval stands beside its figure."""

_INTERVAL = re.compile(r" \[(.*), (.*)\]")
_SHORT = {"truncated": "trunc.", "episodes": "n", "mean reward": "mean\nreward", "tool errors": "tool\nerrors"}
_CODES = {TooManyFailures: 1, BudgetSpent: 3}
_SETTING = re.compile(r"\+?[A-Za-z_][\w.-]*=")


@with_options
def eval(
    *,
    context: typer.Context,
    what: Annotated[
        list[str] | None, typer.Argument(metavar="BENCHMARK|ENV_ID|SUITE", help=_WHAT, autocompletion=complete_target)
    ] = None,
    config: Annotated[list[str] | None, options.what("FILE", _CONFIG)] = None,
    suite: Annotated[str | None, options.what("NAME", _SUITE)] = None,
    tasks: Annotated[str | None, options.what("FILE", _TASKS)] = None,
    mapping: Annotated[str | None, options.what("MAPPING", options.MAP, None, "--map")] = None,
    env_kwargs: Annotated[list[str] | None, options.what("[ENV_ID=]JSON", _ENV_KWARGS)] = None,
    engine: Annotated[list[str] | None, options.engine("SPEC", _ENGINE)] = None,
    play: PlayOptions,
    by: Annotated[str | None, options.output("FIELDS", _BY)] = None,
    output: Annotated[str | None, options.output("DIR", _OUTPUT)] = None,
    files: RunFileOptions,
) -> int:
    """Play environments with engines, and report mean reward, pass@k and more, with intervals.

    Everything is in one folder, which is completed if it was interrupted. A table of the figures is printed.
    """
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.cli.progress import show_reading
    from gym_llm.evaluation.evaluation import Evaluation

    tasks = options.mapped(tasks, mapping)
    files.check(play, output, "DIR: the folder")
    play.refuse_unread(context)
    how = play.settings(files.otel)
    parts = _parts([*(what or []), *_suite(suite)], config or [], engine, tasks, env_kwargs or [], play, files.quiet)
    play.refuse_unread_sampling(context, [part for each in parts.values() for part in each])
    ended = ""
    with Interrupts() as interrupts, ExitStack() as stack:
        with show_reading(quiet=files.quiet):
            evaluation = Evaluation(
                {name: play.seeded(each) for name, each in parts.items()},
                output=output,
                resume=files.resume,
                by=by or (),
                prices=play.prices,
                pass_threshold=play.pass_threshold,
                settings=how,
                episodes=play.episodes,
                limit=play.limit,
                retry_failed=files.retry_failed,
                accept_changes=files.accept_changes,
                max_failures=play.failure_limit,
                **play.run_budgets,
                reasoning_parser=play.reasoning_parser,
                tool_call_parser=play.tool_call_parser,
            )
            stack.enter_context(evaluation)
        if not files.quiet:
            print_notes(part for run in evaluation.runs.values() for part in run.parts.values())
        again = resume_command(context.obj, None if output else str(evaluation.folder))
        interrupts.last_words = f"Ended at once, while episodes were under way. {again}\n"
        code = 1
        try:
            _play(evaluation, interrupts, files.log or [], files.quiet)
        except (TooManyFailures, RayUnavailable, EngineUnavailable, BudgetSpent) as failure:
            if not (evaluation.played or isinstance(failure, (TooManyFailures, BudgetSpent))):
                raise
            code = next((each for kind, each in _CODES.items() if isinstance(failure, kind)), 2)
            ended = str(failure).rstrip(".")
        if evaluation.finished:
            result = _report(evaluation, files.quiet)
            if not files.quiet:
                _print(result)
        if evaluation.remaining and (interrupts.code or ended):
            print_ending(ended, evaluation.finished, again, interrupts.last_warning)
            return code if ended else interrupts.resumable_code
        scored = any(run.summary.scored for run in evaluation.runs.values())
        return 1 if ended or not scored else 0
    nothing_played(context.obj, bool(output))
    return interrupts.resumable_code


def _suite(name: str | None) -> list[str]:
    if name is None:
        return []
    from gym_llm.data.recipes.suites import suite

    return suite(name)


def _parts(
    what: list[str],
    config: list[str],
    engines: list[str] | None,
    tasks: str | None,
    env_kwargs: list[str],
    play: PlayOptions,
    quiet: bool,
) -> dict[str, list[Part]]:
    from gym_llm.cli.config import read_config
    from gym_llm.evaluation.evaluation import is_suite
    from gym_llm.evaluation.suite import env_parts, suite_parts
    from gym_llm.rollouts.config.compose import names_files

    settings = [word for word in what if _SETTING.match(word)]
    suites = [*config, *(word for word in what if is_suite(word) and word not in settings)]
    targets = [word for word in what if word not in settings and word not in suites]
    if not (suites or any(map(names_files, settings))):
        if settings:
            raise UsageError(f"{settings[0].partition('=')[0]}=… changes a value of a suite, but no suite is given.")
        kwargs = options.read_kwargs_by_env(env_kwargs, targets) if targets else {}
        return env_parts(
            targets,
            engines,
            tasks=tasks,
            kwargs_by_env=play.with_judge(kwargs) if kwargs else {},
            engine_options=play.engine_options,
            repeats=play.repeats or (1 if play.episodes else None),
            drawn=play.drawn,
        )
    refuse_first(
        (targets, f"Give either ENV_ID or a suite, not both; got {' '.join(map(repr, targets))}."),
        (tasks, "--tasks does not go with a suite: give `tasks` in its sections."),
        (play.judge, "--judge does not go with a suite: give `judge` in the `kwargs` of its sections."),
        (env_kwargs, "--env-kwargs does not go with a suite: give `kwargs` in its sections."),
        (play.episodes, "--episodes does not go with a suite: give --limit and --repeats."),
    )
    suite = read_config(suites, settings, warn=not quiet, one_engine=False)
    return suite_parts(suite, engines, engine_options=play.engine_options, repeats=play.repeats)


def _play(evaluation: Evaluation, interrupts: Interrupts, trackers: Sequence[str], quiet: bool) -> None:
    if not evaluation.remaining:
        return

    from gym_llm.evaluation.tracking import RunLog

    async def follow() -> None:
        async with aclosing(evaluation.records()) as records:
            async for engine, record in records:
                logs[engine].see(record)
                advance(engine)

    logs: dict[str, RunLog] = {}
    with nullcontext(lambda engine: None) if quiet else _progress(evaluation) as advance, ExitStack() as stack:
        for engine, run in evaluation.runs.items():
            if run.remaining:
                name = f"{evaluation.folder.name}/{engine}"
                logs[engine] = stack.enter_context(RunLog(run, trackers, name=name))
        interrupts.run(follow)


@contextmanager
def _progress(evaluation: Evaluation) -> Iterator[Callable[[str], None]]:
    """Show a bar for each engine; yields a function to call with an engine's name for each of its episodes."""
    from gym_llm.cli.bars import show_bars
    from gym_llm.cli.progress import run_bar

    with show_bars() as draw:
        bars = {name: run_bar(draw, name, run) for name, run in evaluation.runs.items() if run.remaining}
        yield lambda engine: bars[engine]()


def _report(evaluation: Evaluation, quiet: bool) -> EvaluationResult:
    from gym_llm.cli.progress import show_file

    if quiet:
        return evaluation.report()
    files = [str(run.path) for run in evaluation.runs.values() if run.summary.episodes]
    with show_file(files, "reading the records") as count:
        return evaluation.report(on_bytes=count)


def _print(result: EvaluationResult) -> None:
    from rich.text import Text

    from gym_llm.cli.bars import columns_table, table_console
    from gym_llm.evaluation.tables import NOTE, benchmark_tables, group_tables, headline, notices, overview, plain

    console, data = table_console(), result.shown()
    title, state = headline(data)
    console.print(Text(plain(title), "bold"), Text(plain(state)), sep="\n", soft_wrap=True)
    for notice in notices(result.data):
        console.print(Text(plain(notice, NOTE), "bold yellow"), soft_wrap=True)
    narrow = console.width < _WIDE
    for table in (overview(data), *benchmark_tables(data), *group_tables(data)):
        words = table.words - narrow
        header, *rows = ([plain(text) for text in row] for row in (table.header, *table.rows))
        names = map(Text, _narrowed(header, words) if narrow else header)
        shown = columns_table(*names, words=words, collapse_padding=narrow, pad_edge=not narrow)
        for row in rows:
            shown.add_row(*map(Text, _narrowed(row, words) if narrow else row))
        console.print(Text(plain(table.title), "bold"))
        console.print(shown)
        if table.note:
            console.print(Text(plain(table.note, NOTE), "dim"), soft_wrap=True)
    if find_spec("matplotlib") is None:
        from gym_llm.utils.extras import install

        console.out(f"no plots: matplotlib is not installed; {install('plots')}", highlight=False)
    view = shlex.join(["gym-llm", "view", str(result.folder / "records")])
    console.out(f"report: {result.folder / 'report.html'}\nlook: {view}", highlight=False)
    if len(result.data["suite"]["engines"]) > 1:
        console.out(f"compare: {shlex.join(['gym-llm', 'compare', str(result.folder)])}", highlight=False)


def _narrowed(row: list[str], words: int) -> list[str]:
    r"""A row for a narrow terminal: the engine below its dataset, intervals below their figures.

    >>> _narrowed(["sums", "pocket", "0.500 [0.250, 1.000]"], 1)
    ['sums\npocket', '0.500\n.250–1.000']
    """
    dataset, engine, *cells = row
    rest, figures = cells[: words - 1], cells[words - 1 :]
    return [f"{dataset}\n{engine}", *rest, *(_INTERVAL.sub(_below, _SHORT.get(cell, cell)) for cell in figures)]


def _below(interval: re.Match[str]) -> str:
    return re.sub(r"\b0\.", ".", f"\n{interval[1]}–{interval[2]}")
