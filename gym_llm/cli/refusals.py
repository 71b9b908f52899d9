"""Messages about wrong arguments, without the secrets in them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gym_llm.utils.secrets import MASK, is_secret_key, mask
from gym_llm.utils.text import printable as printable

if TYPE_CHECKING:
    from typer import TyperException

_OPTION = re.compile(r"[+-]*[A-Za-z_][\w.-]*")


def shown_argument(argument: str) -> str:
    """Return an argument of a command with its secrets masked, for printing.

    >>> shown_argument("api_key=k-1"), shown_argument('{"judge_api_key": "k-2", "turns": 3}')
    ('api_key=***', '{"judge_api_key": "***", "turns": 3}')
    >>> shown_argument('mine/Quiz-v0={"judge_api_key": "k-2"}')
    'mine/Quiz-v0={"judge_api_key": "***"}'
    """
    name, equals, value = argument.partition("=")
    if equals and _OPTION.fullmatch(name):
        return f"{name}={MASK if is_secret_key(name) else shown_argument(value)}"
    if equals and value.startswith("{") and not argument.startswith("{"):  # ENV_ID=JSON
        return f"{mask(name)}={shown_argument(value)}"
    if argument.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            given = json.loads(argument)
            if (masked := mask(given)) != given:
                return json.dumps(masked, ensure_ascii=False)
    return str(mask(argument))


def complete_env(incomplete: str) -> list[str]:
    """Return the ids with this prefix, for the shell's completion."""
    from gym_llm.core.registry.ids import env_ids

    return [env_id for env_id in env_ids() if env_id.startswith(incomplete)]


def complete_benchmark(incomplete: str) -> list[str]:
    """Return the benchmarks with this prefix, for the shell's completion."""
    from gym_llm.data.recipes.catalogue import benchmarks

    return [name for name in benchmarks() if name.startswith(incomplete)]


def complete_target(incomplete: str) -> list[str]:
    """Return the benchmarks and the environments' ids with this prefix, for the shell's completion."""
    return complete_benchmark(incomplete) + complete_env(incomplete)


def wrong_arguments(error: TyperException) -> str:
    """Return one line about wrong arguments; "" if the help has been printed."""
    # The classes of Typer's usage errors have no public names: one for a wrong value knows the parameter, one for an
    # option that does not exist the nearest ones.
    context, param, options = (getattr(error, name, None) for name in ("ctx", "param", "possibilities"))
    message = error.format_message()
    if options:
        message = f"{error.message}. Did you mean {options[0]}?"
    elif param and error.message:
        message, context = f"argument {param.opts[0]}: {error.message.removeprefix('Value error, ')}", None
    if not message:
        return ""
    sentence = " ".join(message.split())
    if context and "Did you mean" not in sentence:
        sentence = f"{sentence.rstrip('.')}. See `{context.command_path} --help`."
    return f"gym-llm: {sentence}"


def resume_command(argv: Sequence[str], path: str | None) -> str:
    """Return the sentence with the command that resumes a run.

    Args:
        argv: The arguments of the run.
        path: The output that was chosen for it; None if the arguments have one.
    """
    arguments = [argument for argument in argv if argument not in ("--resume", "--retry-failed")]
    command = ["gym-llm", *arguments, *(() if path is None else ("--output", path))]
    words = [shown_argument(argument) for argument in command]
    hint = "" if words == command else f" (put the secrets in for {MASK})"
    return f"Resume with{hint}: {shlex.join([*words, '--resume'])}"
