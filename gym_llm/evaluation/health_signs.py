"""Signs that an episode went wrong, read from its record: loops, empty turns, cut-offs and the like.

Every check is bounded: of a long text the beginning and the end are read, of many items the first ones.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from gym_llm.types import Item, Rollout, is_said

SIGNS: dict[str, str] = {
    "loop": "one to three turns, calls included, said again and again: three times or more in a row",
    "repeated n-grams": "more than half of the eight-word sequences of a text occur in it before",
    "empty turn": "a turn without a text and without a call",
    "thinking only": "the last turn has reasoning, but no text and no call",
    "cut off": "the model's last answer was cut off at its token limit or context",
    "out of turns": "the environment's limit of turns ended the episode",
    "tool error storm": "three tool errors or more, and at least every second call failed",
}
"""What is looked for in each episode, and what it means."""

_MOST_ITEMS = 4_096
_LONGEST_TEXT = 1 << 16  # characters at either end
_MOST_TEXT = 1 << 20  # of an episode
_WORDS, _CHARACTERS = 8, 24  # of an n-gram, in texts with and without spaces
_FEWEST_PIECES = 100
_COMPRESSIBLE = 4.0  # prose is compressed by zlib to a half or a third; repetition to less than a tenth
_LONGEST_PERIOD = 3
_TIMES = 3


def record_signs(record: Rollout) -> list[str]:
    """Return the signs of an episode, names of `SIGNS` in their order; [] for a healthy one.

    It needs no other record and no trajectory. It takes some milliseconds at most, and no text of a model makes it
    raise. The viewer may call it for the episode that it shows.

    Args:
        record: As `gym_llm.records.record.read_record` or `check_record` returns it.

    >>> record_signs({"outcome": "scored", "response": {"output": []}, "info": {"turn": 1}})
    ['empty turn']
    """
    response: Mapping[str, Any] = record.get("response") or {}  # type: ignore[assignment]
    info = record.get("info") or {}
    items = (response.get("output") or [])[:_MOST_ITEMS]
    turns = list(_turns(items))
    found = {
        "loop": _is_loop([_signature(turn) for turn in turns]),
        "repeated n-grams": any(map(_is_repetitive, _texts(items))),
        "empty turn": any(map(_is_empty, turns)) or bool(info.get("turn") and not turns),
        "thinking only": bool(turns) and _is_thinking(turns[-1]),
        "cut off": response.get("status") == "incomplete",
        "out of turns": record.get("outcome") == "truncated" and response.get("status") != "incomplete",
        "tool error storm": _is_storm(info.get("tool_errors", 0), items),
    }
    return [name for name, is_found in found.items() if is_found]


def answer_of(record: Rollout) -> str:
    """Return the text of an episode's last message; "" without one."""
    response: Mapping[str, Any] = record.get("response") or {}  # type: ignore[assignment]
    for item in reversed(response.get("output") or []):
        if is_said(item):
            return "".join(_strings(item.get("content"))).strip()
    return ""


def _turns(items: list[Item]) -> Iterator[list[Item]]:
    """The model's items, split where the environment answered."""
    turn: list[Item] = []
    for item in items:
        if item.get("type") == "function_call_output" or item.get("role") in ("user", "system", "developer"):
            if turn:
                yield turn
            turn = []
        else:
            turn.append(item)
    if turn:
        yield turn


def _is_call(item: Item) -> bool:
    return str(item.get("type", "")).endswith("_call")


def _is_thinking(turn: list[Item]) -> bool:
    return all(item.get("type") == "reasoning" for item in turn)


def _is_empty(turn: list[Item]) -> bool:
    if any(_is_call(item) or item.get("type") == "reasoning" for item in turn):
        has_call = any(map(_is_call, turn))
        messages = [item for item in turn if is_said(item)]
        return not has_call and bool(messages) and not any(map(_has_text, messages))
    return not any(map(_has_text, turn))


def _has_text(item: Item) -> bool:
    return any(text and not text.isspace() for text in _strings(item.get("content")))


def _signature(turn: list[Item]) -> bytes:
    """A hash of what a turn said and called; b"" if that is nothing."""
    total, is_empty = hashlib.blake2b(digest_size=8), True
    for item in turn:
        if _is_call(item):
            parts = [str(item.get("name"))[:200], *_shortened(item.get("arguments"))]
        elif is_said(item):
            parts = [piece for text in _strings(item.get("content")) for piece in _shortened(text)]
        else:
            continue
        for part in parts:
            is_empty = is_empty and not part.strip()
            total.update(part.encode(errors="replace"))
    return b"" if is_empty else total.digest()


def _shortened(text: Any) -> tuple[str, ...]:
    """A text, or its two ends and its length."""
    if not isinstance(text, str):
        return (str(type(text).__name__),)
    if len(text) <= 2 * _LONGEST_TEXT:
        return (text,)
    return text[:_LONGEST_TEXT], text[-_LONGEST_TEXT:], str(len(text))


def _is_loop(signatures: list[bytes]) -> bool:
    """Whether one to three signatures come three times in a row."""
    for period in range(1, _LONGEST_PERIOD + 1):
        same = 0
        for at in range(period, len(signatures)):
            same = same + 1 if signatures[at] and signatures[at] == signatures[at - period] else 0
            if same >= period * (_TIMES - 1):
                return True
    return False


def _texts(items: list[Item]) -> Iterator[str]:
    """What the model wrote, bounded: messages, reasoning and the arguments of calls."""
    left = _MOST_TEXT
    for item in items:
        if is_said(item):
            texts = _strings(item.get("content"))
        elif item.get("type") == "reasoning":
            texts = [*_strings(item.get("summary")), *_strings(item.get("content"))]
        elif _is_call(item) and isinstance(arguments := item.get("arguments"), str):
            texts = [arguments]
        else:
            continue
        for text in texts:
            for part in _shortened(text)[:2]:
                if left <= 0:
                    return
                left -= len(part)
                yield part


def _is_repetitive(text: str) -> bool:
    """Whether most n-grams of a text occur in it before; quick for texts that compress like prose."""
    if len(text) < 2 * _FEWEST_PIECES:
        return False
    data = text.encode(errors="replace")
    if len(data) < _COMPRESSIBLE * len(zlib.compress(data, 1)):
        return False
    pieces: Any = text.split()
    length = _WORDS
    if len(pieces) * 20 < len(text):  # a language without spaces
        pieces, length = text, _CHARACTERS
    count = len(pieces) - length + 1
    if count < _FEWEST_PIECES - length:
        return False
    distinct = {
        hash(pieces[at : at + length] if pieces is text else tuple(pieces[at : at + length])) for at in range(count)
    }
    return len(distinct) * 2 < count


def _is_storm(errors: Any, items: list[Item]) -> bool:
    if not isinstance(errors, int) or errors < 3:
        return False
    return errors * 2 >= sum(map(_is_call, items))


def _strings(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else ()
    return [text for part in parts if isinstance(part, dict) and isinstance(text := part.get("text"), str)]
