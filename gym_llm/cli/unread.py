"""Options that are given though nothing reads them: each is refused by name, before anything is played."""

from __future__ import annotations

from typing import Any, NamedTuple

import typer

from gym_llm.errors import UsageError


class Unread(NamedTuple):
    """A rule about options that only some uses of a command read.

    Attributes:
        options: The names of the command's parameters.
        is_read: Whether this use of the command reads them; true or not as Python has it.
        why: Why nothing reads them, and the way on; the rest of a sentence that begins with the option.
    """

    options: str
    is_read: Any
    why: str


def refuse_unread(context: typer.Context, *rules: Unread) -> None:
    """Raise a UsageError for the first option that was given on the command line though nothing reads it."""
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for options, is_read, why in rules:
        given = [name for name in options.split() if _is_given(context, name)]
        if given and not is_read:
            raise UsageError(f"{names[given[0]]} has no effect {why}")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"  # a variable such as GYM_LLM_TOKEN is for all commands
