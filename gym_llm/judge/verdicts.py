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
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

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
WRAPPED = re.compile(r"\\(?:text\w{0,2}|math\w{2})\{([^{}]*)\}")
_IN_BRACKETS = re.compile(r"\[\s?\[[^\n]{0,40}\S")
_OTHER_QUESTIONS = ("COMPLIED", "REFUSED", "SAFE", "UNSAFE", "HAS_EXPLANATION", "NO_EXPLANATION")
"""Labels of verifiers that ask a judge two things: a dry run's judge gives them all."""
_LONGEST_OTHER = 24
_MEMBER = re.compile(r"\{\s*[\"'][^{}]{0,99}\Z")
_MARKUP = " \t.*_`\"'()[]{}$\\"
MOST_WORDS = 100  # words behind a label that are looked at


def last_label(text: str, labels: Sequence[str], *, ignore_case: bool = False) -> str | None:
    """The label of the last whole occurrence in the text; None without one, or if the judge denies or quotes it.

    Labels in brackets are read in other cases and with other spaces as well. So is a last line that is nothing else,
    without brackets. None, too, if anything behind the label looks like another verdict.

    >>> last_label("It is not INCORRECT: CORRECT", ["CORRECT", "INCORRECT"])
    'CORRECT'
    >>> last_label("It is INCORRECT.", ["CORRECT"]), last_label("It is not correct.", ["CORRECT"], ignore_case=True)
    (None, None)
    """
    text = plain(text)
    if "\\text" in text or "\\math" in text:
        text = WRAPPED.sub(r"\1", text)
    forms = label_forms(tuple(labels), ignore_case)
    match = last_match(forms.label, text)
    if match is None:
        only = forms.word.fullmatch(text[-MOST_WORDS:].rstrip().rpartition("\n")[2].strip(_MARKUP))
        return forms.label_in(only) if only else None
    label = forms.label_in(match)
    if not is_meant(text, *around(text, *match.span()), in_prose=match[0] != label and label.isalpha()):
        return None
    disputed = functools.partial(is_disputed, forms, label)
    return label if is_last_word(text, match.end(), disputed, VERDICTS) else None


def around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the places of the JSON object around a verdict, which is what a judge means or denies, or its own."""
    member = _MEMBER.search(text, max(0, start - MOST_WORDS), start)
    return (member.start(), text.find("}", end) + 1 or end) if member else (start, end)


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
    words = f"{re.escape(yes)}|{re.escape(no)}"
    if conform:
        pattern = re.compile(rf"{re.escape(marker)}\s{{0,99}}({words})", re.IGNORECASE)
    else:
        either = rf"(?!\s?(?:/|,?\s(?:and|or)\s)\s?(?:{words})\b)"
        words = f"({words})" if yes != "yes" else f"(?:({words})|(true)|false)"
        noun, form = rf"(?<![^\W_])(?<!/){ADJECTIVES}{noun_of(marker)}s?", form_of(noun_of(marker))
        heading = r"[*_\s]{0,4}\n{1,2}[*_]{0,3}"
        pattern = re.compile(rf"{noun}(?:{AFTER_NOUN}{BEFORE_VALUE}|{heading}){words}(?![\w-]){either}", re.IGNORECASE)

    def parse(text: str) -> bool | None:
        match = last_match(pattern, text) if conform else meant_match(pattern, text, form)
        if match is None:
            return None
        said: str = match[1] or match[2] or ""
        return said.lower() in (yes.lower(), "true")

    return parse


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
