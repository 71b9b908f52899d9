"""The options of commands that play episodes. Each is written once and serves `rollout` and `eval`."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from gym_llm.cli.help import HelpAll
from gym_llm.cli.refusals import printable, resume_command
from gym_llm.cli.shared_options import (
    EngineOptions,
    Model,
    budgets,
    checked,
    engine,
    episodes,
    finite,
    natural,
    output,
    positive,
    processes,
    read_json,
)
from gym_llm.cli.unread import Unread, refuse_unread
from gym_llm.errors import UsageError
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from gym_llm.rollouts.settings import RolloutSettings, Tracing
    from gym_llm.rollouts.workload import OpenWorkload, Part

_PIP = '{"pip": ["math-verify==0.8.0"]}'
_OWN = "instead of the tasks' own"
_REASONING = "a vLLM parser, e.g. deepseek_r1 (default: look for <think>); openai_gptoss for gpt-oss"
_CALLS = "a vLLM parser, e.g. pythonic (default: look for the formats of Hermes and Llama)"
_JUDGE = "the engine that judges, for benchmarks and environments that take a judge"
_AGENT = """an agent that plays with the engine's model behind it: a program, e.g. "python my_agent.py", or an async
function, module:NAME or FILE.py:NAME (docs/how-to/agents.md)"""
_AGENT_TIMEOUT = "seconds an agent may take for an episode (default: 600)"
_AGENT_IN = "where an agent's program runs: host, or machine for the sandbox of its episode (default: host)"
_AGENT_IMAGE = """the image of an agent's machine, for tasks that have none: host, or the path of a folder, a tar or an
image archive (default: host)"""
_SEED = """seed of generated tasks and of sampling in this process (default: 0; vllm:MODEL samples without a seed, which
is faster, unless one is given)"""
_TIMEOUT = "seconds a reset or step of an environment may take before its episode fails (default: 600; 0: no limit)"
_RUNTIME_ENV = f"the workers' runtime_env for Ray, such as {_PIP}; a list has one for each worker"
_MAX_FAILURES = """end the run when more episodes than this are masked (default: 10%, from the 21st masked one on;
any: never)"""
_RETRIES = "play an episode up to R times again if a server, a judge or a process failed (default: 1)"
_LOG = "follow the run: tensorboard[:FOLDER], mlflow[:EXPERIMENT] or wandb[:PROJECT] (several: give it again)"
_ACCEPT = "with --resume: go on though settings, code or files have changed since; the summary lists the changes"
_DURABLE = "write down what is sampled and answered before it is used: --resume goes on in the middle of episodes"
_OTEL = "send traces of the episodes to an OpenTelemetry collector, e.g. http://localhost:4318"

_MAX_TOKENS = "truncate and score an episode after N tokens, given and generated"
_MAX_SECONDS = "truncate and score an episode this long after its first request"
_MAX_DOLLARS = "truncate and score an episode when its tokens have cost this much; needs --prices"
_PRICES = "YAML with the prices of a million tokens by model: MODEL: {input: 0.5, output: 1.5, cached_input: 0.1}"
_RUN_MAX_TOKENS = "end the run when the episodes in its file have N tokens; --resume goes on with a larger N"
_RUN_MAX_SECONDS = "end the run after this time; --resume goes on"
_RUN_MAX_DOLLARS = "end the run when the episodes in its file have cost this much; needs --prices"

_COMPACT = """shorten a history that fills the context: summary, trim, tool-results, or native
(docs/how-to/long-episodes.md)"""
_COMPACT_AT = "the share of the context that the next prompt has to reach (default: 0.8)"
_COMPACT_CONTEXT = "the context in tokens, for servers that do not say it"

_amount = checked(float, lambda value: 0 < value < float("inf"), "a number above 0")
_temperature = checked(float, lambda value: 0 <= value < float("inf"), "a number, 0 or more")
_share = checked(float, lambda value: 0 < value < 1, "a number between 0 and 1")
_probability = checked(float, lambda value: 0 < value <= 1, "a number in (0, 1]")
_agent_seconds = checked(float, lambda value: 0 < value <= 86_400, "a number of seconds above 0, at most 86400")
_seconds = checked(float, lambda value: value >= 0, "a number of seconds, 0 for no limit")


_OF_AGENTS = ("agent", "agent_timeout", "agent_in", "agent_image")


def _place(text: str) -> str:
    if text not in ("host", "machine"):
        raise typer.BadParameter(f"expected host or machine; got {text!r}")
    return text


def _failure_limit(text: str) -> str | None:
    from gym_llm.rollouts.failure_limit import FailureLimit

    limit = None if text == "any" else text
    try:
        FailureLimit(limit)
    except ValueError:
        raise typer.BadParameter(f"expected a number of episodes, a share such as 10%, or any; got {text!r}") from None
    return text


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Options for sampling, choosing, playing and distributing episodes: the panels Engine, Episodes and Processes."""

    model: Model = None
    engine_option: EngineOptions = None
    temperature: Annotated[float | None, engine("T", _OWN, _temperature)] = None
    top_p: Annotated[float | None, engine("P", _OWN, _probability)] = None
    max_output_tokens: Annotated[int | None, engine("M", f"per turn, {_OWN}", positive)] = None
    reasoning_parser: Annotated[str | None, engine("NAME", _REASONING)] = None
    tool_call_parser: Annotated[str | None, engine("NAME", _CALLS)] = None
    judge: Annotated[str | None, engine("SPEC", _JUDGE)] = None
    agent: Annotated[str | None, engine("COMMAND", _AGENT)] = None
    agent_timeout: Annotated[float, engine("SECONDS", _AGENT_TIMEOUT, _agent_seconds)] = 600.0
    compact: Annotated[str | None, engine("HOW", _COMPACT)] = None
    compact_at: Annotated[float, engine("SHARE", _COMPACT_AT, _share)] = 0.8
    compact_context: Annotated[int | None, engine("N", _COMPACT_CONTEXT, positive)] = None
    agent_in: Annotated[str, engine("PLACE", _AGENT_IN, _place)] = "host"
    agent_image: Annotated[str, engine("IMAGE", _AGENT_IMAGE)] = "host"
    episodes: Annotated[int | None, episodes("N", "play N episodes; start again after the last task", positive)] = None
    limit: Annotated[
        int | None, episodes("N", "play only the first N tasks; of a benchmark, with --seed, N drawn", positive)
    ] = None
    repeats: Annotated[int | None, episodes("K", "play each task K times (pass@1 ... pass@K)", positive)] = None
    concurrency: Annotated[int, episodes("C", "episodes at once (default: 64)", positive)] = 64
    seed: Annotated[int | None, episodes("S", _SEED, natural)] = None
    step_timeout: Annotated[float, episodes("SECONDS", _TIMEOUT, _seconds)] = 600.0
    retries: Annotated[int, episodes("R", _RETRIES, natural)] = 1
    max_failures: Annotated[str, episodes("N|P%", _MAX_FAILURES, _failure_limit)] = "10%"
    prices: Annotated[str | None, budgets("FILE", _PRICES)] = None
    max_tokens: Annotated[int | None, budgets("N", _MAX_TOKENS, positive)] = None
    max_seconds: Annotated[float | None, budgets("SECONDS", _MAX_SECONDS, _amount)] = None
    max_dollars: Annotated[float | None, budgets("DOLLARS", _MAX_DOLLARS, _amount)] = None
    run_max_tokens: Annotated[int | None, budgets("N", _RUN_MAX_TOKENS, positive)] = None
    run_max_seconds: Annotated[float | None, budgets("SECONDS", _RUN_MAX_SECONDS, _amount)] = None
    run_max_dollars: Annotated[float | None, budgets("DOLLARS", _RUN_MAX_DOLLARS, _amount)] = None
    pass_threshold: Annotated[
        float, episodes("X", "a reward of X or more counts as solved, for pass@k (default: 1)", finite)
    ] = 1.0
    workers: Annotated[int, processes("N", "play in N processes, over Ray (default: 0, this one)", natural)] = 0
    ray_address: Annotated[str | None, processes("A", "a cluster's address (default: start Ray here)")] = None
    runtime_env: Annotated[str | None, processes("JSON", _RUNTIME_ENV)] = None
    durable: Annotated[bool, output(None, _DURABLE, None, "--durable")] = False

    @property
    def engine_options(self) -> dict[str, Any]:
        """The engine's arguments."""
        return {**({} if self.model is None else {"model": self.model}), **dict(self.engine_option or [])}

    @property
    def failure_limit(self) -> str | None:
        """The limit of masked episodes; None for no limit."""
        return None if self.max_failures == "any" else self.max_failures

    @property
    def run_budgets(self) -> dict[str, Any]:
        """The run's budgets, as arguments of `Run`.

        Raises:
            UsageError: If dollars are limited, and there are no prices.
        """
        if self.run_max_dollars and not self.prices:
            raise UsageError("--run-max-dollars needs --prices FILE.")
        return {name: getattr(self, name) for name in ("run_max_tokens", "run_max_seconds", "run_max_dollars")}

    @property
    def drawn(self) -> tuple[int, int] | None:
        """The number of tasks to draw from a benchmark, and the seed; None for the first ones, or all."""
        return None if self.limit is None or self.seed is None else (self.limit, self.seed)

    def with_judge(self, kwargs_by_env: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return environments' arguments with the judge of `--judge`, where they take one.

        Raises:
            UsageError: If no environment takes a judge, or all have one already.
        """
        if self.judge is None:
            return dict(kwargs_by_env)
        from gym_llm.rollouts.benchmarks import takes_judge

        judged = [env for env in kwargs_by_env if takes_judge(env)]
        if not judged:
            raise UsageError(f"--judge has no effect: {', '.join(kwargs_by_env)} takes no `judge`. Leave it out.")
        if all("judge" in kwargs_by_env[env] for env in judged):
            raise UsageError("--judge has no effect, because --env-kwargs has a `judge`: give one of them.")
        return {
            env: {"judge": self.judge, **kwargs} if env in judged else kwargs for env, kwargs in kwargs_by_env.items()
        }

    def refuse_unread(self, context: typer.Context) -> None:
        """Raise a UsageError for an option that needs another one, or that no engine of these specs reads."""
        refuse_unread(
            context,
            Unread("agent_timeout agent_in agent_image", self.agent, "without --agent: give both, or neither."),
            Unread("agent_image", self.agent_in == "machine", "without --agent-in machine: give both, or neither."),
            Unread("compact_at compact_context", self.compact, "without --compact: give both, or neither."),
        )

    def refuse_unread_sampling(self, context: typer.Context, parts: Sequence[Part]) -> None:
        """Raise a UsageError for options of sampling where no part's engine samples."""
        names = ", ".join(dict.fromkeys(str(part.engine) for part in parts))
        why = f"with {names}, which does not sample: leave it out, or name another --engine."
        is_read = any(part.capabilities.samples for part in parts)
        refuse_unread(context, Unread("temperature top_p max_output_tokens", is_read, why))

    def settings(self, otel: str | None) -> RolloutSettings:
        """Return how the episodes are played.

        Raises:
            UsageError: If a value is invalid, or `--otel` needs a package that is missing.
        """
        from gym_llm.rollouts.settings import RolloutSettings

        for value, option in ((self.ray_address, "--ray-address"), (self.runtime_env, "--runtime-env")):
            if value and not self.workers:
                raise UsageError(f"{option} only makes sense with --workers N.")
        runtime_env = self.runtime_env and read_json("--runtime-env", self.runtime_env, _PIP, dict, list)
        sampling = {name: getattr(self, name) for name in ("temperature", "top_p", "max_output_tokens")}
        try:
            return RolloutSettings(
                seed=self.seed or 0,
                sampling={name: value for name, value in sampling.items() if value is not None},
                step_timeout=self.step_timeout or None,
                runtime_env=runtime_env or None,
                tracing=_make_tracing(otel),
                **{
                    name: getattr(self, name)
                    for name in (
                        *("concurrency", "retries", "workers", "ray_address", *_OF_AGENTS, "durable"),
                        *("max_tokens", "max_seconds", "max_dollars", "prices"),
                        *("compact", "compact_at", "compact_context"),
                    )
                },
            )
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from None

    def seeded(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts; a given seed becomes an option of engines that take one."""
        if self.seed is None:
            return [*parts]
        return [
            replace(part, engine_options={"seed": self.seed, **part.engine_options}) if part.capabilities.seed else part
            for part in parts
        ]


@dataclass(frozen=True, kw_only=True)
class RunFileOptions:
    """Options for resuming a run and for following it: the end of the panel Output."""

    resume: Annotated[bool, output(None, "go on with the output of an interrupted run", None, "--resume")] = False
    retry_failed: Annotated[bool, output(None, "with --resume: play masked episodes again", None, "--retry-failed")] = (
        False
    )
    accept_changes: Annotated[bool, output(None, _ACCEPT, None, "--accept-changes")] = False
    log: Annotated[list[str] | None, output("TRACKER", _LOG)] = None
    otel: Annotated[str | None, output("URL", _OTEL)] = None
    quiet: Annotated[bool, output(None, "print nothing but errors", None, "--quiet")] = False
    help_all: HelpAll = False

    def check(self, play: PlayOptions, path: str | None, what: str) -> None:
        """Raise a UsageError for options that do not go together, before anything is played.

        Args:
            play: The other options.
            path: What `--output` names.
            what: What that is, e.g. `FILE: the file`.
        """
        from gym_llm.evaluation.tracking import make_tracker

        refuse_first(
            (
                play.episodes and (play.limit or play.repeats),
                "Give either --episodes, or --limit and --repeats, not both.",
            ),
            (self.resume and path is None, f"--resume needs --output {what} to go on with."),
            (self.retry_failed and not self.resume, "--retry-failed only makes sense with --resume."),
            (self.accept_changes and not self.resume, "--accept-changes only makes sense with --resume."),
        )
        for spec in self.log or []:
            make_tracker(spec)


def refuse_first(*cases: tuple[Any, str]) -> None:
    """Raise a UsageError with the sentence of the first case that holds."""
    for wrong, sentence in cases:
        if wrong:
            raise UsageError(sentence)


def with_options(command: Callable[..., int]) -> Callable[..., int]:
    """Spread a command's parameters that are dataclasses of options into one parameter for each option.

    Typer reads a command's signature. The wrapper shows it the fields, and calls the command with the dataclasses.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        types = get_type_hints(group, include_extras=True)
        for field in fields(group):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=default, annotation=types[field.name])
            )

    @functools.wraps(command)
    def wrapper(**values: Any) -> int:
        made = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        return command(**values, **made)

    wrapper.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def print_notes(parts: Iterable[OpenWorkload]) -> None:
    """Print once what a plan has to say, such as that there are fewer tasks than the limit."""
    for note in dict.fromkeys(part.plan.note for part in parts if part.plan.note):
        print(printable(note), file=sys.stderr)


def nothing_played(argv: Sequence[str], has_output: bool) -> None:
    """Print how to begin again after an interrupt that came before the first episode."""
    again = resume_command(argv, None) if has_output else "Begin again with the same command."
    print(f"Interrupted: nothing was played. {again}", file=sys.stderr)


def print_ending(reason: str, finished: int, again: str, warning: str) -> None:
    """Print why a run ended before its last episode, and how to go on.

    Args:
        reason: What ended it; "" for a signal.
        finished: The number of finished episodes.
        again: The sentence with the command that resumes it.
        warning: The engines' last warning, which is why no episode is finished.
    """
    why = f"Ended: {printable(reason)}." if reason else f"Interrupted: {finished:,} episodes are finished."
    if warning and not finished:
        print(f"last failure: {printable(warning)}", file=sys.stderr)
    print(f"{why} {again}", file=sys.stderr)


def _make_tracing(url: str | None) -> Tracing | None:
    if url is None:
        return None
    try:
        from gym_llm.evaluation.tracking import otel
    except ModuleNotFoundError as error:
        raise UsageError(f"--otel needs the package {error.name}: {install('tracking')}.") from None
    return otel.Tracing(url)
