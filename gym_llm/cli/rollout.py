"""`gym-llm rollout`: play environments with a model."""

from __future__ import annotations

import sys
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

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
from gym_llm.cli.unread import Unread, refuse_unread
from gym_llm.errors import BudgetSpent, RayUnavailable, TooManyFailures, UsageError

if TYPE_CHECKING:
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.rollouts.run import Run
    from gym_llm.rollouts.workload import Part

EXAMPLES = """\
examples:
  gym-llm rollout gym_llm/Weather-v0 --show 1       the built-in model, 64 tasks
  gym-llm rollout ./my_env.py --show 1              an environment of your own
  gym-llm rollout mmlu_pro --limit 100 --engine http://localhost:8000/v1

more examples:
  gym-llm rollout gym_llm/Arithmetic-v0 --episodes 500 --env-kwargs '{"digits": 3}'
  gym-llm rollout gym_llm/MultipleChoice-v0 --tasks test.jsonl --repeats 8 \\
      --engine http://localhost:8000/v1 --model Qwen/Qwen3-4B --output runs/mcqa.jsonl
  gym-llm rollout gym_llm/MathVerify-v0 --tasks hf:openai/gsm8k:main:test \\
      --map 'question=input, answer|after(####)=expected_answer' --engine http://localhost:8000/v1
  gym-llm rollout gym_llm/Weather-v0 --engine vllm:Qwen/Qwen3-4B \\
      --engine-option max_model_len=4096 --engine-option history=append
  gym-llm rollout --config envs/weather/config.yaml --config envs/arithmetic/config.yaml arithmetic.kwargs.digits=1
  gym-llm rollout ... --concurrency 16384 --workers 8            in 8 processes, over Ray
  gym-llm rollout ... --workers 64 --ray-address head:6379       on a cluster
  gym-llm rollout ... --output runs/mcqa.jsonl --resume          complete an interrupted run
  gym-llm rollout ... --output runs/mcqa.jsonl --durable         ... which then goes on in the middle of its episodes
  gym-llm rollout ... --log tensorboard --log wandb:my-project   follow it from elsewhere

Without --episodes, --limit or --repeats each task is played once (64 tasks if an environment generates them).

exit codes: 0 done, 1 too many episodes masked (or all of them), 2 wrong arguments, data or engine, 3 a budget of the
run is spent (--resume goes on); 75 after SIGTERM: start the command again with --resume; 130 and 129 after Ctrl-C and
SIGHUP; 143 after a second SIGTERM.
"""
_ENV_ID = """a benchmark, e.g. mmlu_pro (`gym-llm list --benchmarks`); an environment, e.g. gym_llm/Arithmetic-v0
(`gym-llm list`); or a file: ./my_env.py. With --config: key=value, which overrides the files"""
_CONFIG = "instead of ENV_ID: YAML with environments, their datasets and engines (several: later ones win)"
_TASKS = """tasks instead of the environment's own: JSON Lines (.jsonl, .jsonl.gz, .jsonl.zst), .parquet, .csv, .tsv, or
hf:ORG/NAME:CONFIG:SPLIT@REVISION (ORG/NAME alone will do); FILE[10:20] for some of them; train or validation: the
environment's public data"""


@with_options
def rollout(
    *,
    context: typer.Context,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="BENCHMARK|ENV_ID", help=_ENV_ID, autocompletion=complete_target)
    ] = None,
    config: Annotated[list[str] | None, options.what("FILE", _CONFIG)] = None,
    tasks: Annotated[str | None, options.what("FILE", _TASKS)] = None,
    mapping: Annotated[str | None, options.what("MAPPING", options.MAP, None, "--map")] = None,
    env_kwargs: options.EnvKwargs = None,
    engine: Annotated[str | None, options.engine("SPEC", options.ENGINE)] = None,
    play: PlayOptions,
    output: Annotated[
        str | None, options.output("FILE", "records (default: rollouts/<name>-<date>-<time>.jsonl)")
    ] = None,
    show: Annotated[int, options.output("N", "print the first N conversations", options.natural)] = 0,
    files: RunFileOptions,
) -> int:
    """Play an environment with a model, many episodes at once, and score it.

    Each finished episode is one JSON line of the output. A table of the results is printed, and written beside the
    output as FILE.summary.json.
    """
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.cli.progress import show_reading
    from gym_llm.cli.run_report import print_report
    from gym_llm.rollouts.run import Run

    tasks = options.mapped(tasks, mapping)
    files.check(play, output, "FILE: the file")
    play.refuse_unread(context)
    refuse_unread(
        context,
        Unread("show", not files.quiet, "with --quiet: give one of them."),
        Unread("prices", play.max_dollars or play.run_max_dollars, "without --max-dollars or --run-max-dollars."),
    )
    parts, notes = _parts(settings or [], config or [], engine, tasks, env_kwargs, play, files.quiet)
    play.refuse_unread_sampling(context, parts)
    conversations: list[Any] = []
    with Interrupts() as interrupts:
        with show_reading(quiet=files.quiet):
            opened = Run(
                play.seeded(parts),
                episodes=play.episodes,
                limit=play.limit,
                reasoning_parser=play.reasoning_parser,
                tool_call_parser=play.tool_call_parser,
                output=output,
                resume=files.resume,
                retry_failed=files.retry_failed,
                accept_changes=files.accept_changes,
                max_failures=play.failure_limit,
                **play.run_budgets,
                pass_threshold=play.pass_threshold,
                notes=notes,
                settings=play.settings(files.otel),
            )
        with opened as run:
            if not files.quiet:
                print_notes(run.parts.values())
            again = resume_command(context.obj, None if output else str(run.path))
            interrupts.last_words = f"Ended at once, while episodes were under way. {again}\n"
            code, ended = _play(run, interrupts, files, conversations, show) if run.remaining else (0, "")
        if not files.quiet:
            print_report(run, conversations)
        if (interrupts.code or ended) and run.remaining:
            print_ending(ended, run.summary.episodes, again, interrupts.last_warning)
            if ended and run.summary.failures:
                print("Add --retry-failed to play the masked episodes again.", file=sys.stderr)
            return code if ended else interrupts.resumable_code
        return 1 if ended or not run.summary.scored else 0
    nothing_played(context.obj, bool(output))
    return interrupts.resumable_code


def _parts(
    settings: list[str],
    config: list[str],
    engine: str | None,
    tasks: str | None,
    env_kwargs: str | None,
    play: PlayOptions,
    quiet: bool,
) -> tuple[list[Part], dict[str, Any]]:
    import gymnasium as gym

    from gym_llm.cli.config import read_config
    from gym_llm.data.recipes.catalogue import is_benchmark
    from gym_llm.rollouts.benchmarks import benchmark_part
    from gym_llm.rollouts.config.compose import names_files
    from gym_llm.rollouts.config.workloads import config_parts
    from gym_llm.rollouts.workload import Part

    if config or any(map(names_files, settings)):
        refuse_first(
            (tasks, "--tasks does not go with --config: give `datasets`."),
            (play.judge, "--judge does not go with --config: give `judge` in `kwargs`."),
            (env_kwargs, "--env-kwargs does not go with --config: give `kwargs`."),
            (play.episodes, "--episodes does not go with --config: give --limit and --repeats."),
        )
        composed = read_config(config, settings, warn=not quiet)
        parts = config_parts(composed, engine, play.engine_options, play.repeats)
        return parts, {"config": config, "repeats": play.repeats}
    if len(settings) != 1:
        surplus = f", got {' '.join(settings)}" if settings else ""
        raise UsageError(
            f"Give one benchmark or ENV_ID, or --config FILE{surplus}. See `gym-llm list --benchmarks` and `gym-llm "
            "list`."
        )
    spec, target = engine or "pocket", settings[0]
    kwargs = play.with_judge({target: options.read_env_kwargs(env_kwargs)})[target]
    if tasks is None and target not in gym.registry and is_benchmark(target):
        repeats = play.repeats or (1 if play.episodes else None)
        part = benchmark_part(
            target,
            env_kwargs=kwargs,
            repeats=repeats,
            drawn=play.drawn,
            dataset="",
            engine=spec,
            engine_options=play.engine_options,
        )
        return [part], {"model": play.model}
    part = Part(target, spec, tasks, kwargs, play.engine_options, play.repeats or 1)
    return [part], {"model": play.model}


def _play(
    run: Run, interrupts: Interrupts, files: RunFileOptions, conversations: list[Any], show: int
) -> tuple[int, str]:
    """Play what is missing; the first `show` records go to `conversations`.

    Returns:
        The exit code and the reason of a run that ended early; 0 and "" otherwise.
    """
    from gym_llm.cli.progress import show_progress
    from gym_llm.evaluation.tracking import RunLog, make_tracker

    async def follow() -> None:
        async with aclosing(run.records()) as records:
            async for record in records:
                if len(conversations) < show:
                    conversations.append(record)
                run_log.see(record)
                advance()

    trackers = [make_tracker(spec) for spec in files.log or []]
    with nullcontext(lambda: None) if files.quiet else show_progress(run) as advance, RunLog(run, trackers) as run_log:
        try:
            interrupts.run(follow)
        except (TooManyFailures, RayUnavailable, BudgetSpent) as failure:
            if isinstance(failure, RayUnavailable) and not run.played:
                raise
            return 3 if isinstance(failure, BudgetSpent) else 1, str(failure).rstrip(".")
    return 0, ""
