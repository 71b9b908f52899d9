"""What `gym-llm rollout` does: play what is left of a plan, write records as they finish, report."""

from __future__ import annotations

import argparse
import hashlib
import shlex
import time
from collections.abc import Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console

from gym_llm import __version__
from gym_llm.cli.interrupts import run_until_interrupted
from gym_llm.cli.parsers import parser_wrappers
from gym_llm.cli.parts import Part, parts_of
from gym_llm.cli.progress import Show, show_progress
from gym_llm.cli.report import print_parts, print_summary, print_transcript
from gym_llm.cli.usage import unknown_env
from gym_llm.data.files.reading import parse_source, slice_source
from gym_llm.data.files.rollout_file import RolloutFile
from gym_llm.engines import Engine, make_engine
from gym_llm.errors import RayUnavailable, UsageError
from gym_llm.registration import parse_id
from gym_llm.rollout.plan import Plan, open_plan
from gym_llm.rollout.play import play_plan
from gym_llm.rollout.settings import RolloutSettings
from gym_llm.rollout.summary import Summary
from gym_llm.types import Rollout

_SEEDED_ENGINES = {"pocket", "transformers"}
_LOADED_ENGINES = {*_SEEDED_ENGINES, "vllm"}
_PARSERS = ("reasoning_parser", "tool_call_parser")
_IDENTITY = ("env_id", "tasks_sha256", "env_kwargs", "sampling", "seed", "datasets", *_PARSERS)
"""Settings that all records of a file share, like the model; where it is served and how much is played may change."""

_DATASET_IDENTITY = ("env_id", "tasks_sha256", "env_kwargs")


@dataclass
class _Run:
    """The state of a run.

    Attributes:
        file: Its records.
        settings: What it was asked to do.
        summary: Of all records, earlier runs' too.
        plans: The episodes of each dataset of a configuration; its key is "" where there is none.
        datasets: What `summary` is, of each dataset.
        environments: The same of each environment; several where rows name their verifiers (`Mixed`).
        models: Who plays which dataset, as far as known: the engine's own name for it.
        finished: By dataset, (task index, repeat index) of the records that were there before.
        remaining: Episodes to play.
        played: Episodes played so far.
        started: When the first was started, `time.monotonic()` seconds.
        seconds: What they took.
        shown: The first records, to be printed.
    """

    file: RolloutFile
    settings: dict[str, Any]
    summary: Summary
    plans: dict[str, Plan]
    datasets: dict[str, Summary]
    environments: dict[str, Summary] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    finished: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    remaining: int = 0
    played: int = 0
    started: float = 0.0
    seconds: float = 0.0
    shown: list[Rollout] = field(default_factory=list)

    @property
    def model(self) -> str | None:
        """Who plays; several names where the datasets have several engines."""
        return ", ".join(dict.fromkeys(self.models.values())) or None

    def add(self, record: Rollout) -> None:
        """Count a record."""
        self.summary.add(record)
        if dataset := record.get("dataset"):
            self.datasets[dataset].add(record)
        else:
            if record["env_id"] not in self.environments:
                self.environments[record["env_id"]] = Summary(repeats=self.summary.repeats)
            self.environments[record["env_id"]].add(record)

    def as_dict(self) -> dict[str, Any]:
        """What `FILE.summary.json` says."""
        datasets = {
            name: {"model": self.models.get(name), **summary.as_dict()}
            for name, summary in self.datasets.items()
            if name
        }
        environments = {name: summary.as_dict() for name, summary in self.environments.items()}
        return {
            **self.summary.as_dict(),
            **({"datasets": datasets} if datasets else {}),
            **({"environments": environments} if len(environments) > 1 else {}),
            "model": self.model,
            "complete": self.played == self.remaining,
            "episodes_this_run": self.played,
            "seconds": self.seconds,
            "episodes_per_second": self.played / self.seconds if self.seconds else None,
            "settings": self.settings,
        }


def play_and_report(args: argparse.Namespace) -> int:
    """Run the command; see `gym_llm.cli.main` for what is raised and returned."""
    _check(args)
    parts = parts_of(args)
    for part in parts:
        parser_wrappers(args, part)  # what is wrong with them is told before anything starts
    plans = [_open_plan(args, part) for part in parts]
    verifiers: list[Any] = [plan.factory.make().unwrapped for plan in plans]
    env_ids = [verifier.spec.id for verifier in verifiers]  # what was given may be "module:id", or lack the version
    path = Path(args.output or f"rollouts/{_name(parts, env_ids)}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    with RolloutFile(path, resume=args.resume) as file:
        summaries = {part.dataset: Summary(repeats=part.repeats) for part in parts}
        most = max(part.repeats for part in parts)
        opened = {part.dataset: plan for part, plan in zip(parts, plans, strict=True)}
        run = _Run(file, _settings(args, parts, env_ids), Summary(repeats=most), opened, summaries)
        run.finished = {part.dataset: set() for part in parts}
        _read_finished(run, dict(zip(run.finished, verifiers, strict=True)), retry_failed=args.retry_failed)
        remaining = [
            sum(job not in run.finished[part.dataset] for job in plan.jobs())
            for part, plan in zip(parts, plans, strict=True)
        ]
        run.remaining = sum(remaining)
        interrupted = False
        if not run.remaining:
            run.settings = file.read_summary().get("settings", run.settings)
        else:
            left = [part for part, count in zip(parts, remaining, strict=True) if count]
            total = run.summary.episodes + run.remaining
            engines = _make_engines(args, left)
            with show_progress(total, workers=args.workers, quiet=args.quiet) as show:
                interrupted = run_until_interrupted(lambda: _play(args, engines, run, show))
        if run.summary.episodes:
            file.write_summary(run.as_dict())
    if not args.quiet:
        _report(run, ", ".join(dict.fromkeys(env_ids)))
    if interrupted and run.played < run.remaining:
        _tell_how_to_resume(args, run)
        return 130
    return 1 if run.summary.failures == run.summary.episodes else 0


async def _play(
    args: argparse.Namespace, engines: Sequence[tuple[Engine, Sequence[Part]]], run: _Run, show: Show
) -> None:
    for engine, parts in engines:
        # Where workers load a model, it is not loaded here, too: there may be no room for it twice.
        elsewhere = args.workers and _kind(parts[0].engine) in _LOADED_ENGINES
        async with nullcontext() if elsewhere else engine:
            for part in parts:
                if run.models.get(part.dataset) not in (None, engine.model):
                    raise UsageError(
                        f"{run.file.path} was played by {run.models[part.dataset]}, not {engine.model}: "
                        "name another --output."
                    )
                run.models[part.dataset] = engine.model
            run.started = run.started or time.monotonic()
            show(run.summary, run.played, run.seconds)
            for part in parts:
                await _play_part(args, part, engine, run, show)


async def _play_part(args: argparse.Namespace, part: Part, engine: Engine, run: _Run, show: Show) -> None:
    def watch(waiting: dict[str, int]) -> None:
        show(run.summary, run.played, time.monotonic() - run.started, waiting)

    settings = RolloutSettings(
        wrappers=parser_wrappers(args, part),
        concurrency=args.concurrency,
        seed=args.seed or 0,
        sampling=run.settings["sampling"],
        workers=args.workers,
        ray_address=args.ray_address,
        on_waiting=watch,
    )
    records = play_plan(
        run.plans[part.dataset],
        part.engine if args.workers else engine,
        settings,
        skip=run.finished[part.dataset],
        engine_options=_engine_options(args, part) if args.workers else None,
    )
    try:
        async with aclosing(records):  # type: ignore[type-var]
            async for record in records:
                if part.dataset:
                    record["dataset"] = part.dataset
                if run.played == 0:  # from now on the file has records, so it has to say how they were made
                    run.file.write_summary(_made_by(run))
                run.file.append(record)
                run.played += 1
                run.add(record)
                if len(run.shown) < args.show:
                    run.shown.append(record)
                show(run.summary, run.played, time.monotonic() - run.started)
    except RayUnavailable as error:
        raise UsageError(str(error)) from None
    finally:
        run.seconds = time.monotonic() - run.started


def _made_by(run: _Run) -> dict[str, Any]:
    models = {name: {"model": model} for name, model in run.models.items() if name}
    return {
        **({"datasets": models} if models else {}),
        "model": run.model,
        "complete": False,
        "settings": run.settings,
    }


def _check(args: argparse.Namespace) -> None:
    if args.episodes is not None and (args.limit is not None or args.repeats is not None):
        raise UsageError("Give either --episodes, or --limit and --repeats, not both.")
    if args.resume and args.output is None:
        raise UsageError("--resume needs --output FILE: the file to go on with.")
    if args.retry_failed and not args.resume:
        raise UsageError("--retry-failed only makes sense with --resume.")
    if args.ray_address and not args.workers:
        raise UsageError("--ray-address only makes sense with --workers N.")


def _open_plan(args: argparse.Namespace, part: Part) -> Plan:
    try:
        return open_plan(
            part.env_id,
            tasks=part.tasks,
            env_kwargs=part.env_kwargs,
            episodes=args.episodes,
            limit=args.limit,
            repeats=part.repeats,
            seed=args.seed or 0,
        )
    except gym.error.UnregisteredEnv:
        raise unknown_env(part.env_id) from None
    except ModuleNotFoundError as error:
        raise UsageError(f"{part.env_id} cannot be imported: {error}") from None
    except (gym.error.Error, TypeError, ValueError) as error:
        sentence, _, _ = str(error).partition(" was raised from the environment creator")  # added by gym.make
        raise UsageError(f"{part.dataset}: {sentence}" if part.dataset else sentence) from None


def _make_engines(args: argparse.Namespace, parts: list[Part]) -> list[tuple[Engine, list[Part]]]:
    """One engine for all parts that name the same one, in the order in which they are first named."""
    named: list[tuple[Part, list[Part]]] = []
    for part in parts:
        for first, others in named:
            if (part.engine, part.engine_options) == (first.engine, first.engine_options):
                others.append(part)
                break
        else:
            named.append((part, [part]))
    return [(_make_engine(args, first), others) for first, others in named]


def _make_engine(args: argparse.Namespace, part: Part) -> Engine:
    try:
        return make_engine(part.engine, **_engine_options(args, part))
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def _engine_options(args: argparse.Namespace, part: Part) -> dict[str, Any]:
    seeded = _SEEDED_ENGINES if args.seed is None else _LOADED_ENGINES
    return {"seed": args.seed or 0, **part.engine_options} if _kind(part.engine) in seeded else part.engine_options


def _kind(engine: str) -> str:
    return engine.strip().partition(":")[0]


def _settings(args: argparse.Namespace, parts: list[Part], env_ids: list[str]) -> dict[str, Any]:
    sampling = {"temperature": args.temperature, "top_p": args.top_p, "max_output_tokens": args.max_output_tokens}
    described = [_describe(part, env_id) for part, env_id in zip(parts, env_ids, strict=True)]
    if parts[0].dataset:
        played: dict[str, Any] = {
            "config": args.config,
            "datasets": {
                part.dataset: {**told, "repeats": part.repeats} for part, told in zip(parts, described, strict=True)
            },
        }
    else:
        played = {**described[0], "model": args.model}
    return {
        **played,
        "sampling": {name: value for name, value in sampling.items() if value is not None},
        "reasoning_parser": args.reasoning_parser,
        "tool_call_parser": args.tool_call_parser,
        "episodes": args.episodes,
        "limit": args.limit,
        "repeats": args.repeats,
        "concurrency": args.concurrency,
        "workers": args.workers,
        "seed": args.seed or 0,
        "gym_llm": __version__,
    }


def _describe(part: Part, env_id: str) -> dict[str, Any]:
    digest = _digest(part.tasks) if part.tasks else None
    return {"env_id": env_id, "tasks": part.tasks, "tasks_sha256": digest, **part.shown}


def _digest(source: str) -> str:
    parsed = parse_source(source)
    if parsed.is_hub:
        return source  # it is not here to be read twice
    with open(parsed.name, "rb") as file:
        return slice_source(hashlib.file_digest(file, "sha256").hexdigest(), parsed.start, parsed.end)


def _read_finished(run: _Run, verifiers: dict[str, Any], *, retry_failed: bool) -> None:
    """Take over what earlier runs wrote, if it was made the way this run would.

    Args:
        run: The run.
        verifiers: The environment of each dataset.
        retry_failed: Whether to drop failed episodes, so that they are played again.
    """
    file, settings = run.file, run.settings
    if not file.path.stat().st_size:
        return
    written = file.read_summary()
    earlier = written.get("settings", {})
    changes = [
        f"{name} was {was!r} and is {given!r}"
        for name in _IDENTITY
        if name in earlier and (was := _identity(earlier, name)) != (given := _identity(settings, name))
    ]
    if changes:
        raise UsageError(f"{file.path} was made with other settings ({', '.join(changes)}): name another --output.")
    models = written.get("datasets", {"": written})
    run.models = {name: model for name in verifiers if (model := models.get(name, {}).get("model"))}
    if retry_failed:
        file.keep(lambda record: not record.get("error"))
    for record in file.records():
        dataset = record.get("dataset", "")
        if dataset not in verifiers or not verifiers[dataset].plays(record.get("env_id")):
            played = " and ".join(dict.fromkeys(verifier.spec.id for verifier in verifiers.values()))
            raise UsageError(
                f"{file.path} holds rollouts of {record.get('env_id')}, not of {played}: name another --output."
            )
        run.finished[dataset].add((record["rollout_id"]["task_index"], record["rollout_id"]["repeat_index"]))
        run.add(record)  # type: ignore[arg-type]


def _identity(settings: dict[str, Any], name: str) -> Any:
    value = settings.get(name)
    if name != "datasets" or value is None:
        return value
    return {dataset: {key: told[key] for key in _DATASET_IDENTITY} for dataset, told in value.items()}


def _report(run: _Run, env_id: str) -> None:
    if not run.summary.episodes:
        return
    console = Console()
    for record in run.shown:
        print_transcript(console, record)
    print_summary(console, f"{env_id} played by {run.model or 'nobody'}", run.summary, run.played, run.seconds)
    print_parts(console, "dataset", run.datasets)
    print_parts(console, "environment", run.environments)
    console.out(f"records: {run.file.path}\nsummary: {run.file.summary_path}", highlight=False)


def _tell_how_to_resume(args: argparse.Namespace, run: _Run) -> None:
    argv = [argument for argument in args.argv if argument not in ("--resume", "--retry-failed")]
    if args.output is None:
        argv += ["--output", str(run.file.path)]
    command = shlex.join(["gym-llm", *argv, "--resume"])
    done = run.summary.episodes
    console = Console(stderr=True)
    console.out(f"Interrupted: {done} episodes are finished. Resume with: {command}", highlight=False)


def _name(parts: list[Part], env_ids: list[str]) -> str:
    sections = dict.fromkeys(part.dataset.partition("/")[0] for part in parts)
    return "-".join(sections)[:80] or parse_id(env_ids[0])[1]
