"""The log probabilities of a text's tokens, when a parser has taken the text apart."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from gym_llm.types import Item

_LOG_PROBS = "logprobs"


def spread_log_probs(sampled: list[Item], parsed: list[Item]) -> list[Item]:
    """Give each text of a parsed turn the log probabilities of its own tokens, so that these, joined, are the text.

    A token belongs to the text in which it begins; those of thinking, of markup and of the turn's end belong to none.
    A turn without a text, all calls, has those of the whole turn as `logprobs` of its last item.

    Args:
        sampled: An engine's output. If it is not one message whose one text has `logprobs`, nothing is changed.
        parsed: What parsers made of it.

    Returns:
        The parsed items; those with log probabilities are new.
    """
    part = _only_part(sampled)
    if part is None:
        return parsed
    text, entries = part["text"], part[_LOG_PROBS]
    starts = _starts(text, entries)
    items, position, has_text = list(parsed), 0, False
    for index, item in enumerate(items):
        content = []
        for piece in _texts(item):
            begin = max(text.find(piece["text"], position), position)
            position = begin + len(piece["text"])
            if piece.get("type") == "output_text":
                first, end = (bisect_left(starts, len(text[:place].encode(*_ANY))) for place in (begin, position))
                content.append({**piece, _LOG_PROBS: entries[first:end] if starts else entries})
                has_text = True
        if content and item.get("type") in ("message", None):
            items[index] = {**item, "content": content}
    if not has_text and items:
        items[-1] = {**items[-1], _LOG_PROBS: entries}
    return items


_ANY = ("utf-8", "replace")


def _only_part(items: list[Item]) -> dict[str, Any] | None:
    content = items[0].get("content") if len(items) == 1 else None
    part = content[0] if isinstance(content, list) and len(content) == 1 else None
    if isinstance(part, dict) and isinstance(part.get("text"), str) and part.get(_LOG_PROBS):
        return part
    return None


def _texts(item: Item) -> Iterator[dict[str, Any]]:
    """The texts of an item in their order: those of a message are its parts."""
    if item.get("type") == "function_call":
        yield {"text": item["arguments"]}
    for name in ("summary", "content"):
        parts = item.get(name)
        if isinstance(parts, str):
            yield {"text": parts}
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part.get("text"), str):
                yield part


def _starts(text: str, entries: list[dict[str, Any]]) -> list[int]:
    """Where in the text's bytes each token begins; nothing if the tokens are not those of the text."""
    pieces = [bytes(entry["bytes"]) if entry.get("bytes") is not None else entry["token"].encode() for entry in entries]
    joined, wanted = b"".join(pieces), text.encode(*_ANY)
    place = 0 if joined.startswith(wanted) else -1  # SentencePiece leaves the space before a text out
    if place and not joined[1:].startswith(wanted):
        return []
    starts = []
    for piece in pieces:
        starts.append(max(place, 0))
        place += len(piece)
    return starts
