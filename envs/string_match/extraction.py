r"""Extraction of the answer, in four modes."""

from __future__ import annotations

import re
from collections import deque
from typing import Literal, TypeAlias

from gym_llm.grading.answers import last_boxed
from gym_llm.grading.extraction import last_line

ExtractionMode: TypeAlias = Literal["boxed", "final_answer", "last_line", "full_response"]
_ANSWER = re.compile(r"answer\s*[:：]\s*(.+)", re.IGNORECASE)
_LONGEST_ENDING = 100_000  # characters in which "answer:" is looked for
_MOST_WRAPPERS = 100
_RAW_BRACE = re.compile(r"(?:\\boxed)?\{|\}")


def extract(text: str, mode: ExtractionMode, *, nemo: bool = False) -> str | None:
    r"""The answer in a text, or None.

    Args:
        text: What the model wrote, stripped.
        mode: One of the following.

            - `boxed`: the last closed `\boxed{}`, without `\text{}` around its content.
            - `final_answer`: the text after the last `answer:`, without final dots, else as `boxed`.
            - `last_line`: the last line that is not blank.
            - `full_response`: the whole text.
        nemo: Whether to read braces as NeMo Gym does: `\{` opens, and `\boxed {` does not count as a box.

    >>> extract(r"So \boxed{\text{ Bergen }}", "boxed"), extract("Final Answer: Oslo.", "final_answer")
    ('Bergen', 'Oslo')
    """
    if mode == "full_response":
        return text or None
    if mode == "last_line":
        return "".join(last_line(text).splitlines()[-1:]).strip() or None
    ending = text[-_LONGEST_ENDING:]
    if mode == "final_answer" and (matches := deque(_ANSWER.finditer(ending), maxlen=1)):
        answer: str = matches[0][1].strip()
        return answer.removesuffix(".").rstrip().rstrip(".")
    box = _last_raw_box(text) if nemo else last_boxed(text)
    return None if box is None else _unwrapped(box.strip())


def _last_raw_box(text: str) -> str | None:
    opened: list[int | None] = []
    last: tuple[int, int] | None = None
    for match in _RAW_BRACE.finditer(text):
        if match[0] != "}":
            opened.append(match.end() if len(match[0]) > 1 else None)
        elif opened and (start := opened.pop()) is not None and (last is None or start > last[0]):
            last = (start, match.start())
    return text[last[0] : last[1]] if last else None


def _unwrapped(box: str) -> str:
    for _ in range(_MOST_WRAPPERS):
        if not (box.startswith("\\text{") and box.endswith("}")):
            break
        box = box[6:-1].strip()
    return box
