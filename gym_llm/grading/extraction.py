r"""Finding the part of an answer that counts: a fenced block, a tag, a JSON value, a line.

Everything here takes linear time, whatever the text says. `\boxed{…}` with balanced braces is in `answers`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from gym_llm.grading.denials import is_given
from gym_llm.grading.fences import Fence, fences, last_block_after, last_fence, lines_between_last_marks
from gym_llm.grading.python_blocks import PYTHON, python_code

__all__ = [
    "PYTHON",
    "Fence",
    "after_thinking",
    "fences",
    "first_tagged",
    "flat_boxes",
    "json_values",
    "last_block_after",
    "last_fence",
    "last_json",
    "last_line",
    "last_line_after",
    "last_match",
    "last_tagged",
    "lines_between_last_marks",
    "python_code",
    "python_code_or_text",
    "with_valid_escapes",
]

_DECODER = json.JSONDecoder()
_OBJECT_START = r"\{(?=\s*[\"}])"
_LIST_START = r"\[(?=\s*[\]\[{\"\dtfn-])"
_JSON_STARTS: dict[Any, re.Pattern[str]] = {
    dict: re.compile(_OBJECT_START),
    list: re.compile(_LIST_START),
    None: re.compile(f"{_OBJECT_START}|{_LIST_START}"),
}
_MOST_BRACKETS = 100_000
_MOST_JSON_VALUES = 10_000
_MOST_JSON_ERRORS = 1_000
_MOST_JSON_CHARACTERS = 1_000_000  # read in vain, some 10 ms
_DEEP_JSON = 50_000  # what an attempt that nests too deeply counts for
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_BRACE = re.compile(r"[{}]")
_MOST_MARKERS = 1_000  # of `last_line_after`, from the end


def after_thinking(text: str) -> str:
    """Return the text after the first `</think>`, or the whole text without one; carriage returns are removed."""
    before, closed, after = text.replace("\r", "").partition("</think>")
    return after if closed else before


def python_code_or_text(text: str, entry_point: str, *, conform: bool = False) -> str:
    r"""Return the code of a function after the thinking; a text without back-ticks is code as a whole.

    Args:
        text: What the model wrote.
        entry_point: The function that the task names.
        conform: Whether to read as NeMo Gym does: the block after the last mark of Python, else after any.

    >>> python_code_or_text("<think>1?</think>def f(): 1", "f"), python_code_or_text("```python\ndef f(): 1", "f")
    ('def f(): 1', 'def f(): 1')
    """
    text = after_thinking(text)
    if conform:
        return (text if "```" not in text else last_block_after(text) or "").strip()
    code = python_code(text, entry_point)
    return (code or "" if code is not None or "```" in text else text).strip()


def last_tagged(text: str, tag: str) -> str | None:
    """Return the content of the last `<tag>…</tag>` that is closed, unchanged; None without one, or if it is denied.

    >>> last_tagged("<answer>1</answer> no: <answer>2</answer> or <answer>", "answer")
    '2'
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    end = text.rfind(closing)
    start = text.rfind(opening, 0, end) if end >= 0 else -1
    end = text.find(closing, start + len(opening))
    return text[start + len(opening) : end] if start >= 0 and is_given(text, start, end + len(closing)) else None


def first_tagged(text: str, tag: str) -> str | None:
    """Return the content of the first `<tag>…</tag>` that is closed, unchanged, or None.

    >>> first_tagged("<answer>1</answer> <answer>2</answer>", "answer")
    '1'
    """
    start = text.find(f"<{tag}>")
    if start < 0:
        return None
    start += len(tag) + 2
    end = text.find(f"</{tag}>", start)
    return text[start:end] if end >= 0 else None


def json_values(text: str, kind: type[dict[str, Any]] | type[list[Any]] | None = None) -> Iterator[Any]:
    r"""The JSON objects and lists in a text, in order, those inside another left out.

    Reading is given up where a text has thousands of brackets that open nothing, or that take long to be found wrong.

    Args:
        text: What the model wrote.
        kind: `dict` or `list`, to look for these only (a list's objects are found then); None for both.

    >>> list(json_values('not {this}, but {"a": [1]} or [2, 3] {"b"'))
    [{'a': [1]}, [2, 3]]
    >>> list(json_values('[{"a": 1}, {"a": 2}]', dict))
    [{'a': 1}, {'a': 2}]
    """
    if text.count("{") + text.count("[") > _MOST_BRACKETS:
        return
    position, errors, wasted = 0, 0, 0
    starts = _JSON_STARTS[kind]
    for _ in range(_MOST_JSON_VALUES):
        if (match := starts.search(text, position)) is None:
            return
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            position = match.end()
            errors += 1
            wasted += _wasted(text, position, error)
            if errors >= _MOST_JSON_ERRORS or wasted > _MOST_JSON_CHARACTERS:
                return
        else:
            yield value


def _wasted(text: str, start: int, error: ValueError | RecursionError) -> int:
    if not isinstance(error, json.JSONDecodeError):  # nested too deeply, a number of thousands of digits
        return _DEEP_JSON
    end = len(text) if error.msg.startswith("Unterminated") else error.pos
    return end - start + error.pos // 20  # the error counts the lines before it


def with_valid_escapes(text: str) -> str:
    r"""Double the backslashes that JSON does not know, as of LaTeX and SMILES in a text.

    >>> with_valid_escapes(r'{"a": "C/C=C\C\n"}')
    '{"a": "C/C=C\\\\C\\n"}'
    """
    return _ESCAPE.sub(lambda escape: "\\\\" if escape[0] == "\\" else escape[0], text)


def last_json(text: str, kind: type[dict[str, Any]] | type[list[Any]] | None = None) -> Any:
    """The last JSON object or list in a text (`json_values`), or None.

    >>> last_json('First {"a": 1}, then {"a": 2}.', dict)
    {'a': 2}
    """
    last = deque(json_values(text, kind), maxlen=1)
    return last[0] if last else None


def last_line(text: str) -> str:
    r"""Return the last line that is not blank, stripped; "" without one.

    >>> last_line("one\n two \n\n")
    'two'
    """
    text = text.rstrip()
    return text[text.rfind("\n") + 1 :].lstrip()


def last_line_after(text: str, marker: str | re.Pattern[str]) -> str | None:
    r"""Return the text after the last marker on its line, stripped; markers with nothing behind are skipped.

    Args:
        text: What the model wrote.
        marker: Exactly this, or a pattern that takes linear time (so not `\s+x` where white space may precede).

    >>> last_line_after("Answer: 1\nAnswer: 2\nAnswer:", "Answer:")
    '2'
    """
    pattern = re.compile(re.escape(marker)) if isinstance(marker, str) else marker
    stop = len(text)
    for match in reversed(deque(pattern.finditer(text), maxlen=_MOST_MARKERS)):
        end = text.find("\n", match.end(), stop)
        if line := text[match.end() : stop if end < 0 else end].strip():
            return line
        stop = match.start()
    return None


def flat_boxes(text: str) -> Iterator[str]:
    r"""Yield the text after each `\boxed{` up to the next closing brace, as a plain regular expression reads it.

    For conformance; `answers.last_boxed` is what is right.

    >>> list(flat_boxes(r"\boxed{\frac{1}{2}} or \boxed{3}"))
    ['\\frac{1', '3']
    """
    position = 0
    while (start := text.find("\\boxed{", position)) >= 0 and (end := text.find("}", start)) >= 0:
        yield text[start + 7 : end]
        position = end + 1


def last_brace_box(text: str, mark: str = "\\boxed{") -> str | None:
    r"""Return the content of the last `\boxed{`, by braces alone; None if it is not closed.

    For conformance; `answers.last_boxed` is what is right.

    Args:
        text: What the model said.
        mark: The box's beginning. With `\boxed` the last one decides, also if no brace follows it.

    >>> last_brace_box(r"\boxed{\frac{1}{2}}"), last_brace_box(r"\boxed{1} \boxed{2")
    ('\\frac{1}{2}', None)
    """
    place, length = text.rfind(mark), len(mark.rstrip("{"))
    start = place + length
    if place < 0 or not text.startswith("{", start):
        return None
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start + 1 : brace.start()]
    return None


def last_match(pattern_and_text: tuple[str, str]) -> str | None:
    r"""Return the first group with text of a pattern's last match, or else all of the match.

    A pattern may take exponential time and holds the interpreter meanwhile: call this in a worker process.

    Args:
        pattern_and_text: The pattern and the text. `^` and `$` match at lines; `.` matches any character.

    Returns:
        The stripped text; None if nothing matches or the pattern is invalid.

    >>> last_match((r"Answer: (\w+)", "Answer: B, no, Answer: C"))
    'C'
    """
    pattern, text = pattern_and_text
    last = None
    try:
        for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
            last = match
    except re.error:
        return None
    if last is None:
        return None
    return next((group for group in last.groups() if group and group.strip()), last[0]).strip()
