r"""Reading a judge's verdict: functions from its text to a value, or None if the text has none.

A judge that reasons before it decides mentions other labels on the way. The last label therefore counts, and only as a
whole word that is meant: `INCORRECT` does not contain `CORRECT`, and "not CORRECT" is unreadable. So is a number, or an
object, that the judge denies, and any verdict with something like another one behind it (`last_word.py`).
`conform=True` reads as NeMo Gym does instead, which often takes the first label. The time of each function is linear in
the length of the text.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from gym_llm.grading.answers import last_box
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
from gym_llm.judge.withdrawn import is_denied, is_meant

Parser: TypeAlias = Callable[[str], Any]
"""From a judge's text to what it decided; None if it cannot be read."""

_TAIL = 4_000  # characters at the end, where a verdict nearly always is
_FLAT_BOX = re.compile(r"\\boxed\{([^}]*)\}")
_ANY_BOX = re.compile(r"\\?f?boxed\s?\{")
_FRACTION = re.compile(r"\\[dt]?frac\{?(\d)\}?\{?(\d)\}?|(\d)\s?/\s?(\d)")
_WRAPPED = re.compile(r"\\(?:text\w{0,2}|math\w{2})\{([^{}]*)\}")
_NEMO_NUMBER = r"([-+]?\d{1,9}(?:\.\d{1,9})?)"
_NUMBER = r"([-+]?\d{1,9}(?:\.\d{1,9}|,\d{1,2})?)(?![\w%]|[.,]?\d|\s?[-–—~^]\s?\d|\sto\s\d)"
_BRACKETS = re.compile(rf"score\s?\[\s?{_NUMBER}\s?\]\s?/\s?\w{{0,20}}\s?\[\s?{_NUMBER}\s?\]", re.IGNORECASE)
_NEMO_BRACKETS = re.compile(
    rf"score\s?\[\s?{_NEMO_NUMBER}\s?\]\s?/\s?(?:max[_\s-]?possible[_\s-]?)?score\s?\[\s?{_NEMO_NUMBER}\s?\]",
    re.IGNORECASE,
)
_OVER = re.compile(rf"(?<![\d.,]){_NUMBER}[\s*_`]{{0,4}}(?:/|out\sof)[\s*_`]{{0,4}}{_NUMBER}", re.IGNORECASE)
_NEMO_OVER = re.compile(rf"(?<![\d.]){_NEMO_NUMBER}\s{{0,3}}(?:/|out of)\s{{0,3}}{_NEMO_NUMBER}", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"\[\s?\[[^\n]{0,40}\S")
_OTHER_QUESTIONS = ("COMPLIED", "REFUSED", "SAFE", "UNSAFE", "HAS_EXPLANATION", "NO_EXPLANATION")
"""Labels of verifiers that ask a judge two things: a dry run's judge gives them all."""
_LONGEST_OTHER = 24
MOST_WORDS = 100  # words behind a label that are looked at


def last_label(text: str, labels: Sequence[str], *, ignore_case: bool = False) -> str | None:
    """The label of the last whole occurrence in the text; None without one, or if the judge denies or quotes it.

    Labels in brackets are read in other cases and with other spaces as well. None, too, if anything behind the label
    looks like another verdict.

    >>> last_label("It is not INCORRECT: CORRECT", ["CORRECT", "INCORRECT"])
    'CORRECT'
    >>> last_label("It is INCORRECT.", ["CORRECT"]), last_label("It is not correct.", ["CORRECT"], ignore_case=True)
    (None, None)
    """
    text = plain(text)
    if "\\text" in text or "\\math" in text:
        text = _WRAPPED.sub(r"\1", text)
    forms = label_forms(tuple(labels), ignore_case)
    match = last_match(forms.label, text)
    if match is None:
        return None
    label = forms.label_in(match)
    if not is_meant(text, match.start(), match.end(), in_prose=match[0] != label and label.isalpha()):
        return None
    disputed = functools.partial(is_disputed, forms, label)
    return label if is_last_word(text, match.end(), disputed, VERDICTS) else None


class LabelForms(NamedTuple):
    """Patterns of labels: whole ones, what begins as all of them do, and their words in any case."""

    names: list[str]
    label: re.Pattern[str]
    shape: re.Pattern[str]
    word: re.Pattern[str]

    def label_in(self, match: re.Match[str]) -> str:
        """Return the label of a match."""
        return self.names[(match.lastindex or 1) - 1]


@functools.lru_cache
def label_forms(labels: tuple[str, ...], ignore_case: bool) -> LabelForms:
    """Return the patterns of labels."""
    names = sorted(labels, key=len, reverse=True)  # of two that begin at the same place the longer one
    shared = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = re.sub(r"\w+\Z", "", "".join(letters[0] for letters in shared)) if len(names) > 1 else ""
    cores = [re.sub(r"\W+\Z", "", name[len(prefix) :]) or name for name in names]
    flexible = [_flexible(name, ignore_case) for name in names]
    shape = _flexible(prefix, True) + (r"[^\W\d]" if len(prefix) == 1 else r"[\s*_]{0,3}\S") if prefix else "(?!)"
    return LabelForms(names, _any_of(flexible), re.compile(shape), _any_of([_flexible(core, True) for core in cores]))


def _any_of(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"({pattern})" for pattern in patterns))


def _flexible(label: str, ignore_case: bool) -> str:
    """Return the pattern of a label as a whole word; signs have spaces around them, and are written in several ways."""
    if not label[:1].isalnum():
        ignore_case = True
    parts = []
    for part in re.findall(r"[^\W_]+|!=|[^\w\s]|[\s_]+", label):
        parts.append(_SIGNS.get(part) or (r"[\s_-]{1,2}" if part[0] in " _" else re.escape(part)))
        if not part[0].isalnum() and part[0] not in " _\\":
            parts[-1] = rf"{_SPACE}\\?{parts[-1]}{_SPACE}"
    pattern = "".join(parts).removeprefix(_SPACE).removesuffix(_SPACE)
    if ignore_case:
        pattern = f"(?i:{pattern})"
    return (r"(?<!\w)" if label[:1].isalnum() else "") + pattern + (r"(?!\w)" if label[-1:].isalnum() else "")


_SPACE = r"[\s*\"'`]{0,3}"
_SIGNS = {"=": "={1,3}", "!=": r"(?:!=|≠|<>|=/=|neq?\b|/=)"}


def is_disputed(forms: LabelForms, label: str, text: str, end: int) -> bool:
    """Whether something behind a place has the form of a label, means another one, or denies this one."""
    for match in itertools.islice(forms.shape.finditer(text, end), MOST_WORDS):
        if text[match.start() : match.start() + _LONGEST_OTHER].partition("]]")[0].strip("[ ") not in _OTHER_QUESTIONS:
            return True
    for match in itertools.islice(forms.word.finditer(text, end), MOST_WORDS):
        if forms.label_in(match) == label:
            if is_denied(text, match.start()):
                return True
        elif is_meant(text, match.start(), match.end(), in_prose=True):
            return True
    return False


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
        last: With `conform`: the last counts, read from the left, so that `INCORRECT` is one label.

    >>> Labels("[[A=B]]", "[[A!=B]]")("Not [[A!=B]], as one may think, but [[A=B]].")
    True
    """

    yes: str
    no: str
    conform: bool = False
    tail: int = 0
    last: bool = False

    def __call__(self, text: str) -> bool | None:
        """Return the decision of the text."""
        both = (self.yes, self.no)
        if not self.conform:
            label = last_label(text, both)
        elif self.last:
            either = "|".join(re.escape(each) for each in sorted(both, key=len, reverse=True) if each)
            label = next(iter(re.findall(either, text)[-1:]), None)
        elif self.tail and max(places := [text[-self.tail :].rfind(each) for each in both]) >= 0:
            label = both[places[1] > places[0]]
        else:
            label = first_label(text, both)
        return None if label is None else label == self.yes

    def name_of(self, value: bool | None) -> str | None:
        """The label of a verdict."""
        return None if value is None else self.yes if value else self.no


def labels(yes: str, no: str, *, conform: bool = False, last: bool = False) -> Labels:
    """True if the last whole label of the text is `yes`, False if it is `no`; with `conform` the first or `last`."""
    return Labels(yes, no, conform, last=last)


def tail_label(yes: str, no: str, characters: int = 200, *, conform: bool = False) -> Labels:
    """Return a parser like `labels`; with `conform` the last label in the last characters counts, else the first."""
    return Labels(yes, no, conform, characters)


def yes_no_line(marker: str, *, yes: str = "yes", no: str = "no", conform: bool = False) -> Parser:
    """True or False by the last `marker` that `yes` or `no` follows, upper and lower case alike.

    The marker may be bold, in quotes, a tag, or the cell of a table.

    Args:
        marker: What stands before it, e.g. `Judgement:`.
        yes: The word for True.
        no: The word for False.
        conform: Whether a word that begins so is enough, `not sure` is a no, and nothing else may stand before it.

    >>> parse = yes_no_line("Judgement:")
    >>> parse("Judgement: **Yes**, at first. Judgement: no"), parse("Judgement: not sure")
    (False, None)
    """
    words = f"({re.escape(yes)}|{re.escape(no)})"
    if conform:
        pattern = re.compile(rf"{re.escape(marker)}\s{{0,99}}{words}", re.IGNORECASE)
    else:
        noun, form = rf"(?<![^\W_])(?<!/){ADJECTIVES}{noun_of(marker)}s?", form_of(noun_of(marker))
        heading = r"[*_\s]{0,4}\n{1,2}[*_]{0,3}"
        pattern = re.compile(rf"{noun}(?:{AFTER_NOUN}{BEFORE_VALUE}|{heading}){words}(?![\w-])", re.IGNORECASE)

    def parse(text: str) -> bool | None:
        match = last_match(pattern, text) if conform else meant_match(pattern, text, form)
        if match is None:
            return None
        said: str = match[1]
        return said.lower() == yes.lower()

    return parse


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


def number_over(maximum: float = 10.0, word: str = "score", *, conform: bool = False) -> Parser:
    """The score, on a scale to `maximum`, of the last line that has the word and one; None if it is not on the scale.

    As `score[7] / max_score[10]`, `3.5 / 5`, `7 out of 10` or `score: 7`; of several in a line the last, with `conform`
    the first.

    >>> parse = number_over(10)
    >>> parse("Score: 3"), parse("The score is 4 / 5, I think."), parse("score[7] / max_score[10]"), parse("7")
    (3.0, 8.0, 7.0, None)
    >>> parse("Score: 9,5"), parse("Score: 95"), parse("Score: -1")
    (9.5, None, None)
    """
    if conform:
        return functools.partial(_nemo_number_over, maximum, word)
    noun = noun_of(word)
    alone = re.compile(
        rf"{noun}s?(?:\sout\sof\s\d{{1,4}})?{AFTER_NOUN}{BEFORE_VALUE}{_NUMBER}(?!\s?(?:/|out\sof))", re.IGNORECASE
    )
    heading = re.compile(
        rf"^[\s#*_]{{0,6}}{noun}[*_:\s]{{0,4}}\n\s{{0,4}}([^\n]{{1,20}})$", re.IGNORECASE | re.MULTILINE
    )
    named, form = re.compile(noun), form_of(noun)

    def parse(text: str) -> float | None:
        text = heading.sub(lambda match: f"{word}: {match[1]}", plain(text[-MOST_READ:]))
        start = len(text)
        for place in reversed([match.start() for match in named.finditer(text)]):
            if place >= start:
                continue
            start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
            line = text[start:] if end < 0 else text[start:end]
            over = _BRACKETS.search(line) or last_match(_OVER, line)
            match = max(filter(None, (over, last_match(alone, line))), key=lambda each: each.end(), default=None)
            if match is None and not form.search(line):
                continue
            is_clear = match is not None and is_meant(line, match.start(), match.end())
            if match is None or not (is_clear and is_last_word(text, start + match.end(), form, SCORES)):
                return None
            value, most = _decimal(match[1]), _decimal(match[2]) if match is over else maximum
            return value * maximum / most if 0 <= value <= most and most > 0 else None
        return None

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
        text = _WRAPPED.sub(r"\1", text).strip("$ ").replace("½", "1/2")
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


def meant_match(pattern: re.Pattern[str], text: str, *forms: re.Pattern[str]) -> re.Match[str] | None:
    """Return the last match in a judge's text; None without one, or if the judge denies or quotes it.

    None, too, if anything behind the match looks like another verdict: a text in double brackets, "Verdict: …", or one
    of `forms`.

    >>> meant_match(re.compile("[0-9]"), "Not 1, so: 2")[0], meant_match(re.compile("[0-9]"), "The verdict is not 2")
    ('2', None)
    """
    text = plain(text)
    match = last_match(pattern, text)
    if match is None or not is_meant(text, match.start(), match.end()):
        return None
    return match if is_last_word(text, match.end(), _IN_BRACKETS, *(forms or (SCORES,)), VERDICTS) else None


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match in a text; None without one."""
    last = None
    for start in (max(0, len(text) - _TAIL), 0):
        for match in pattern.finditer(text, start):
            last = match
        if last is not None or start == 0:
            return last
    return last
