"""How the work on a text grows with its length: hostile texts, and what is made of them."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable

LARGEST = 1_000_000  # bytes
_SIZES = (LARGEST // 16, LARGEST // 4, LARGEST)
_FLOOR = 0.05  # seconds; what takes less for the largest text is fast enough, however its time grows
_LONG = 0.5  # seconds, after which no larger text is tried
_REPEATS = 10
MOST = 1.4
"""The largest exponent of what is called linear: caches and a busy machine made 1.23 of 1.0; the next is n^1.5."""

_CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
_MARKS = "\u0301\u0323"  # in the wrong order: normalising sorts them
PATTERNS: dict[str, tuple[str, str]] = {
    pattern: (pattern, "") if isinstance(pattern, str) else pattern
    for pattern in (
        # One character, or a few.
        *("a", " ", "\n", "\t\n", "9", "-", "(", "[", "[]", "{"),
        *("}", "{}", '"', "\\", '\\"', "$", "<", ">", "|", ";", ","),
        *("1,", "*", "_", "`", "\x00", "\ud800", "ß", "é", "Ａ"),
        *("ب", "각", "\u0301", _MARKS, "\ufdfa", "A ", "A, ", "A or "),
        # Where graders look for an answer.
        *("\\boxed{", "\\boxed{}", "\\boxed{A} ", "\\boxed{\\text{"),
        *("\\boxed{\\boxed{}", "\\text{", "\\{", "\\\\boxed{"),
        *("Answer:", "Answer: ", "Answer: A\n", "Answer: E\n"),
        *("**Answer:** A or B ", "Answer：Ａ\n", "answer ", "answer*"),
        *("Answer: A", "Answer: a\u0301\u0323\n", "final answer is $", "\\frac{1}{", "\\sqrt{", "x^{"),
        # Tags of thinking and of calls.
        *("<think>", "</think>", "<think></think>", "<think>a</think>\n ", "<think>a</think>b"),
        *("<tool_call>", "</tool_call>", "<tool_call></tool_call>"),
        *(_CALL, '<tool_call>{"name": "', '<tool_call>{"a": '),
        *('{"name": "f", "parameters": {}}', '{"name": "f", "parameters": {}};'),
        *("<|python_tag|>", '{"name": ', '"name": "'),
        *("<function=f><parameter=a>", "[TOOL_CALLS]", "</function>", '{"a":', '{"a": 1, '),
        # Harmony.
        *("<|channel|>", "<|message|>", "<|start|>", "<|end|>"),
        *("<|call|>", "<|start|>assistant<|channel|>final<|message|>"),
        *("<|start|>assistant<|channel|>final<|message|>a<|end|>", "<|message|>a<|end|>", "<|constrain|>"),
    )
} | {
    # What makes the rest of a text matter: (repeated, what it begins with).
    f"{start} and then {pattern}": (pattern, start)
    for start, patterns in {
        "Answer: ": ("a", " ", "\n", _MARKS, "\u0301", "\ufdfa", "A ", "A, ", "Ａ", "ب ", "*", "{", "\\text{"),
        "\\boxed{": ("a", " ", "{", "{}", "}", "\\}", "\\text{", _MARKS, "\\boxed{} {", "\\{"),
        "\\boxed{A} \\boxed{": ("a", "{", "\\boxed{"),
        "<think>": ("a", " ", "<think>", _CALL, _MARKS),
        " </think>": (" ", "<think>", _CALL),
        '<tool_call>{"name": "get_weather", "arguments": {"city": "': (
            "a", "<tool_call>", "</tool_call>", "\\n", "\\ud800",
        ),
        '<tool_call>{"name": "get_weather", "arguments": ': ("[", "[],", '{"a":', "1", " "),
        '<tool_call>{"name": "get_weather", "arguments": [': ("1,", "[],", '"",', "1e9,", "{},"),
        '<tool_call>{"name"': (" ", ": ", '"name"'),
        "<tool_call>{": ('"a": 1, ', '"name": "f", ', '"a', " "),
        '{"name": "get_weather", "parameters": {': ('"a": 1, ', '"a": {', " "),
        '{"type"': (" ", ': "function", "type"'),
        "<|channel|>final<|message|>": ("a", "a ", " ", "\n", "<|message|>", "<|start|>", "\ud800", "🜁", "9", "'s"),
        "<|channel|>analysis<|message|>": ("a", "<|end|>", "<|start|>assistant<|message|>"),
        "<|channel|>": ("a", "a ", "to=", "to=functions.a "),
        "<|channel|>final<|message|>4<|end|><|start|>": ("a", "<|start|>", "a<|message|>"),
    }.items()
    for pattern in patterns
}  # fmt: skip
"""Texts by what they say: what is repeated, and what stands before."""


def hostile_text(pattern: str, size: int) -> str:
    """A text of this many bytes that repeats one of `PATTERNS`."""
    unit, start = PATTERNS[pattern]
    return start + unit * ((size - len(start)) // len(unit.encode("utf-8", "surrogatepass")) + 1)


def growth(function: Callable[[str], object], pattern: str) -> tuple[float, float]:
    """The exponent with which a function's time grows with a text of some pattern, and the time for the largest text.

    Returns:
        0.0 for what takes next to nothing; otherwise the exponent between the largest text that was tried (up to
        `LARGEST` bytes, or half a second of processor time) and a sixteenth of it, each the fastest of some runs:
        of fewer where the exponent is at most `MOST`.
    """
    gc.disable()
    try:
        for size in _SIZES:
            seconds = _seconds(function, hostile_text(pattern, size))
            if seconds > _LONG:
                break
        part, times, exponent = hostile_text(pattern, size // 16), [math.inf, seconds], 0.0
        text = hostile_text(pattern, size)
        for _ in range(_REPEATS):
            if times[1] < _FLOOR:
                return 0.0, times[1]
            times[0] = min(times[0], *(_seconds(function, part) for _ in range(3)))
            if (exponent := math.log(times[1] / times[0], 16)) <= MOST:
                break
            times[1] = min(times[1], _seconds(function, text))
        return exponent, times[1]
    finally:
        gc.enable()


def _seconds(function: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    function(text)
    return time.process_time() - start
