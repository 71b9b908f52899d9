r"""Extraction of the answer, in four modes."""

from __future__ import annotations

import re
from collections import deque
from typing import Literal, TypeAlias

from gym_llm.grading.answer_lines import answer_statements
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.extraction import last_line
from gym_llm.grading.markup import without_emphasis

ExtractionMode: TypeAlias = Literal["boxed", "final_answer", "last_line", "full_response"]
_ANSWER = re.compile(r"answer\s*[:：]\s*(.+)", re.IGNORECASE)
_LONGEST_ENDING = 100_000  # characters in which "answer:" is looked for
_LONGEST_LINE = 400
_MOST_WRAPPERS = 100
_RAW_BRACE = re.compile(r"(?:\\boxed)?\{|\}")


def extract(text: str, mode: ExtractionMode) -> str | None:
    r"""The answer in a text, or None.

    Args:
        text: What the model wrote, stripped.
        mode: One of the following.

            - `boxed`: the last closed `\boxed{}`, without `\text{}` around its content.
            - `final_answer`: the text after the last `Answer:`, without final dots. Without such a line as `boxed`.
              Without a box, the text after the last "the answer is"; without this phrase, a text of one line.
            - `last_line`: the last line that is not blank.
            - `full_response`: the whole text.

    >>> extract(r"So \boxed{\text{ Bergen }}", "boxed"), extract("**Final Answer: Oslo.**", "final_answer")
    ('Bergen', 'Oslo')
    >>> extract("So the answer is (A).", "final_answer"), extract("(A)", "final_answer")
    ('(A)', '(A)')
    """
    if mode == "final_answer":
        return _final_answer(text)
    return _elsewhere(text, mode, nemo=False)


def _final_answer(text: str) -> str | None:
    statements = answer_statements(text)
    answer = next((each.text for each in reversed(statements) if not each.is_phrase), None)
    if answer is not None:
        box = last_boxed(answer)
        return _without_dots(without_emphasis(answer)) if box is None else _unwrapped(box.strip())
    if (box := last_boxed(text)) is not None:
        return _unwrapped(box.strip())
    if statements:
        return _without_dots(without_emphasis(statements[-1].text))
    return text if text and "\n" not in text and len(text) <= _LONGEST_LINE else None


def extract_as_nemo_gym(text: str, mode: ExtractionMode) -> str | None:
    r"""The answer in a text as NeMo Gym finds it: `\{` opens a brace, and `\boxed {` does not count as a box.

    >>> extract_as_nemo_gym(r"\boxed{a\}b}", "boxed"), extract_as_nemo_gym("Answer: 4. Answer: 5", "final_answer")
    ('a\\', '4. Answer: 5')
    """
    if mode == "final_answer" and (matches := deque(_ANSWER.finditer(text[-_LONGEST_ENDING:]), maxlen=1)):
        return _without_dots(matches[0][1].strip())
    return _elsewhere(text, mode, nemo=True)


def _elsewhere(text: str, mode: ExtractionMode, nemo: bool) -> str | None:
    if mode == "full_response":
        return text or None
    if mode == "last_line":
        return "".join(last_line(text).splitlines()[-1:]).strip() or None
    box = _last_raw_box(text) if nemo else last_boxed(text)
    return None if box is None else _unwrapped(box.strip())


def _without_dots(answer: str) -> str:
    return answer.removesuffix(".").rstrip().rstrip(".")


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
