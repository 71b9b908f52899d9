"""`gym-llm rollout`: play environments with a model. What it plays with is imported when it runs."""

from __future__ import annotations

import sys
from contextlib import aclosing, nullcontext
from typing import Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.refusals import complete_env, printable, resume_command
from gym_llm.errors import RayUnavailable, TooManyFailures, UsageError

EXAMPLES = """\
examples:
  gym-llm rollout gym_llm/Arithmetic-v0                          the built-in model, 64 generated tasks
  gym-llm rollout gym_llm/Weather-v0 --show 1                    ... and see one conversation
  gym-llm rollout gym_llm/Arithmetic-v0 --episodes 500 --env-kwargs '{"digits": 3}'
  gym-llm rollout ./my_env.py --show 1                           an environment of your own; nothing is installed
  gym-llm rollout gym_llm/MultipleChoice-v0 --tasks test.jsonl --repeats 8 \\
      --engine http://localhost:8000/v1 --model Qwen/Qwen3-4B --output runs/mcqa.jsonl
  gym-llm rollout gym_llm/Weather-v0 --engine vllm:Qwen/Qwen3-4B \\
      --engine-option max_model_len=4096 --engine-option history=append
  gym-llm rollout --config envs/weather/config.yaml --config envs/arithmetic/config.yaml arithmetic.kwargs.digits=1
  gym-llm rollout ... --concurrency 16384 --workers 8            in 8 processes, over Ray
  gym-llm rollout ... --workers 64 --ray-address head:6379       on a cluster
  gym-llm rollout ... --output runs/mcqa.jsonl --resume          complete an interrupted run
  gym-llm rollout ... --log tensorboard --log wandb:my-project   follow it from elsewhere

Without --episodes, --limit or --repeats each task is played once (64 tasks where they are generated without end).

exit codes: 0 done, 1 too many episodes masked (or all of them), 2 wrong arguments, data or engine; 130, 143 and 129
after Ctrl-C, SIGTERM and SIGHUP.
"""
_ENV_ID = """e.g. gym_llm/Arithmetic-v0 (`gym-llm list` names all), or a file: ./my_env.py. With --config: key=value,
over what the files say"""
_CONFIG = "instead of ENV_ID: YAML that names environments, their datasets and engines (several: later ones win)"
_TASKS = """tasks instead of the environment's own: JSON Lines (.jsonl, .jsonl.gz, .jsonl.zst), .parquet, or
hf:ORG/NAME[:SPLIT]; FILE[10:20] for a part of them"""


def rollout(
    *,
    context: typer.Context,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="ENV_ID", help=_ENV_ID, autocompletion=complete_env)
    ] = None,
    config: Annotated[list[str] | None, options.what("FILE", _CONFIG)] = None,
    tasks: Annotated[str | None, options.what("FILE", _TASKS)] = None,
    env_kwargs: Annotated[str | None, options.what("JSON", "the environment's further arguments")] = None,
    engine: Annotated[str | None, options.engine("SPEC", options.ENGINE)] = None,
    model: options.Model = None,
    engine_option: options.EngineOptions = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    max_output_tokens: options.MaxOutputTokens = None,
    reasoning_parser: options.ReasoningParser = None,
    tool_call_parser: options.ToolCallParser = None,
    agent: options.Agent = None,
    agent_timeout: options.AgentTimeout = 600.0,
    episodes: options.Episodes = None,
    limit: options.Limit = None,
    repeats: options.Repeats = None,
    concurrency: options.Concurrency = 64,
    seed: options.Seed = None,
    step_timeout: options.StepTimeout = 600.0,
    retries: options.Retries = 1,
    max_failures: options.MaxFailures = "10%",
    pass_threshold: options.PassThreshold = 1.0,
    workers: options.Workers = 0,
    ray_address: options.RayAddress = None,
    runtime_env: options.RuntimeEnv = None,
    output: Annotated[
        str | None, options.output("FILE", "records (default: rollouts/<name>-<date>-<time>.jsonl)")
    ] = None,
    resume: options.Resume = False,
    retry_failed: options.RetryFailed = False,
    show: Annotated[int, options.output("N", "print the first N conversations", options.natural)] = 0,
    log: options.Log = None,
    otel: options.Otel = None,
    quiet: options.Quiet = False,
) -> int:
    """Play an environment with a model, many episodes at once, and score it.

    Each finished episode is one JSON line of the output; a table of the results is printed, and written beside it as
    FILE.summary.json.
    """
    from gym_llm.cli.config import read_config
    from gym_llm.cli.interrupts import Interrupts
    from gym_llm.cli.progress import show_progress
    from gym_llm.cli.report import print_report
    from gym_llm.evaluation.tracking import RunLog, make_tracker
    from gym_llm.rollouts.config.compose import names_files
    from gym_llm.rollouts.config.workloads import config_parts
    from gym_llm.rollouts.run import Run
    from gym_llm.rollouts.workload import Part

    settings, config = settings or [], config or []
    from_files = bool(config) or any(map(names_files, settings))
    for wrong, sentence in (
        (episodes and (limit or repeats), "Give either --episodes, or --limit and --repeats, not both."),
        (resume and output is None, "--resume needs --output FILE: the file to go on with."),
        (retry_failed and not resume, "--retry-failed only makes sense with --resume."),
        (from_files and tasks, "--tasks does not go with --config: give `datasets`."),
        (from_files and env_kwargs, "--env-kwargs does not go with --config: give `kwargs`."),
        (from_files and episodes, "--episodes does not go with --config: give --limit and --repeats."),
    ):
        if wrong:
            raise UsageError(sentence)
    options.check_processes(workers, ray_address, runtime_env)
    engine_options = {**({} if model is None else {"model": model}), **dict(engine_option or [])}
    if from_files:
        parts = config_parts(read_config(config, settings, warn=not quiet), engine, engine_options, repeats)
        notes: dict[str, Any] = {"config": config, "repeats": repeats}
    elif len(settings) == 1:
        kwargs = options.read_env_kwargs(env_kwargs)
        parts = [Part(settings[0], engine or "pocket", tasks, kwargs, engine_options, repeats or 1)]
        notes = {"model": model}
    else:
        surplus = f", got {' '.join(settings)}" if settings else ""
        raise UsageError(f"Give one ENV_ID, or --config FILE{surplus}. `gym-llm list` names the environments.")
    how = options.rollout_settings(
        temperature=temperature,
        top_p=top_p,
        max_output_tokens=max_output_tokens,
        concurrency=concurrency,
        seed=seed,
        step_timeout=step_timeout,
        retries=retries,
        workers=workers,
        ray_address=ray_address,
        runtime_env=runtime_env,
        tracing=options.make_tracing(otel),
        agent=agent,
        agent_timeout=agent_timeout,
    )
    trackers = [make_tracker(spec) for spec in log or []]
    conversations: list[Any] = []

    async def play() -> None:
        async with aclosing(run.records()) as records:
            async for record in records:
                if len(conversations) < show:
                    conversations.append(record)
                run_log.see(record)
                tell()

    too_many = ""
    with Interrupts() as interrupts:
        with Run(
            options.seeded(parts, seed),
            episodes=episodes,
            limit=limit,
            reasoning_parser=reasoning_parser,
            tool_call_parser=tool_call_parser,
            output=output,
            resume=resume,
            retry_failed=retry_failed,
            max_failures=None if max_failures == "any" else max_failures,
            pass_threshold=pass_threshold,
            notes=notes,
            settings=how,
        ) as run:
            how_to_resume = resume_command(context.obj, None if output else str(run.path))
            interrupts.last_words = f"Ended at once, in the midst of it. {how_to_resume}\n"
            if run.remaining:
                with (
                    nullcontext(lambda: None) if quiet else show_progress(run) as tell,
                    RunLog(run, trackers) as run_log,
                ):
                    try:
                        interrupts.run(play)
                    except (TooManyFailures, RayUnavailable) as failure:
                        if isinstance(failure, RayUnavailable) and not run.played:
                            raise
                        too_many = str(failure).rstrip(".")
        if not quiet:
            print_report(run, conversations)
        if (interrupts.code or too_many) and run.remaining:
            done = f"Interrupted: {run.summary.episodes} episodes are finished."
            why = f"Ended: {printable(too_many)}." if too_many else done
            print(f"{why} {how_to_resume}", file=sys.stderr)
            if too_many and run.summary.failures:
                print("Add --retry-failed to play the masked episodes again.", file=sys.stderr)
            return 1 if too_many else interrupts.code
        return 1 if too_many or not run.summary.scored else 0
    again = resume_command(context.obj, None) if output else "Begin again with the same command."
    print(f"Interrupted: nothing was played. {again}", file=sys.stderr)
    return interrupts.code
