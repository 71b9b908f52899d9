"""`gym-llm rollout`: play environments with a model. What it plays with is imported when it runs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

import typer

from gym_llm.cli.usage import complete_env
from gym_llm.errors import UsageError

EXAMPLES = """\
examples:
  gym-llm rollout gym_llm/Arithmetic-v0                          the built-in model, 64 generated tasks
  gym-llm rollout gym_llm/Weather-v0 --show 1                    ... and see one conversation
  gym-llm rollout gym_llm/Arithmetic-v0 --episodes 500 --env-kwargs '{"digits": 3}'
  gym-llm rollout gym_llm/MultipleChoice-v0 --tasks test.jsonl --repeats 8 \\
      --engine http://localhost:8000/v1 --model Qwen/Qwen3-4B --output runs/mcqa.jsonl
  gym-llm rollout gym_llm/Weather-v0 --engine vllm:Qwen/Qwen3-4B \\
      --engine-option max_model_len=4096 --engine-option history=append
  gym-llm rollout --config envs/weather/config.yaml --config envs/arithmetic/config.yaml arithmetic.kwargs.digits=1
  gym-llm rollout ... --concurrency 16384 --workers 8            in 8 processes, over Ray
  gym-llm rollout ... --workers 64 --ray-address head:6379       on a cluster
  gym-llm rollout ... --output runs/mcqa.jsonl --resume          complete an interrupted run

Without --episodes, --limit or --repeats each task is played once (64 tasks where they are generated without end).

exit codes: 0 done, 1 every episode failed, 2 wrong arguments, data or engine, 130 interrupted.
"""
_PIP = '{"pip": ["math-verify==0.8.0"]}'


def _checked(kind: Callable[[str], Any], holds: Callable[[Any], bool], expected: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not holds(value):
            raise typer.BadParameter(f"expected {expected}, got {text!r}")
        return value

    return parse


_natural = _checked(int, lambda value: value >= 0, "an integer, 0 or more")
_positive = _checked(int, lambda value: value >= 1, "an integer, 1 or more")
_temperature = _checked(float, lambda value: 0 <= value < float("inf"), "a number, 0 or more")
_probability = _checked(float, lambda value: 0 < value <= 1, "a number in (0, 1]")
_seconds = _checked(float, lambda value: value >= 0, "a number of seconds, 0 for no limit")


def _engine_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        # What was given may be a secret.
        raise typer.BadParameter("expected NAME=VALUE such as max_model_len=4096")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


_engine = partial(typer.Option, rich_help_panel="Engine", show_default=False)
_episodes = partial(typer.Option, rich_help_panel="Episodes", show_default=False)
_processes = partial(typer.Option, rich_help_panel="Processes", show_default=False)
_output = partial(typer.Option, rich_help_panel="Output", show_default=False)


def rollout(
    context: typer.Context,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV_ID",
            help="e.g. gym_llm/Arithmetic-v0; `gym-llm list` names all. With --config: key=value, over what the files "
            "say",
            autocompletion=complete_env,
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="instead of ENV_ID: YAML that names environments, datasets and engines (several: later ones win)",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="tasks instead of the environment's own: JSON Lines (.jsonl, .jsonl.gz, .jsonl.zst), .parquet, or "
            "hf:ORG/NAME[:SPLIT]; FILE[10:20] for a part of them",
        ),
    ] = None,
    env_kwargs: Annotated[str | None, typer.Option(metavar="JSON", help="the environment's further arguments")] = None,
    engine: Annotated[
        str | None,
        _engine(
            metavar="SPEC",
            help="pocket (default, a tiny built-in model), vllm:MODEL, transformers:MODEL, replay:FILE, or the URL of "
            "an OpenAI-compatible server, http://host:port/v1 (several, separated by commas, share the load)",
        ),
    ] = None,
    model: Annotated[str | None, _engine(metavar="NAME", help="the model to ask an http engine for")] = None,
    engine_option: Annotated[
        list[Any] | None,
        _engine(
            metavar="NAME=VALUE",
            parser=_engine_option,
            help="a further argument of the engine, e.g. timeout=60 or history=append; VALUE is JSON, or else a text "
            "(several: give it again)",
        ),
    ] = None,
    temperature: Annotated[
        float | None, _engine(metavar="T", parser=_temperature, help="instead of the tasks' own")
    ] = None,
    top_p: Annotated[float | None, _engine(metavar="P", parser=_probability, help="instead of the tasks' own")] = None,
    max_output_tokens: Annotated[
        int | None, _engine(metavar="M", parser=_positive, help="per turn, instead of the tasks' own")
    ] = None,
    reasoning_parser: Annotated[
        str | None,
        _engine(
            metavar="NAME",
            help="one of vLLM's, e.g. deepseek_r1, instead of looking for <think>; openai_gptoss for gpt-oss",
        ),
    ] = None,
    tool_call_parser: Annotated[
        str | None,
        _engine(
            metavar="NAME", help="one of vLLM's, e.g. pythonic, instead of looking for Hermes' and Llama's formats"
        ),
    ] = None,
    episodes: Annotated[
        int | None, _episodes(metavar="N", parser=_positive, help="play N episodes, going round the tasks")
    ] = None,
    limit: Annotated[int | None, _episodes(metavar="N", parser=_positive, help="play only the first N tasks")] = None,
    repeats: Annotated[
        int | None, _episodes(metavar="K", parser=_positive, help="play each task K times (pass@1 ... pass@K)")
    ] = None,
    concurrency: Annotated[int, _episodes(metavar="C", parser=_positive, help="episodes at once (default: 64)")] = 64,
    seed: Annotated[
        int | None,
        _episodes(
            metavar="S",
            parser=_natural,
            help="of generated tasks, and of sampling where that is done here (default: 0; vllm:MODEL samples without "
            "one, which is faster, unless it is given)",
        ),
    ] = None,
    step_timeout: Annotated[
        float,
        _episodes(
            metavar="SECONDS",
            parser=_seconds,
            help="what a reset or step of an environment may take before its episode fails (default: 600; 0: for ever)",
        ),
    ] = 600.0,
    workers: Annotated[
        int, _processes(metavar="N", parser=_natural, help="play in N processes, over Ray (default: 0, this one)")
    ] = 0,
    ray_address: Annotated[
        str | None, _processes(metavar="A", help="a cluster's address (default: a Ray of this machine's own)")
    ] = None,
    runtime_env: Annotated[
        str | None,
        _processes(
            metavar="JSON",
            help=f"Ray's runtime_env of the workers, such as {_PIP}; a list has one for each",
        ),
    ] = None,
    output: Annotated[
        str | None, _output(metavar="FILE", help="records (default: rollouts/<name>-<date>-<time>.jsonl)")
    ] = None,
    resume: Annotated[bool, _output("--resume", help="go on with the output of an interrupted run")] = False,
    retry_failed: Annotated[bool, _output("--retry-failed", help="with --resume: play failed episodes again")] = False,
    show: Annotated[int, _output(metavar="N", parser=_natural, help="print the first N conversations")] = 0,
    quiet: Annotated[bool, _output("--quiet", help="print nothing but errors")] = False,
) -> int:
    """Play an environment with a model, many episodes at once, and score it.

    Each finished episode is one JSON line of the output; a table of the results is printed, and written beside it as
    FILE.summary.json.
    """
    for wrong, sentence in (
        (episodes and (limit or repeats), "Give either --episodes, or --limit and --repeats, not both."),
        (resume and output is None, "--resume needs --output FILE: the file to go on with."),
        (retry_failed and not resume, "--retry-failed only makes sense with --resume."),
        (ray_address and not workers, "--ray-address only makes sense with --workers N."),
        (runtime_env and not workers, "--runtime-env only makes sense with --workers N."),
    ):
        if wrong:
            raise UsageError(sentence)

    from gym_llm.cli.interrupts import INTERRUPTED, run_until_interrupted
    from gym_llm.cli.parts import parts_of, read_json
    from gym_llm.cli.progress import Progress
    from gym_llm.cli.report import print_report
    from gym_llm.rollout.run import Run
    from gym_llm.rollout.settings import RolloutSettings

    sampling = {"temperature": temperature, "top_p": top_p, "max_output_tokens": max_output_tokens}
    progress = Progress(quiet=quiet)
    parts, notes = parts_of(
        settings or [],
        config or [],
        tasks=tasks,
        env_kwargs=env_kwargs,
        engine=engine,
        model=model,
        engine_options=dict(engine_option or []),
        episodes=episodes,
        repeats=repeats,
        seed=seed,
    )
    try:
        how = RolloutSettings(
            concurrency=concurrency,
            seed=seed or 0,
            sampling={name: value for name, value in sampling.items() if value is not None},
            step_timeout=step_timeout or None,
            workers=workers,
            ray_address=ray_address,
            runtime_env=None if runtime_env is None else read_json("--runtime-env", runtime_env, _PIP, (dict, list)),
            on_waiting=progress.note,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    conversations: list[Any] = []

    async def play() -> None:
        async with aclosing(run.records()) as records:
            async for record in records:
                if len(conversations) < show:
                    conversations.append(record)
                progress.show()

    interrupted = False
    with Run(
        parts,
        episodes=episodes,
        limit=limit,
        reasoning_parser=reasoning_parser,
        tool_call_parser=tool_call_parser,
        output=output,
        resume=resume,
        retry_failed=retry_failed,
        notes=notes,
        settings=how,
    ) as run:
        if run.remaining:
            with progress.of(run):
                interrupted = run_until_interrupted(play)
    if not quiet:
        print_report(run, conversations)
    if interrupted and run.remaining:
        argv = [argument for argument in context.obj if argument not in ("--resume", "--retry-failed")]
        command = ["gym-llm", *argv, *(() if output else ("--output", str(run.path))), "--resume"]
        done = run.summary.episodes
        print(f"Interrupted: {done} episodes are finished. Resume with: {shlex.join(command)}", file=sys.stderr)
        return INTERRUPTED
    return 1 if run.summary.failures == run.summary.episodes else 0
