"""Whether a parser of somebody else's left out anything that the model wrote."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Set
from typing import Any

_WORD = re.compile(r"[^\W\d]\w*")
_TAG = re.compile(r"<[^<>\n]{1,80}>|\[/?[A-Z_]+\]")
_CALL_WORDS = {"name", "arguments", "parameters", "function", "functions", "type", "json", "python"}
_VALUES = {"True", "False", "None", "true", "false", "null"}
"""What calls are written with, in one format or another: their keys, and values that come back in other words."""


def markup_words(texts: Iterable[str]) -> frozenset[str]:
    """The words of a model's markup, from the texts that have it in them: its special tokens, its chat template."""
    return frozenset(_CALL_WORDS | _VALUES).union(*map(_WORD.findall, texts))


def lost_words(text: str, pieces: Iterable[str], markup: Set[str]) -> list[str]:
    """The words of a model's text that are not in the pieces a parser made of it: texts, names, arguments as JSON.

    Only words count (a number may come back as `3.5` for `3.50`), each as often as it was written. Words of the
    format itself do not count: those in tags (`<function=f>`, `[TOOL_CALLS]`), and those in `markup` (`markup_words`).

    >>> lost_words('<tool_call>{"name": "f", "arguments": {}}</tool_call> bye', ["f", "{}"], markup_words([]))
    ['bye']
    """
    counts = Counter(_WORD.findall(_TAG.sub(" ", text)))
    if not counts:
        return []
    for piece in pieces:
        counts.subtract(_WORD.findall(piece))
    lost = [word for word, count in counts.items() if count > 0 and word not in markup]
    if lost:  # a call's arguments may have been written with other escapes, or not as JSON
        for piece in pieces:
            counts.subtract(_WORD.findall(" ".join(_strings(piece))))
        lost = [word for word in lost if counts[word] > 0]
    return lost


def _strings(piece: str) -> Iterable[str]:
    """All strings in a JSON object, keys too, which are written with escapes there."""
    if not piece.startswith("{") or "\\" not in piece:
        return
    try:
        waiting: list[Any] = [json.loads(piece)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
