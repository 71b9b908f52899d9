"""Reading a verdict from a JSON object, also from one that a model has written badly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gym_llm.judge.last_word import VERDICTS, is_last_word, noun_of, plain
from gym_llm.judge.withdrawn import is_denied, is_meant

MOST_READ = 50_000  # characters from the end, where every character may cost more than a look
_MOST_BRACES = 300
_DECODE = json.JSONDecoder(strict=False).raw_decode  # a text may have line breaks
_SLIPS = re.compile(
    r",(?=\s{0,20}[}\]])|(?<=[:\s])(?:True|False|None|TRUE|FALSE|NULL)(?=\s{0,9}[,}\]])|[“”]"
    r"|(?<=[{,:\s])'(?=[^'\"\n]{1,99}'\s{0,9}[,:}\]])|(?<=[^\s{,:])'(?=\s{0,9}[,:}\]])"
    r"|(?<=[\s,])(?://|#)[^\"\n]{0,200}$",
    re.MULTILINE,
)
"""A comma too many, Python's names and single quotes, a printer's quotes, and comments."""
_MENDED = {",": " ", "None": "null", "NULL": "null"}  # each as long as before
_MENDED |= {name: name.lower() for name in ("True", "False", "TRUE", "FALSE")}
_WORDS = {"true": True, "yes": True, "false": False, "no": False}
_SCALAR = r"[\s\"'“*`|]{0,6}([\w./-]{1,40})[\s\"'”*`]{0,6}(?:[,;}()<|]|(?<=\n)|\Z)"


def json_field(key: str, allowed: Sequence[Any] | None = None, *, ignore_case: bool = False) -> Callable[[str], Any]:
    """The value of a key of the last JSON object that has it, in or out of a fence; None if the judge denies it.

    Raw line breaks in texts, a comma too many, Python's names and quotes are read as they are meant. So is `key: value`
    outside of any object.

    Args:
        key: The key.
        allowed: The values that count; None for any. A text such as "true" or "no" is read as true or false, if those
            count.
        ignore_case: Whether values are read as upper case without the spaces around them.

    >>> json_field("result")('For example {"result": "FAIL"}. So: {"result": "PASS", "why": {"n": "{}"}}')
    'PASS'
    >>> json_field("met", (True, False))('{"met": false}. No: {"met": "true",}')
    True
    """
    named = _named(key)
    line = re.compile(named.pattern + _SCALAR, re.IGNORECASE)

    def value_of(value: Any) -> Any:
        if isinstance(value, str):
            value = value.strip().upper() if ignore_case else value
            if allowed is not None and value not in allowed:
                value = next((each for each in allowed if _same_word(each, value)), value)
        return value if allowed is None else next((each for each in allowed if each == value), None)

    def parse(text: str) -> Any:
        text = plain(text[-MOST_READ:])
        start, end, last, members = _last_with(text, (key,))
        value = next((value for name, value in (members or {}).items() if _is_one_of(name, (key,))), None)
        for match in line.finditer(text, last) if allowed is not None else ():
            opened = text.rfind("{", last, match.start()) > text.rfind("}", last, match.start())
            if not opened or text.find("}", match.end() - 1) >= 0:  # not cut off in the middle of an object
                start = text.rfind("{", last, match.start()) if opened else match.start()
                end = last = match.end()
                value = match[1]
        if start < 0 or not is_meant(text, start, end) or not is_last_word(text, last, named, VERDICTS):
            return None
        return value_of(value)

    return parse


def json_object(keys: Sequence[str]) -> Callable[[str], dict[str, Any] | None]:
    """The last JSON object, or object in one, that has any of the keys; None if the judge denies it.

    >>> json_object(("a", "b"))('{"a": 1}. No: {"all": {"a": 2, "b": 1}}')
    {'a': 2, 'b': 1}
    """
    forms = [_named(key) for key in keys]

    def parse(text: str) -> dict[str, Any] | None:
        text = plain(text[-MOST_READ:])
        start, end, last, members = _last_with(text, keys)
        return (
            members
            if start >= 0 and is_meant(text, start, end) and is_last_word(text, last, *forms, VERDICTS)
            else None
        )

    return parse


def _named(key: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w/-])[\"'“`*]{{0,4}}{noun_of(key)}[\"'”`*]{{0,4}}\s{{0,3}}[:=>|]", re.IGNORECASE)


def _is_one_of(name: str, keys: Sequence[str]) -> bool:
    return any(name == key or re.fullmatch(noun_of(key), name.strip()) for key in keys)


def _last_with(text: str, keys: Sequence[str]) -> tuple[int, int, int, dict[str, Any] | None]:
    """Return where the last object that is not denied begins and ends, where the denied ones behind it end, and it."""
    last = 0
    for start, end, members in reversed(list(_placed_objects(text))):
        for each in (members, *members.values()):
            if isinstance(each, dict) and any(_is_one_of(name, keys) for name in each):
                last = last or end
                if not is_denied(text, start):
                    return start, end, last, each
                break
    return -1, 0, last, None


def _same_word(allowed: Any, said: str) -> bool:
    word = said.strip().strip(".*`").lower()
    if isinstance(allowed, bool):
        return _WORDS.get(word) is allowed
    return isinstance(allowed, str) and allowed.lower() == word


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Return the outermost JSON objects in a text, in order; of a very long text only those near its end."""
    return (value for _, _, value in _placed_objects(text[-MOST_READ:]))


def _mended(slip: re.Match[str]) -> str:
    return _MENDED.get(slip[0]) or ('"' if len(slip[0]) == 1 else " " * len(slip[0]))


def _placed_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    braces: list[int] = []
    place = len(text)
    while len(braces) < _MOST_BRACES and (place := text.rfind("{", 0, place)) >= 0:
        braces.append(place)
    end, mended = 0, ""
    for place in reversed(braces):
        if place < end:
            continue
        try:
            value, end = _DECODE(text, place)
        except (ValueError, RecursionError):
            mended = mended or " " * braces[-1] + _SLIPS.sub(_mended, text[braces[-1] :])
            try:
                value, end = _DECODE(mended, place)
            except (ValueError, RecursionError):
                continue
        yield place, end, value
