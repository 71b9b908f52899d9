"""Checking what the maker of an environment, or the author of a task, has chosen."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gym_llm.utils.text import did_you_mean

M = TypeVar("M", bound=BaseModel)


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise ValueError unless the value is None or one of the choices.

    >>> check_choice("which", "frist", ["first", "last"])
    Traceback (most recent call last):
    ValueError: which is one of first, last; got 'frist'. Did you mean first?
    """
    if value is not None and not (isinstance(value, str) and value in choices):
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name} is one of {', '.join(choices)}; got {value!r}.{hint}")


def check_pattern(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> str:
    """Return the pattern; raise ValueError if it is not a regular expression.

    >>> check_pattern("(")
    Traceback (most recent call last):
    ValueError: '(' is not a regular expression: missing ), unterminated subpattern at position 0
    """
    try:
        re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern


def read_settings(name: str, schema: type[M], settings: dict[str, Any] | None) -> M:
    """An argument that is a dict of settings, checked; a ValueError says what is wrong with the first that is."""
    try:
        return schema.model_validate(settings or {})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    place = ".".join(map(str, (name, *problem["loc"])))
    raise ValueError(f"{place}: {problem['msg']}.")
