"""`gym-llm config`: print the configuration that a run would use; and read it for the other commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gym_llm.cli.help import Command
from gym_llm.utils.text import printable

if TYPE_CHECKING:
    from gym_llm.rollouts.config import Config

_EXAMPLES = """\
examples:
  gym-llm config --config envs/multiple_choice/config.yaml --config envs/arithmetic/config.yaml
  gym-llm config --config envs/arithmetic/config.yaml arithmetic.kwargs.digits=3
  gym-llm config --config agent.yaml --config model.yaml policy_base_url=http://localhost:8000/v1
  gym-llm config --nemo --config agent.yaml --config model.yaml            NeMo Gym's sections, merged

Later files override earlier ones, env.yaml in the working directory overrides all files, key=value overrides
everything. `???` marks a required value. NeMo Gym's files are read, too; sections without a counterpart are listed.
"""
app = typer.Typer()

ConfigFiles = Annotated[
    list[str],
    typer.Option("--config", metavar="FILE", help="YAML; later ones win", default_factory=list, show_default=False),
]
"""The option `--config FILE`, any number of times."""

Settings = Annotated[
    list[str],
    typer.Argument(
        metavar="key=value", help="settings that override the files", default_factory=list, show_default=False
    ),
]
"""The arguments `key=value`, anywhere between the options."""


def read_config(
    files: Sequence[str], settings: Sequence[str], *, warn: bool = False, one_engine: bool = True
) -> Config:
    """Read a command's configuration.

    Args:
        files: YAML files; later ones override earlier ones.
        settings: `key=value` over the files.
        warn: Whether to print on stderr which values have no effect.
        one_engine: See `load_config`.

    Raises:
        ConfigError: If the configuration is invalid.
        UsageError: If it names an environment that is not registered.
    """
    import gymnasium as gym

    from gym_llm.core.registry.ids import unknown_env
    from gym_llm.rollouts.config import load_config

    config = load_config(files, settings, one_engine=one_engine)
    for section in config.environments.values():
        try:
            gym.spec(section.env)
        except gym.error.Error:
            raise unknown_env(section.env) from None
    if warn:
        for sentence in _unmapped(config):
            print(f"Warning: {printable(sentence)}", file=sys.stderr)
    return config


def _unmapped(config: Config) -> Iterator[str]:
    from gym_llm.utils.secrets import mask

    return (f"not mapped: {mask(sentence, config.secrets)}" for sentence in config.unmapped)


def _check_arguments(config: Config) -> None:
    from gym_llm.core.registry.classes import env_arguments, env_class
    from gym_llm.errors import DataError
    from gym_llm.rollouts.config.load import unusable
    from gym_llm.utils.text import did_you_mean

    problems = []
    for name, section in config.environments.items():
        try:
            known = env_arguments(env_class(section.env))
        except DataError:  # not importable here, or not a verifier
            continue
        unknown = section.kwargs.keys() - known if known is not None else ()  # None takes anything
        problems += [
            f"{name}.kwargs.{key}: {section.env} has no such argument.{did_you_mean(key, known or ())}"
            for key in unknown
        ]
    if problems:
        raise unusable(sorted(problems))


@app.command("config", cls=Command, epilog=_EXAMPLES)
def print_config(
    *,
    files: ConfigFiles,
    nemo: Annotated[bool, typer.Option("--nemo", help="print the merged sections as NeMo Gym sees them")] = False,
    settings: Settings,
) -> int:
    """Print the configuration of a run with these files as YAML, secrets masked."""
    import yaml

    from gym_llm.rollouts.config.compose import compose
    from gym_llm.utils.secrets import mask

    if nemo:
        composed = compose(files, settings)
        print(yaml.safe_dump(mask(composed.values, composed.secrets), sort_keys=False, allow_unicode=True), end="")
        return 0
    config = read_config(files, settings)
    _check_arguments(config)
    print(yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True, width=120), end="")
    for sentence in _unmapped(config):
        print(f"# {sentence}")
    return 0
