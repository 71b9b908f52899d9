"""The options that commands which play episodes have in common, and what is read from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gym_llm.cli.refusals import shown_argument
from gym_llm.errors import UsageError
from gym_llm.utils.did_you_mean import did_you_mean
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from gym_llm.rollouts.settings import RolloutSettings, Tracing
    from gym_llm.rollouts.workload import Part

_KWARGS = '{"max_turns": 4}'
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


natural = _checked(int, lambda value: value >= 0, "an integer, 0 or more")
positive = _checked(int, lambda value: value >= 1, "an integer, 1 or more")
finite = _checked(float, isfinite, "a finite number")
_temperature = _checked(float, lambda value: 0 <= value < float("inf"), "a number, 0 or more")
_probability = _checked(float, lambda value: 0 < value <= 1, "a number in (0, 1]")
_agent_seconds = _checked(float, lambda value: 0 < value <= 86_400, "a number of seconds above 0, at most 86400")
_seconds = _checked(float, lambda value: value >= 0, "a number of seconds, 0 for no limit")


def _name_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        # What was given may be a secret.
        raise typer.BadParameter("expected NAME=VALUE such as max_model_len=4096")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _failure_limit(text: str) -> str | None:
    from gym_llm.rollouts.failure_limit import FailureLimit

    limit = None if text == "any" else text
    try:
        FailureLimit(limit)
    except ValueError:
        raise typer.BadParameter(f"expected a number of episodes, a share such as 10%, or any; got {text!r}") from None
    return text


def panel(name: str | None) -> Callable[..., Any]:
    """`typer.Option` in a panel of the help: its metavar and help, the function that reads it, the name of a flag."""

    def option(metavar: str | None, help: str, parser: Callable[[str], Any] | None = None, *flag: str) -> Any:
        return typer.Option(*flag, metavar=metavar, help=help, parser=parser, rich_help_panel=name, show_default=False)

    return option


what, engine, episodes, processes, output = map(panel, (None, "Engine", "Episodes", "Processes", "Output"))
"""`typer.Option` in each panel of the help; see `panel`."""

ENGINE = """pocket (default, a tiny built-in model), vllm:MODEL, transformers:MODEL, replay:FILE, or the URL of an
OpenAI-compatible server, http://host:port/v1 (several, separated by commas, share the load)"""
_ENGINE_OPTION = """a further argument of the engine, e.g. timeout=60 or history=append; VALUE is JSON, or else a text
(several: give it again)"""
_REASONING = "one of vLLM's, e.g. deepseek_r1, instead of looking for <think>; openai_gptoss for gpt-oss"
_CALLS = "one of vLLM's, e.g. pythonic, instead of looking for Hermes' and Llama's formats"
_AGENT = """who plays, with the engine's model behind it: a program, e.g. "python my_agent.py", or an async function,
module:NAME or FILE.py:NAME (docs/how-to/agents.md)"""
_AGENT_TIMEOUT = "what an agent may take for an episode (default: 600)"
_SEED = """chooses generated tasks, and what is sampled where that is done here (default: 0; vllm:MODEL samples without
one, which is faster, unless it is given)"""
_TIMEOUT = "what a reset or step of an environment may take before its episode fails (default: 600; 0: for ever)"
_RUNTIME_ENV = f"Ray's runtime_env of the workers, such as {_PIP}; a list has one for each"
_MAX_FAILURES = """end the run when more episodes than that are masked (default: 10%, from the 21st masked one on;
any: never)"""
_RETRIES = "play an episode again that a server, a judge or a process let down, up to R times (default: 1)"
_LOG = """follow the run: tensorboard[:FOLDER], mlflow[:EXPERIMENT] or wandb[:PROJECT] (several: give it again)"""
_OTEL = "send traces of the episodes to an OpenTelemetry collector, e.g. http://localhost:4318"
_OWN = "instead of the tasks' own"

_TOKEN = """what whoever asks has to send (`Authorization: Bearer T`, an API key); others can see arguments, so set the
variable instead"""
Port = Annotated[int, typer.Option(metavar="P", min=0, max=65535, help="the port; 0 for any that is free")]
Host = Annotated[str, typer.Option(metavar="H", help="any address but this machine's own needs a token")]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="T",
        envvar="GYM_LLM_TOKEN",
        show_default=False,
        help=_TOKEN,
    ),
]
Model = Annotated[str | None, engine("NAME", "the model to ask an http engine for")]
EngineOptions = Annotated[list[Any] | None, engine("NAME=VALUE", _ENGINE_OPTION, _name_value)]
Temperature = Annotated[float | None, engine("T", _OWN, _temperature)]
TopP = Annotated[float | None, engine("P", _OWN, _probability)]
MaxOutputTokens = Annotated[int | None, engine("M", f"per turn, {_OWN}", positive)]
ReasoningParser = Annotated[str | None, engine("NAME", _REASONING)]
ToolCallParser = Annotated[str | None, engine("NAME", _CALLS)]
Agent = Annotated[str | None, engine("COMMAND", _AGENT)]
AgentTimeout = Annotated[float, engine("SECONDS", _AGENT_TIMEOUT, _agent_seconds)]
Episodes = Annotated[int | None, episodes("N", "play N episodes, going round the tasks", positive)]
Limit = Annotated[int | None, episodes("N", "play only the first N tasks", positive)]
Repeats = Annotated[int | None, episodes("K", "play each task K times (pass@1 ... pass@K)", positive)]
Concurrency = Annotated[int, episodes("C", "episodes at once (default: 64)", positive)]
Seed = Annotated[int | None, episodes("S", _SEED, natural)]
StepTimeout = Annotated[float, episodes("SECONDS", _TIMEOUT, _seconds)]
Retries = Annotated[int, episodes("R", _RETRIES, natural)]
MaxFailures = Annotated[str, episodes("N|P%", _MAX_FAILURES, _failure_limit)]
PassThreshold = Annotated[
    float, episodes("X", "a reward of X or more counts as solved, for pass@k (default: 1)", finite)
]
Workers = Annotated[int, processes("N", "play in N processes, over Ray (default: 0, this one)", natural)]
RayAddress = Annotated[str | None, processes("A", "a cluster's address (default: a Ray of this machine's own)")]
RuntimeEnv = Annotated[str | None, processes("JSON", _RUNTIME_ENV)]
Resume = Annotated[bool, output(None, "go on with the output of an interrupted run", None, "--resume")]
RetryFailed = Annotated[bool, output(None, "with --resume: play masked episodes again", None, "--retry-failed")]
Log = Annotated[list[str] | None, output("TRACKER", _LOG)]
Otel = Annotated[str | None, output("URL", _OTEL)]
Quiet = Annotated[bool, output(None, "print nothing but errors", None, "--quiet")]


def check_processes(workers: int, ray_address: str | None, runtime_env: str | None) -> None:
    """Raise a UsageError for options of workers where there are none."""
    for value, option in ((ray_address, "--ray-address"), (runtime_env, "--runtime-env")):
        if value and not workers:
            raise UsageError(f"{option} only makes sense with --workers N.")


def rollout_settings(
    *,
    temperature: float | None,
    top_p: float | None,
    max_output_tokens: int | None,
    seed: int | None,
    step_timeout: float,
    runtime_env: str | None,
    **more: Any,
) -> RolloutSettings:
    """How the episodes are played, by the options of these names.

    Raises:
        UsageError: If a value makes no sense.
    """
    from gym_llm.rollouts.settings import RolloutSettings

    sampling = {"temperature": temperature, "top_p": top_p, "max_output_tokens": max_output_tokens}
    try:
        return RolloutSettings(
            seed=seed or 0,
            sampling={name: value for name, value in sampling.items() if value is not None},
            step_timeout=step_timeout or None,
            runtime_env=read_json("--runtime-env", runtime_env, _PIP, dict, list) if runtime_env else None,
            **more,
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def check_trackers(log: list[str] | None) -> None:
    """Raise a UsageError for a tracker that there is not, before anything is played."""
    from gym_llm.evaluation.tracking import make_tracker

    for spec in log or []:
        make_tracker(spec)


def make_tracing(url: str | None) -> Tracing | None:
    """What `--otel` names.

    Raises:
        UsageError: If it is no address, or a package is missing.
    """
    if url is None:
        return None
    try:
        from gym_llm.evaluation.tracking import otel
    except ModuleNotFoundError as error:
        raise UsageError(f"--otel needs the package {error.name}: {install('tracking')}.") from None
    return otel.Tracing(url)


def seeded(parts: Sequence[Part], seed: int | None) -> list[Part]:
    """The parts; where a seed was given their engines have it, if they take one (vLLM samples without one else)."""
    return [
        replace(part, engine_options={"seed": seed, **part.engine_options})
        if seed is not None and part.capabilities.seed
        else part
        for part in parts
    ]


def read_env_kwargs(text: str | None) -> dict[str, Any]:
    """What `--env-kwargs` says."""
    return {} if text is None else read_json("--env-kwargs", text, _KWARGS, dict)


def read_kwargs_by_env(texts: Sequence[str], envs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The arguments of each environment by what `--env-kwargs` says, JSON for all of them and `ENV_ID=JSON` for one.

    An environment's own go over those of all, and later ones over earlier ones.

    Raises:
        UsageError: If one is no JSON object, or is for an environment that is not there.
    """
    shared: dict[str, Any] = {}
    own: dict[str, dict[str, Any]] = {env: {} for env in envs}
    for text in texts:
        env, equals, value = text.partition("=")
        if not equals or text.lstrip().startswith(("{", "[")):
            shared.update(read_env_kwargs(text))
        elif env in own:
            own[env].update(read_json(f"--env-kwargs {env}", value, _KWARGS, dict))
        else:
            raise UsageError(
                f"--env-kwargs names {shown_argument(env)!r}, which is not played.{did_you_mean(env, envs)} "
                f"Played: {', '.join(envs)}; JSON alone is for all of them."
            )
    return {env: {**shared, **kwargs} for env, kwargs in own.items()}


def read_json(option: str, text: str, example: str, *kinds: type) -> Any:
    """An option's JSON; a UsageError if it is none, or no value of these kinds."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise UsageError(f"{option} is nested too deeply; expected an object such as '{example}'.") from None
    except ValueError as error:
        raise UsageError(f"{option} is not JSON ({error}); expected an object such as '{example}'.") from None
    if not isinstance(value, kinds):
        raise UsageError(f"{option} is a JSON object such as '{example}', got {shown_argument(text)}.")
    return value
