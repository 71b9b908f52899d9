"""Text for messages: near names, printable text, excerpts."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable
from typing import Any

from gym_llm.utils.secrets import redact


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most like another, None where none is; `cutoff` is `difflib.get_close_matches`'s."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """` Did you mean …?` with the `nearest`, or nothing where nothing is near.

    >>> did_you_mean("temprature", ["temperature", "top_p"])
    ' Did you mean temperature?'
    """
    suggestion = nearest(name, known, cutoff=cutoff)
    return f" Did you mean {suggestion}?" if suggestion else ""


_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 4, 400, 80


def printable(text: str) -> str:
    r"""The text without secrets, and without what could steer a terminal, turn a line round or not be encoded.

    >>> printable("red \x1b[31m alert")
    'red �[31m alert'
    >>> printable("txt.\u202egpj")
    'txt.�gpj'
    """
    return _UNPRINTABLE.sub("\ufffd", redact(text))


def excerpt(value: Any, length: int = 200) -> str:
    """The beginning of a value's `repr`, however large it is, or deeply nested.

    >>> excerpt({"choices": [[[[[]]]]]}), excerpt("a" * 1_000_000, 9)
    ("{'choices': [[[[...]]]]}", "'aaaaaaaa")
    """
    try:
        return _REPR.repr(value)[:length]
    except ValueError:  # an integer of more digits than Python writes
        return f"({type(value).__name__})"
