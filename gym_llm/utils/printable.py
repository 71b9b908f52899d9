"""Texts of others, made fit for messages: what could steer a terminal or turn a line round is taken out."""

from __future__ import annotations

import re
import reprlib
from typing import Any

from gym_llm.utils.secrets import redact

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
