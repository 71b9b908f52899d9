"""Options that several commands share, and the functions that read their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Annotated, Any

import typer

from gym_llm.cli.refusals import complete_env, shown_argument
from gym_llm.errors import UsageError
from gym_llm.utils.text import did_you_mean

_KWARGS = '{"max_turns": 4}'


def checked(kind: Callable[[str], Any], holds: Callable[[Any], bool], expected: str) -> Callable[[str], Any]:
    """Return a parser of an option that refuses values for which `holds` is false."""

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not holds(value):
            raise typer.BadParameter(f"expected {expected}, got {text!r}")
        return value

    return parse


natural = checked(int, lambda value: value >= 0, "an integer, 0 or more")
positive = checked(int, lambda value: value >= 1, "an integer, 1 or more")
finite = checked(float, isfinite, "a finite number")


def _name_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        # The argument may be a secret; do not repeat it.
        raise typer.BadParameter("expected NAME=VALUE such as max_model_len=4096")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def panel(name: str | None) -> Callable[..., Any]:
    """Return a function that makes a `typer.Option` in a panel of the help: metavar, help, parser, name of a flag."""

    def option(metavar: str | None, help: str, parser: Callable[[str], Any] | None = None, *flag: str) -> Any:
        return typer.Option(*flag, metavar=metavar, help=help, parser=parser, rich_help_panel=name, show_default=False)

    return option


what, engine, episodes, budgets, processes, output = map(
    panel, (None, "Engine", "Episodes", "Budgets", "Processes", "Output")
)
"""`typer.Option` in each panel of the help; see `panel`."""

MAP = """makes tasks of rows with other columns, e.g. 'question=input, answer|after(####)=expected_answer'
(docs/how-to/data.md)"""
ENGINE = """pocket (default, a tiny built-in model), vllm:MODEL, transformers:MODEL, replay:FILE, or the URL of an
OpenAI-compatible server, http://host:port/v1 (several, separated by commas, share the load)"""
_ENGINE_OPTION = """a further argument of the engine, e.g. timeout=60 or history=append; VALUE is JSON or text
(several: give it again)"""
_TOKEN = """the token that clients send (`Authorization: Bearer T`, or an API key); other users of this machine can see
arguments, so set the variable instead"""
Port = Annotated[int, typer.Option(metavar="P", min=0, max=65535, help="the port; 0 for a free one")]
Host = Annotated[
    str, typer.Option(metavar="H", help="the address to listen on; any but a loopback address needs a token")
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="T",
        envvar="GYM_LLM_TOKEN",
        show_default=False,
        help=_TOKEN,
    ),
]
EnvIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ENV_ID", help="e.g. gym_llm/Weather-v0, or a file: ./my_env.py", autocompletion=complete_env
    ),
]
EnvKwargs = Annotated[str | None, what("JSON", "the environment's further arguments")]
Model = Annotated[str | None, engine("NAME", "the model to ask an http engine for")]
EngineOptions = Annotated[list[Any] | None, engine("NAME=VALUE", _ENGINE_OPTION, _name_value)]


def run_file(path: str) -> str:
    """Return the rollout file that a FILE argument stands for."""
    from gym_llm.evaluation.view.run_files import find_run

    return find_run(path)


_RUN_FILE = "a rollout file: JSON Lines, also .gz or .zst; or the folder of an evaluation with one engine"
RunFile = Annotated[str, typer.Argument(metavar="FILE", help=_RUN_FILE, parser=run_file)]


def mapped(tasks: str | None, mapping: str | None) -> str | None:
    """Return the source of `--tasks` with the mapping of `--map`."""
    if mapping is None:
        return tasks
    from gym_llm.data.files.mapping import parse_mapping
    from gym_llm.data.files.reading import mapped_source

    if tasks is None:
        raise UsageError("--map needs --tasks: the rows to make tasks of.")
    parse_mapping(mapping)
    return mapped_source(tasks, mapping)


def read_env_kwargs(text: str | None) -> dict[str, Any]:
    """Return the value of `--env-kwargs`."""
    return {} if text is None else read_json("--env-kwargs", text, _KWARGS, dict)


def read_kwargs_by_env(texts: Sequence[str], envs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each environment's arguments from `--env-kwargs`: JSON for all of them, `ENV_ID=JSON` for one.

    An environment's own go over those of all, and later ones over earlier ones.

    Raises:
        UsageError: If a value is not a JSON object, or names an environment that is not played.
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
    """Parse an option's JSON; raise a UsageError if it is invalid or of another kind."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise UsageError(f"{option} is nested too deeply; expected an object such as '{example}'.") from None
    except ValueError as error:
        raise UsageError(f"{option} is not JSON ({error}); expected an object such as '{example}'.") from None
    if not isinstance(value, kinds):
        raise UsageError(f"{option} is a JSON object such as '{example}', got {shown_argument(text)}.")
    return value
