"""Finding the value that a text states in one of the forms that prompts ask for, and reading it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from gym_llm.grading.denials import is_given

_FORMATS: dict[str, tuple[str, str | None]] = {
    "fmt_00": (r"\(\(", "))"),
    "fmt_01": (r"\(Answer:", ")"),
    "fmt_02": (r"Final answer:\s*\(", ")"),
    "fmt_03": (r"Answer is\s*\[", "]"),
    "fmt_04": (r"\[Answer:", "]"),
    "fmt_05": (r"\[\[", "]]"),
    "fmt_06": (r"Correct Answer:\s*\[", "]"),
    "fmt_07": (r"\\boxed\{", "}"),
    "fmt_08": (r"\\boxed\{", "}"),
    "fmt_09": (r"\{\{", "}}"),
    "fmt_10": (r"Answer Value:\s*\{", "}"),
    "fmt_11": (r"<<", ">>"),
    "fmt_12": (r"<<", ">>"),
    "fmt_13": (r"<", ">"),
    "fmt_14": (r"<Answer:", ">"),
    "fmt_15": (r"<final_answer>", "</final_answer>"),
    "fmt_16": (r"Final Answer:\s*\|\|", "||"),
    "fmt_17": (r"The answer is:\s*\|", "|"),
    "fmt_18": (r"\*\*Answer:", "**"),
    "fmt_19": (r"\*\*Final answer is:", "**"),
    "fmt_20": (r"Answer:\s*\*", "*"),
    "fmt_21": (r"## Answer:", "##"),
    "fmt_22": (r"ANSWER IS\s*", None),
    "fmt_23": (r"Response:\s*", None),
    "fmt_24": (r"Final Answer\s*->\s*", None),
    "fmt_25": (r"Final value is:\s*", None),
    "fmt_26": (r"Correct Answer >>\s*", None),
    "fmt_27": (r"Answer Value:\s*", None),
    "fmt_28": (r"Final Answer\s*=\s*", None),
    "fmt_29": (r"Correct answer is\s*", None),
    "fmt_30": (r"Final Answer:\s*", None),
}
FORMATS = {name: (re.compile(opening), closing) for name, (opening, closing) in _FORMATS.items()}
"""What opens an answer and what closes it, by the names that rows use; None: the end of the line does."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TRUE = frozenset({"1", "1.0", "true", "yes", "present", "t", "y"})
_FALSE = frozenset({"0", "0.0", "false", "no", "absent", "f", "n"})
_LONGEST = 10_000  # characters of an answer that are read as a number


def in_format(answer: str, name: str) -> str:
    r"""Write an answer in a form.

    >>> in_format("2", "fmt_00"), in_format("2", "fmt_16")
    ('((2))', 'Final Answer: ||2||')
    """
    opening, closing = _FORMATS[name]
    return re.sub(r"\\(.)", r"\1", opening.replace(r"\s*", " ")) + answer + (closing or "")


def last_in_format(text: str, name: str, *, meant: bool = False) -> str | None:
    r"""Return the last answer in a form, stripped, or None; with `meant` the last one that the text gives.

    >>> last_in_format("First ((1)), no: (( 2 )).", "fmt_00"), last_in_format("ANSWER IS 3 m\nok", "fmt_22")
    ('2', '3 m')
    """
    spans = _in_format(text, *FORMATS[name])
    last = deque((each for each in spans if not meant or is_given(text, each[0], each[2])), maxlen=1)
    return text[last[0][1] : last[0][2]].strip() if last else None


def _in_format(text: str, opening: re.Pattern[str], closing: str | None) -> Iterator[tuple[int, int, int]]:
    """Yield where the form of an answer, the answer, and what follows it begin."""
    least = 0 if opening.pattern == r"\(\(" else 1  # only this one may be empty
    position = 0
    while (match := opening.search(text, position)) is not None:
        start = match.end()
        if closing is None:
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            if end > start:
                yield match.start(), start, end
            position = end
        elif (end := text.find(closing, start + least)) >= 0:
            yield match.start(), start, end
            position = end + len(closing)
        else:
            return


def last_capture(pattern_and_text: tuple[str, str]) -> str | None:
    """Return the stripped group of a pattern's last match. It may take forever: call it in a worker."""
    pattern, text = pattern_and_text
    captures = re.compile(pattern, re.DOTALL).findall(text)
    return captures[-1].strip() if captures else None


def read_number(text: str, *, thousands: bool = True) -> float | None:
    """The number that a text is, or the last one in it; None without one.

    Args:
        text: What the model gave as its answer.
        thousands: Whether `1,234` is one number.

    >>> read_number("about 1,234 g"), read_number("1e3"), read_number("many")
    (1234.0, 1000.0, None)
    """
    text = text.strip()[-_LONGEST:]
    if text.isascii():  # `float` reads digits of other scripts, too
        try:
            return float(text)
        except ValueError:
            pass
    numbers = _NUMBER.findall(_THOUSANDS.sub("", text) if thousands else text)
    return float(numbers[-1]) if numbers else None


def read_bool(text: str, *, thousands: bool = True) -> float | None:
    """1.0 or 0.0 for yes and no in many words, or a number that is not 0, or is; None for anything else.

    >>> read_bool("Present"), read_bool("no"), read_bool("2"), read_bool("perhaps")
    (1.0, 0.0, 1.0, None)
    """
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return float(word in _TRUE)
    number = read_number(word, thousands=thousands)
    return None if number is None else float(number != 0.0)
