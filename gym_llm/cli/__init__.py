"""The command line, `gym-llm`: one module per command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import typer
from typer.core import TyperCommand
from typer.main import get_command

from gym_llm import __version__
from gym_llm.cli import rollout
from gym_llm.cli.config import add_config_command
from gym_llm.cli.data import add_data_command
from gym_llm.cli.env import add_env_command
from gym_llm.cli.list import add_list_command
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
    commands.add_parser("rollout", help="play an environment with a model and score it")
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
    try:
        if argv[:1] == ["rollout"]:
            return _rollout(argv)
        args = _parse(make_parser(), argv)
        return args.run(args)
    except (UsageError, DataError, EngineUnavailable, RayUnavailable) as error:
        print(f"gym-llm: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `gym-llm list | head`; keep the interpreter from complaining when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


class _Command(TyperCommand):
    def format_help(self, ctx, formatter):  # type: ignore[no-untyped-def]
        epilog, self.epilog = self.epilog, None
        super().format_help(ctx, formatter)
        print(epilog)


def _rollout(argv: Sequence[str]) -> int:
    """Wt-G's skeleton takes this one's place."""
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("rollout", epilog=rollout.EXAMPLES, cls=_Command)(rollout.rollout)
    try:
        code = get_command(app).main([*argv], prog_name="gym-llm", standalone_mode=False, obj=[*argv])
        if "--help" in argv:
            raise SystemExit(code)
        return code
    except typer.TyperException as error:
        context, param = getattr(error, "ctx", None), getattr(error, "param", None)
        options = getattr(error, "possibilities", None)
        message = f"argument {param.opts[0]}: {error.message}" if param else error.format_message()
        if options:
            name = error.option_name
            rest = argv[next(i for i, text in enumerate(argv) if text.partition("=")[0] == name) :]
            message = f"unrecognized arguments: {' '.join(rest)}. Did you mean {options[0]}?"
        print(f"u{context.get_usage()[1:]}\ngym-llm rollout: error: {message}", file=sys.stderr)
        return 2


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
