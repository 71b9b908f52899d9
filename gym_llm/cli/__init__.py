"""The command line, `gym-llm`: one module per command."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from gymnasium.error import UnregisteredEnv
from typer.main import get_command

from gym_llm.cli import (
    capture,
    compare,
    config,
    data,
    drift,
    env,
    eval,
    export,
    filter,
    health,
    list,
    plan,
    profile,
    reverify,
    rollout,
    serve,
    serve_model,
    show,
    view,
)
from gym_llm.cli.help import Command, Group, LongCommand
from gym_llm.cli.refusals import wrong_arguments
from gym_llm.errors import CallerError, EngineUnavailable, RayUnavailable, SandboxUnavailable
from gym_llm.records.failures import reason
from gym_llm.utils.author_frames import author_frames
from gym_llm.utils.limits import check_limits
from gym_llm.utils.secrets import add_secrets, find_in_text, redact, redacted_streams
from gym_llm.utils.text import printable
from gym_llm.version import __version__

_EXAMPLES = """\
examples:
  gym-llm list
  gym-llm rollout gym_llm/Arithmetic-v0 --episodes 200
  gym-llm rollout gym_llm/MultipleChoice-v0 --tasks test.jsonl --engine http://localhost:8000/v1 --repeats 8
  gym-llm view

`gym-llm COMMAND --help` says more about each command.
"""

_RARE = "Less common commands"

app = typer.Typer(
    cls=Group, epilog=_EXAMPLES, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}
)
app.command("rollout", cls=LongCommand, epilog=rollout.EXAMPLES)(rollout.rollout)
app.command("eval", cls=LongCommand, epilog=eval.EXAMPLES)(eval.eval)
app.add_typer(list.app)
app.add_typer(view.app)
app.add_typer(show.app)
app.command("compare", cls=Command, epilog=compare.EXAMPLES)(compare.compare)
app.add_typer(export.app)
app.add_typer(data.app, name="data")
app.add_typer(env.app, name="env")
app.add_typer(serve.app)
for _module in (reverify, health, filter, profile, drift, config, capture, serve_model):
    for _command in _module.app.registered_commands:
        _command.rich_help_panel = _RARE
    app.add_typer(_module.app)
app.command("plan", cls=Command, epilog=plan.EXAMPLES, rich_help_panel=_RARE)(plan.plan)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"gym-llm {__version__}")
        raise typer.Exit


@app.callback()
def _gym_llm(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Gymnasium for language models: play verifiers with a model and score it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The arguments; None for the process's own.

    Returns:
        Exit code: 0, 1 if every episode failed, 2 for wrong arguments, data or engines, 130 when interrupted.
    """
    if not _open_streams():
        return 2
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # a terminal that cannot show ± shows ?
    argv = [*(sys.argv[1:] if argv is None else argv)]
    for argument in argv:
        add_secrets(find_in_text(argument))
    with redacted_streams():
        try:
            return _run(argv)
        except Exception as error:
            if lines := author_frames(error):
                print(f"gym-llm: {printable(reason(error))}", *lines, sep="\n  ", file=sys.stderr)
                return 1
            trace = "".join(traceback.format_exception(error))
            if redact(trace) == trace:
                raise
            print(trace, end="", file=sys.stderr)  # as Python would, without the secrets
            return 1


def _open_streams() -> bool:
    """Open the standard streams that the shell closed (`<&-`); say so if it is standard output."""
    is_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (open until the process ends)
    if is_closed:
        print("gym-llm: Standard output is closed: redirect it, for example to /dev/null.", file=sys.stderr)
    return not is_closed


def _is_own(error: BaseException) -> bool:
    """Whether this package made the call that failed, not the file of an author."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    library = sysconfig.get_path("stdlib") + os.sep
    callers = [file for file in files if not file.startswith((library, "<")) or "site-packages" in file]
    return bool(callers) and callers[-1].startswith(os.path.dirname(os.path.dirname(__file__)) + os.sep)


def _run(argv: Sequence[str]) -> int:
    try:
        check_limits()
        return get_command(app).main(argv, prog_name="gym-llm", standalone_mode=False, obj=argv)
    except typer.TyperException as error:
        if message := wrong_arguments(error):
            print(message, file=sys.stderr)
        return 2
    except (CallerError, EngineUnavailable, RayUnavailable, SandboxUnavailable, UnregisteredEnv) as error:
        print(f"gym-llm: {printable(str(error))}", file=sys.stderr)  # it may quote a server or a file
        return 2
    except OSError as error:
        if not _is_own(error):
            raise
        place = f": {error.filename}" if error.filename else ""
        print(f"gym-llm: {error.strerror or error}{printable(place)}.", file=sys.stderr)
        return 2
    except typer.Abort as abort:
        if abort.__cause__:  # Typer treats every EOFError as the end of the input
            raise abort.__cause__ from None
        return 130
