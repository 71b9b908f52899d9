"""The answer in a model's text: the `answer` of the last JSON object that has one, else its line `Answer: …`."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from gym_llm.grading.answer_lines import last_answer_line
from gym_llm.grading.extraction import fences, json_values
from gym_llm.grading.markup import without_emphasis

_BLOCK_START = re.compile(r"```(?:json)?\s*(?=\{)")
_BLOCK_END = re.compile(r"\}\s*```")
_BRACE = re.compile(r"[{}]")
_MOST_MARKS = 4_000
_MOST_BRACES = 50_000
_MOST_OBJECTS = 100  # from the end


def extract_answer(text: str, *, nemo: bool = False) -> str:
    """Return the `answer` of the last JSON object in a fenced block, else of the last one anywhere.

    Without one, the text after the last `Answer:` on its line is the answer, else the whole text.

    Args:
        text: The model's text, stripped.
        nemo: Whether to count braces in strings, too, and to ignore all after a brace that is never closed, as NeMo Gym
            does. It reads no lines `Answer:`.

    >>> extract_answer('So: {"answer": "Oslo", "supporting_facts": []}'), extract_answer("Oslo")
    ('Oslo', 'Oslo')
    """
    answer = None
    if '"' in text:  # else no member has a name
        answer = _last_answer(map(_loads, _last(_nemo_blocks(text) if nemo else _blocks(text))))
        if answer is None:
            answer = _last_answer(map(_loads, _last(_balanced(text))) if nemo else _last(json_values(text, dict)))
    if answer is None and not nemo and (line := last_answer_line(text)) is not None:
        answer = without_emphasis(line)
    return text if answer is None else answer


def _last(values: Iterable[Any]) -> Iterator[Any]:
    return reversed(deque(values, maxlen=_MOST_OBJECTS))


def _last_answer(backwards: Iterable[Any]) -> str | None:
    for value in backwards:
        if isinstance(value, dict) and "answer" in value:
            try:
                return str(value["answer"])
            except (ValueError, RecursionError):  # a number of thousands of digits, nested too deeply
                continue
    return None


def _blocks(text: str) -> Iterator[str]:
    """Yield the fenced blocks of JSON, or without a language."""
    closed = (fence for fence in fences(text) if fence.closed and fence.language in ("json", ""))
    return (f"{fence.info}\n{fence.body}" if fence.info[:1] == "{" else fence.body for fence in closed)


def _nemo_blocks(text: str) -> Iterator[str]:
    """Yield the fenced blocks that begin and end with a brace; nothing of a text with thousands of fences."""
    if text.count("```") > _MOST_MARKS:
        return
    position = 0
    while (start := _BLOCK_START.search(text, position)) and (end := _BLOCK_END.search(text, start.end())):
        yield text[start.end() : end.start() + 1]
        position = end.end()


def _balanced(text: str) -> Iterator[str]:
    """Yield the texts from a brace to its closing one, from left to right, ignoring quotes."""
    depth = start = 0
    for match in islice(_BRACE.finditer(text), _MOST_BRACES):
        if match[0] == "{":
            start = match.start() if depth == 0 else start
            depth += 1
        elif depth > 0:
            depth -= 1
            if depth == 0:
                yield text[start : match.end()]


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
