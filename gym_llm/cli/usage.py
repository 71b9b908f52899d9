"""What the commands share in telling a user what is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import TyperException

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text without what could steer a terminal or not be encoded; models write anything.

    >>> printable("red \x1b[31m alert")
    'red �[31m alert'
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def complete_env(incomplete: str) -> list[str]:
    """The ids that begin like this, for the shell."""
    from gym_llm.registration import env_ids

    return [env_id for env_id in env_ids() if env_id.startswith(incomplete)]


def wrong_arguments(error: TyperException) -> str:
    """What to tell a user whose arguments are no command: how it is called, and what is wrong with them.

    Nothing if there are none: then the help has been printed.
    """
    # The classes of Typer's usage errors have no public names: one for a wrong value knows the parameter, one for an
    # option that does not exist the nearest ones.
    context, param, options = (getattr(error, name, None) for name in ("ctx", "param", "possibilities"))
    message = error.format_message()
    if options:
        message = f"{error.message}. Did you mean {options[0]}?"
    elif param and error.message:
        message = f"argument {param.opts[0]}: {error.message.removeprefix('Value error, ')}"
    usage = f"u{context.get_usage()[1:]}\n" if context else ""
    return f"{usage}gym-llm: {' '.join(message.split())}" if message else ""
