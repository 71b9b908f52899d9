"""Reading a number that a judge gives: a boxed score, points of a total, a score on a scale."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence

from gym_llm.grading.answers import last_box
from gym_llm.grading.quantities import NUMBER_WORDS
from gym_llm.judge.json_verdicts import MOST_READ
from gym_llm.judge.last_word import (
    ADJECTIVES,
    AFTER_NOUN,
    BEFORE_VALUE,
    SCORES,
    VERDICTS,
    form_of,
    is_last_word,
    noun_of,
    plain,
)
from gym_llm.judge.verdicts import WRAPPED, Parser, last_match, meant_match
from gym_llm.judge.withdrawn import is_meant

_FLAT_BOX = re.compile(r"\\boxed\{([^}]*)\}")
_ANY_BOX = re.compile(r"\\?f?boxed\s?\{")
_FRACTION = re.compile(r"\\[dt]?frac\{?(\d)\}?\{?(\d)\}?|(\d)\s?/\s?(\d)")
_NEMO_NUMBER = r"([-+]?\d{1,9}(?:\.\d{1,9})?)"
_NUMBER = r"([-+]?\d{1,9}(?:\.\d{1,9}|,\d{1,2})?)(?![\w%]|[.,]?\d|\s?[-–—~^]\s?\d|\sto\s\d)"
_NUMBER_WORDS = tuple(NUMBER_WORDS)[:11]  # zero to ten
_BRACKETS = re.compile(rf"score\s?\[\s?{_NUMBER}\s?\]\s?/\s?\w{{0,20}}\s?\[\s?{_NUMBER}\s?\]", re.IGNORECASE)
_NEMO_BRACKETS = re.compile(
    rf"score\s?\[\s?{_NEMO_NUMBER}\s?\]\s?/\s?(?:max[_\s-]?possible[_\s-]?)?score\s?\[\s?{_NEMO_NUMBER}\s?\]",
    re.IGNORECASE,
)
_OF = r"[\s*_`]{0,4}(?:/|out\sof)[\s*_`]{0,4}"
_OVER = re.compile(rf"(?:\b(?:score|rating)\sof\s[*_`]{{0,3}})?(?<![\d.,]){_NUMBER}{_OF}{_NUMBER}", re.IGNORECASE)
_NEMO_OVER = re.compile(rf"(?<![\d.]){_NEMO_NUMBER}\s{{0,3}}(?:/|out of)\s{{0,3}}{_NEMO_NUMBER}", re.IGNORECASE)


def boxed_score(allowed: Sequence[float] = (0.0, 0.5, 1.0), *, conform: bool = False, meant: bool = True) -> Parser:
    r"""The number in the last `\boxed{…}`, if it is one of these; fractions count, but not with `conform`.

    Args:
        allowed: The numbers that count.
        conform: Whether to read as NeMo Gym does.
        meant: Whether a box that the judge denies is unreadable; not with `conform`.

    >>> parse = boxed_score()
    >>> parse(r"Not \boxed{0}, but \boxed{\frac{1}{2}}"), parse(r"\boxed{0.7}")
    (0.5, None)
    """

    def parse(text: str) -> float | None:
        if conform:
            start = text.rfind("\\boxed{")
            match = _FLAT_BOX.match(text, start) if start >= 0 else None
            box = match[1] if match else None
        else:
            text = plain(text)
            span = last_box(text)
            if span is not None and meant:
                is_clear = is_meant(text, text.rfind("\\boxed", 0, span[0]), span[1] + 1)
                span = span if is_clear and is_last_word(text, span[1] + 1, _ANY_BOX, VERDICTS, SCORES) else None
            box = None if span is None else text[span[0] : span[1]]
        number = None if box is None or len(box) > 60 else _number_in(box.strip(), is_lenient=not conform)
        return number if number in allowed else None

    return parse


def points(total: int = 7) -> Parser:
    """N of the last `<points>N out of 7</points>`, a number from 0 to the total.

    >>> points(7)("<points>3 out of 7</points> … no: <points>6 out of 7</points>")
    6.0
    """
    pattern = re.compile(
        rf"<\s?points\s?>[\s*]{{0,3}}{_NUMBER}(?:[\s*]{{0,3}}(?:/|out of)\s{{0,3}}{total}(?:\spoints)?)?[\s*.]{{0,3}}"
        r"</\s?points\s?>",
        re.IGNORECASE,
    )
    any_tag = re.compile(r"<\s?points", re.IGNORECASE)

    def parse(text: str) -> float | None:
        match = meant_match(pattern, text, any_tag, SCORES)
        value = math.nan if match is None else _decimal(match[1])
        return value if 0 <= value <= total else None

    return parse


_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})(?=[\s*_.!)\]\"]*(?:\Z|\n|/|\bout\sof\b))", re.IGNORECASE)
_ONLY = re.compile(
    r"[\s*_`$\[(\"#]{0,6}(?:\\boxed\{)?(?:(?:my|the|overall|final|total|grade|mark|result|verdict|answer)\b[\s*_:=-]{1,5}){0,4}"
    rf"[$\[(\"*_]{{0,6}}{_NUMBER}(?:{_OF}{_NUMBER})?(?:\spoints?)?[\s*_`$\])}}\".]{{0,6}}\Z",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"\b(?:I(?:['’](?:d|ll)|\s(?:would|will))?\s(?:give|rate|score|award|assign|grade|say|go\swith)"
    r"|(?:it|this|that|the\s\w{1,20})\s(?:gets|earns|deserves|receives|merits))\s"
    rf"(?:(?:it|this|that|the\s\w{{1,20}})\s)?(?:an?\s|as\s|with\s|at\s){{0,2}}[*_`]{{0,3}}{_NUMBER}(?:{_OF}{_NUMBER})?",
    re.IGNORECASE,
)
"""A score without its noun: a last line that is nothing else, and what the judge says it gives."""


def number_over(maximum: float = 10.0, word: str = "score", *, conform: bool = False) -> Parser:
    """The score, on a scale to `maximum`, of the last line that has the word and one; None if it is not on the scale.

    As `score[7] / max_score[10]`, `3.5 / 5`, `7 out of ten` or `rating: 7`; of several in a line the last, with
    `conform` the first. Without the word a last line that is only a number counts, and "I give it a 7".

    >>> parse = number_over(10)
    >>> parse("Score: 3"), parse("The score is 4 / 5, I think."), parse("score[7] / max_score[10]"), parse("7")
    (3.0, 8.0, 7.0, 7.0)
    >>> parse("Score: 9,5"), parse("Score: 95"), parse("Score: -1")
    (9.5, None, None)
    """
    if conform:
        return functools.partial(_nemo_number_over, maximum, word)
    noun, form = f"(?:{noun_of(word)}|(?i:rating))", form_of(noun_of(word))
    alone = re.compile(
        rf"{ADJECTIVES}{noun}s?(?:\sout\sof\s\d{{1,4}})?(?:{AFTER_NOUN}{BEFORE_VALUE}|\s(?:of|as)\s[*_`]{{0,3}}){_NUMBER}(?!\s?(?:/|out\sof))",
        re.IGNORECASE,
    )
    heading = re.compile(
        rf"^[\s#*_]{{0,6}}(?:total\s)?{ADJECTIVES}{noun}[*_:\s]{{0,4}}\n{{1,2}}\s{{0,4}}([^\n]{{1,20}})$",
        re.IGNORECASE | re.MULTILINE,
    )
    named = re.compile(noun)

    def place_of(text: str) -> tuple[int, str, re.Match[str]] | None:
        """Return the line of the last score with its place, and the match in it; None if there is none."""
        start = len(text)
        for place in reversed([match.start() for match in named.finditer(text)]):
            if place >= start:
                continue
            start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
            line = text[start:] if end < 0 else text[start:end]
            found = _BRACKETS.search(line) or last_match(_OVER, line), last_match(alone, line)
            if match := max(filter(None, found), key=lambda each: each.end(), default=None):
                return start, line, match
            if form.search(line):
                return None
        start = text.rfind("\n") + 1
        only = _ONLY.match(text[start:])
        return None if only is None else (start, text[start:], only)

    def parse(text: str) -> float | None:
        text = plain(text[-MOST_READ:]).rstrip()
        text = _WORD.sub(lambda word: str(_NUMBER_WORDS.index(word[0].lower())), text)
        text = heading.sub(lambda match: f"{word}: {match[1]}", text)
        found, given = place_of(text), last_match(_GIVEN, text)
        if given and (found is None or given.start() > found[0] + found[2].end()):
            found = 0, text, given
        if found is None:
            return None
        start, line, match = found
        if not (is_meant(line, *match.span()) and is_last_word(text, start + match.end(), form, SCORES)):
            return None
        over = match[2] if match.re.groups > 1 else None
        value, most = _decimal(match[1]), _decimal(over) if over else maximum
        return value * maximum / most if 0 <= value <= most and most > 0 else None

    return parse


def _nemo_number_over(maximum: float, word: str, text: str) -> float | None:
    alone = re.compile(
        rf"{re.escape(word)}[*_\"'`]{{0,3}}\s{{0,3}}(?::|=|is)[\s*_\"'`\[]{{0,6}}{_NEMO_NUMBER}", re.IGNORECASE
    )
    for line in reversed(text[-MOST_READ:].splitlines()):
        if word.lower() not in line.lower():
            continue
        if match := _NEMO_BRACKETS.search(line) or _NEMO_OVER.search(line):
            over = float(match[2])
            return float(match[1]) / over * maximum if over > 0 else None
        if match := alone.search(line):
            return float(match[1])
    return None


def number(text: str) -> float | None:
    """The text as a finite number, or None."""
    return _number_in(text.strip(), is_lenient=False) if len(text) < 40 else None


def _number_in(text: str, *, is_lenient: bool) -> float | None:
    if is_lenient:
        text = WRAPPED.sub(r"\1", text).strip("$ ").replace("½", "1/2")
        if match := _FRACTION.fullmatch(text):
            above, below = (int(digit) for digit in match.groups() if digit is not None)
            return above / below if below else None
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _decimal(text: str) -> float:
    return float(text.replace(",", "."))
