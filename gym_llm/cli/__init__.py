"""The command line, `gym-llm`: one module per command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from gym_llm import __version__
from gym_llm.cli.config import add_config_command
from gym_llm.cli.data import add_data_command
from gym_llm.cli.env import add_env_command
from gym_llm.cli.list import add_list_command
from gym_llm.cli.rollout import add_rollout_command
from gym_llm.did_you_mean import did_you_mean
from gym_llm.errors import DataError, EngineUnavailable, RayUnavailable, UsageError

_EXAMPLES = """\
examples:
  gym-llm list
  gym-llm rollout gym_llm/Arithmetic-v0 --episodes 200
  gym-llm rollout gym_llm/MultipleChoice-v0 --tasks test.jsonl --engine http://localhost:8000/v1 --repeats 8

`gym-llm COMMAND --help` says more about each command.
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of `gym-llm`; each command sets `run`, which takes the parsed arguments and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="gym-llm",
        description="Gymnasium for language models: play verifiers with a model and score it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gym-llm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_list_command(commands)
    add_config_command(commands)
    add_data_command(commands)
    add_env_command(commands)
    add_rollout_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The arguments; None for the process's own.

    Returns:
        Exit code: 0, 1 if every episode failed, 2 for wrong arguments, data or engines, 130 when interrupted.
    """
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # a terminal that cannot show ± shows ?
    args = _parse(make_parser(), argv)
    try:
        return args.run(args)
    except (UsageError, DataError, EngineUnavailable, RayUnavailable) as error:
        print(f"gym-llm: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `gym-llm list | head`; keep the interpreter from complaining when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse; `key=value` may stand between options, where argparse leaves positional arguments over."""
    args, rest = parser.parse_known_args(argv, argparse.Namespace(argv=argv))
    settings = [argument for argument in rest if "=" in argument and not argument.startswith("-")]
    if rest and not (len(settings) == len(rest) and "settings" in args):
        command = getattr(args, "command_parser", parser)
        wrong = next((argument.partition("=")[0] for argument in rest if argument.startswith("--")), "")
        hint = did_you_mean(wrong, command._option_string_actions) if wrong else ""
        command.error(f"unrecognized arguments: {' '.join(rest)}.{hint}")
    if settings:
        args.settings = [*args.settings, *settings]
    return args
