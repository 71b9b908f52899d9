r"""Reading a judge's verdict: functions from its text to a value, or None if the text has none.

A judge that reasons before it decides mentions other labels on the way. The last label therefore counts, and only as a
whole word that is meant: `INCORRECT` does not contain `CORRECT`, and "not CORRECT" is unreadable. So is a number, or an
object, that the judge denies. `conform=True` reads
as NeMo Gym does instead, which often takes the first label. The time of each function is linear in the length of the
text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gym_llm.grading.answers import last_box
from gym_llm.judge.withdrawn import is_meant

Parser: TypeAlias = Callable[[str], Any]
"""From a judge's text to what it decided; None if it cannot be read."""

_TAIL = 4_000  # characters at the end, where a verdict nearly always is
_MOST_READ = 50_000  # characters from the end, where every character may cost more than a look
_MOST_BRACES = 300
_MOST_TRIED = 10_000
_FLAT_BOX = re.compile(r"\\boxed\{([^}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\{?(\d)\}?\{?(\d)\}?|(\d)/(\d)")
_NUMBER = r"([-+]?\d{1,9}(?:\.\d{1,9})?)"
_BRACKETS = re.compile(rf"score\s?\[\s?{_NUMBER}\s?\]\s?/\s?\w{{0,20}}\s?\[\s?{_NUMBER}\s?\]", re.IGNORECASE)
_NEMO_BRACKETS = re.compile(
    rf"score\s?\[\s?{_NUMBER}\s?\]\s?/\s?(?:max[_\s-]?possible[_\s-]?)?score\s?\[\s?{_NUMBER}\s?\]", re.IGNORECASE
)
_OVER = re.compile(rf"(?<![\d.]){_NUMBER}\s{{0,3}}(?:/|out of)\s{{0,3}}{_NUMBER}", re.IGNORECASE)


def last_label(text: str, labels: Sequence[str], *, ignore_case: bool = False) -> str | None:
    """The label of the last whole occurrence in the text; None without one, or if the judge denies or quotes it.

    >>> last_label("It is not INCORRECT: CORRECT", ["CORRECT", "INCORRECT"])
    'CORRECT'
    >>> last_label("It is INCORRECT.", ["CORRECT"]), last_label("It is not correct.", ["CORRECT"], ignore_case=True)
    (None, None)
    """
    searched = text.lower() if ignore_case else text
    places = [(_last_place(searched, label.lower() if ignore_case else label), len(label), label) for label in labels]
    place, length, label = max(places, default=(-1, 0, ""))  # of two that begin at the same place the longer one
    if place < 0:
        return None
    said = text if len(text) == len(searched) else searched  # a few letters become two in lower case
    in_prose = said[place : place + length] != label
    return label if is_meant(said, place, place + length, in_prose=in_prose) else None


def first_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that `find` meets first, inside of other words too: NeMo Gym's rule.

    >>> first_label("It is not INCORRECT: CORRECT", ["CORRECT", "INCORRECT"])
    'INCORRECT'
    """
    places = [(place, label) for label in labels if (place := text.find(label)) >= 0]
    return min(places, key=lambda found: found[0])[1] if places else None


@dataclass(frozen=True, slots=True)
class Labels:
    """A parser of two labels, for yes and for no: True, False, or None without either.

    Args:
        yes: The label for True, e.g. `[[A=B]]`.
        no: The label for False.
        conform: Whether the first counts, inside of words too.
        tail: With `conform`: the last label in this many characters at the end counts; without any the first of all.

    >>> Labels("[[A=B]]", "[[A!=B]]")("Not [[A!=B]], as one may think, but [[A=B]].")
    True
    """

    yes: str
    no: str
    conform: bool = False
    tail: int = 0

    def __call__(self, text: str) -> bool | None:
        """Return the decision of the text."""
        both = (self.yes, self.no)
        if not self.conform:
            label = last_label(text, both)
        elif self.tail and max(places := [text[-self.tail :].rfind(each) for each in both]) >= 0:
            label = both[places[1] > places[0]]
        else:
            label = first_label(text, both)
        return None if label is None else label == self.yes

    def name_of(self, value: bool | None) -> str | None:
        """The label of a verdict."""
        return None if value is None else self.yes if value else self.no


def labels(yes: str, no: str, *, conform: bool = False) -> Labels:
    """True if the last whole label of the text is `yes`, False if it is `no`; with `conform` the first of them."""
    return Labels(yes, no, conform)


def tail_label(yes: str, no: str, characters: int = 200, *, conform: bool = False) -> Labels:
    """Return a parser like `labels`; with `conform` the last label in the last characters counts, else the first."""
    return Labels(yes, no, conform, characters)


def letter(letters: str, words: Mapping[str, str] | None = None) -> Parser:
    r"""Return a parser of a letter grade.

    The grade is the first of these that the text has:

    1. the whole text, if it is a letter (`**B**.`);
    2. the last line, if it is a letter or begins with one;
    3. the last `grade is B`, `Answer: B` or `verdict B`;
    4. the last word that stands for a letter.

    Args:
        letters: The grades, e.g. `ABC`.
        words: Words that mean a grade, `{"INCORRECT": "B"}`; whole ones, upper and lower case alike.

    >>> grade = letter("ABC", {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C"})
    >>> [grade(text) for text in ("B", "After thinking, the grade is B.", "INCORRECT", "Answer: C", "I like it")]
    ['B', 'B', 'B', 'C', None]
    """
    one = f"[{letters}]"
    alone = re.compile(rf"[\s.:)*\[\]('\"`_]{{0,12}}({one})[\s.:)*\]'\"`_]{{0,12}}")
    begins = re.compile(rf"[*\[(`\"']{{0,4}}({one})[.:)*\]`\"',]")
    named = re.compile(
        rf"(?:\b(?:grade|verdict)|^[\s*_#]{{0,4}}(?:final\s|my\s)?answer)\b[*_\"'`]{{0,3}}(?:\s{{1,2}}is)?\s{{0,2}}:?[\s*_\[(\"'`]{{0,6}}({one})(?![\w'’])",
        re.IGNORECASE | re.MULTILINE,
    )
    meanings = {word.upper(): grade for word, grade in (words or {}).items()}

    def parse(text: str) -> str | None:
        text = text[-_MOST_READ:].strip()
        if len(text) < 30 and (match := alone.fullmatch(text)):
            return match[1]
        last_line = text[text.rfind("\n") + 1 :].strip()
        if match := (alone.fullmatch(last_line[:30]) if len(last_line) < 30 else None) or begins.match(last_line):
            return match[1]
        found = [match for match in named.finditer(text) if match[1] in letters]  # a letter of lower case is a word
        if found:
            last = found[-1]
            return last[1] if is_meant(text, last.start(), last.end()) else None
        word = last_label(text, list(meanings), ignore_case=True) if meanings else None
        return None if word is None else meanings[word]

    return parse


def yes_no_line(marker: str, *, yes: str = "yes", no: str = "no", conform: bool = False, first: bool = False) -> Parser:
    """True or False by the last `marker` that `yes` or `no` follows, upper and lower case alike.

    Args:
        marker: What stands before it, e.g. `Judgement:`.
        yes: The word for True.
        no: The word for False.
        conform: Whether a word that begins so is enough, `not sure` is a no, and nothing else may stand before it.
        first: Whether the first one counts.

    >>> parse = yes_no_line("Judgement:")
    >>> parse("Judgement: **Yes**, at first. Judgement: no"), parse("Judgement: not sure")
    (False, None)
    """
    words = f"({re.escape(yes)}|{re.escape(no)})" + ("" if conform else r"\b")
    between = r"\s{0,99}" if conform else r"[\s*_\"'`\[(]{0,8}"
    pattern = re.compile(rf"{re.escape(marker)}{between}{words}", re.IGNORECASE)

    def parse(text: str) -> bool | None:
        match = pattern.search(text) if first else (_last_match if conform else meant_match)(pattern, text)
        if match is None:
            return None
        said: str = match[1]
        return said.lower() == yes.lower()

    return parse


def json_field(key: str, allowed: Sequence[Any] | None = None, *, ignore_case: bool = False) -> Parser:
    """The value of a key of the last JSON object that has it, in or out of a fence; None if the judge denies it.

    Args:
        key: The key.
        allowed: The values that count; None for any.
        ignore_case: Whether values are read as upper case without the spaces around them.

    >>> json_field("result")('For example {"result": "FAIL"}. So: {"result": "PASS", "why": {"n": "{}"}}')
    'PASS'
    """

    def parse(text: str) -> Any:
        text = text[-_MOST_READ:]
        for start, end, members in reversed(list(_placed_objects(text))):
            if key not in members:
                continue
            value = str(members[key]).strip().upper() if ignore_case else members[key]
            if allowed is None or value in allowed:
                return value if is_meant(text, start, end) else None
        return None

    return parse


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Return the outermost JSON objects in a text, in order; of a very long text only those near its end."""
    return (value for _, _, value in _placed_objects(text[-_MOST_READ:]))


def _placed_objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    braces: list[int] = []
    place = len(text)
    while len(braces) < _MOST_BRACES and (place := text.rfind("{", 0, place)) >= 0:
        braces.append(place)
    decode = json.JSONDecoder().raw_decode
    end = 0
    for place in reversed(braces):
        if place < end:
            continue
        try:
            value, end = decode(text, place)
        except (ValueError, RecursionError):
            continue
        yield place, end, value


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
            span = last_box(text)
            if span is not None and meant and not is_meant(text, text.rfind("\\boxed", 0, span[0]), span[1] + 1):
                span = None
            box = None if span is None else text[span[0] : span[1]]
        number = None if box is None or len(box) > 40 else _number_in(box.strip(), fractions=not conform)
        return number if number in allowed else None

    return parse


def points(total: int = 7) -> Parser:
    """N of the last `<points>N out of 7</points>`, a number from 0 to the total.

    >>> points(7)("<points>3 out of 7</points> … no: <points>6 out of 7</points>")
    6.0
    """
    pattern = re.compile(
        rf"<points>\s{{0,3}}{_NUMBER}(?:\s{{0,3}}(?:/|out of)\s{{0,3}}{total})?\s{{0,3}}</points>", re.IGNORECASE
    )

    def parse(text: str) -> float | None:
        match = meant_match(pattern, text)
        value = math.nan if match is None else float(match[1])
        return value if 0 <= value <= total else None

    return parse


def number_over(maximum: float = 10.0, word: str = "score", *, conform: bool = False) -> Parser:
    """The score, on a scale to `maximum`, of the last line that has the word and one.

    As `score[7] / max_score[10]`, `3.5 / 5`, `7 out of 10` or `score: 7`; of several in a line the last, with `conform`
    the first.

    >>> parse = number_over(10)
    >>> parse("Score: 3"), parse("The score is 4 / 5, I think."), parse("score[7] / max_score[10]"), parse("7")
    (3.0, 8.0, 7.0, None)
    """
    alone = re.compile(
        rf"{re.escape(word)}[*_\"'`]{{0,3}}\s{{0,3}}(?::|=|is)[\s*_\"'`\[]{{0,6}}{_NUMBER}", re.IGNORECASE
    )

    def parse(text: str) -> float | None:
        for line in reversed(text[-_MOST_READ:].splitlines()):
            if word.lower() not in line.lower():
                continue
            brackets = _NEMO_BRACKETS if conform else _BRACKETS
            match = brackets.search(line) or (_OVER.search(line) if conform else _last_match(_OVER, line))
            one = None if match else alone.search(line) if conform else _last_match(alone, line)
            said = match or one
            if said and not conform and not is_meant(line, said.start(), said.end()):
                return None
            if match:
                value, over = float(match[1]), float(match[2])
                return value / over * maximum if over > 0 else None
            if one:
                return float(one[1])
        return None

    return parse


def number(text: str) -> float | None:
    """The text as a finite number, or None."""
    return _number_in(text.strip(), fractions=False) if len(text) < 40 else None


def _number_in(text: str, *, fractions: bool) -> float | None:
    if fractions and (match := _FRACTION.fullmatch(text.strip("$ "))):
        above, below = (int(digit) for digit in match.groups() if digit is not None)
        return above / below if below else None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def meant_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match in a judge's text; None without one, or if the judge denies or quotes it.

    >>> meant_match(re.compile("[0-9]"), "Not 1, so: 2")[0], meant_match(re.compile("[0-9]"), "The verdict is not 2")
    ('2', None)
    """
    match = _last_match(pattern, text)
    return match if match and is_meant(text, match.start(), match.end()) else None


def _last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for start in (max(0, len(text) - _TAIL), 0):
        for match in pattern.finditer(text, start):
            last = match
        if last is not None or start == 0:
            return last
    return last


def _last_place(text: str, label: str) -> int:
    """Return the start of the last occurrence that is not part of a longer word; -1 without."""
    end = len(text)
    for _ in range(_MOST_TRIED):
        if (place := text.rfind(label, 0, end)) < 0:
            break
        after = place + len(label)
        inside = (place and _in_word(text[place - 1]) and _in_word(label[0])) or (
            after < len(text) and _in_word(text[after]) and _in_word(label[-1])
        )
        if not inside:
            return place
        end = after - 1
    return -1


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
