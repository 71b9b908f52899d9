"""`gym-llm config`: what a run would see. And reading configurations for the other commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gym_llm.cli.usage import unknown_env
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from gym_llm.config import Config

_EXAMPLES = """\
examples:
  gym-llm config --config envs/multiple_choice/config.yaml --config envs/arithmetic/config.yaml
  gym-llm config --config envs/arithmetic/config.yaml arithmetic.kwargs.digits=3
  gym-llm config --config agent.yaml --config model.yaml policy_base_url=http://localhost:8000/v1

Later files go over earlier ones, env.yaml in the working directory over all files, key=value over everything.
`???` marks what has to be given. NeMo Gym's files are read as well; what has no counterpart is named.
"""


def add_config_command(commands: Any) -> None:
    """Add `config` to the parser's subcommands."""
    parser = commands.add_parser(
        "config",
        help="print what a run with these configuration files would see",
        description="Compose configuration files and print the result as YAML, secrets masked.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_config_arguments(parser)
    parser.set_defaults(run=run, command_parser=parser)


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--config FILE` and `key=value` to a command: `args.config` and `args.settings`."""
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help="YAML; later ones win")
    parser.add_argument("settings", metavar="key=value", nargs="*", help="settings over those of the files")


def read_config(files: Sequence[str], settings: Sequence[str]) -> Config:
    """The configuration that a command was given.

    Raises:
        UsageError: If it cannot be used, or names an environment that is not registered.
    """
    import gymnasium as gym

    from gym_llm.config import load_config
    from gym_llm.errors import ConfigError

    try:
        config = load_config(files, settings)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    for section in config.environments.values():
        try:
            gym.spec(section.env)
        except gym.error.Error:
            raise unknown_env(section.env) from None
    return config


def run(args: argparse.Namespace) -> int:
    """Print the configuration."""
    import yaml

    config = read_config(args.config, args.settings)
    print(yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True, width=120), end="")
    for sentence in config.unmapped:
        print(f"# not mapped: {sentence}")
    return 0
