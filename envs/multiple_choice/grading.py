r"""Which option a text chooses: NeMo Gym's `mcqa` rules, written anew.

Source of the rules: `resources_servers/mcqa` of https://github.com/NVIDIA-NeMo/Gym; of the Arabic and Bengali letters:
`normalize_extracted_answer` in https://github.com/openai/simple-evals (`common.py`). Every function here takes time
linear in the text, except `search_last`, which runs a task's own patterns and belongs in a worker process.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gym_llm.grading.answers import last_boxed

GradingMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"]

_LONE_LETTER = re.compile(r"[^A-Za-z]*([A-Z])[^A-Za-z]*")
_LABEL = re.compile(r"\s*([A-Z])\s*[:).\-]")
_TEXT_WRAPPER = re.compile(r"\\text\s*\{(.*)\}", re.DOTALL)
_ANSWER = re.compile(r"answer\s*[:：]\s*(?=\S)", re.IGNORECASE)
_ANSWER_MARKDOWN = re.compile(r"answer[*_]{0,2}\s*[:：][*_\s]*(?=\S)", re.IGNORECASE)
_LEADING_LETTER = re.compile(r"([A-Za-z])(?![A-Za-z0-9])")
_STANDALONE_CAPITAL = re.compile(r"\b[A-Z]\b")
_STANDALONE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_LIST_SEPARATOR = re.compile(r"\s*[/|&,;]\s*|\s+(?:or|and)\s+|\s+", re.IGNORECASE)
_LONGEST = 6_000
"""Characters of an answer that are looked at: more than any letter or option has. Normalising takes time quadratic in
the marks on one character, 20 ms for so many."""
_MOST_ANSWERS = 256
_OTHER_LETTERS = dict(zip("أبجدঅবডঢ", "ABCDABCD", strict=True))
_OTHER_LETTER = re.compile(rf"(?<!\w)[{''.join(_OTHER_LETTERS)}](?!\w)")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a task, ready for grading."""

    letters: frozenset[str]
    """The upper-cased letters that a model can choose."""
    texts: tuple[tuple[str, str], ...]
    """(letter, text as `plain` has it) of each option."""

    @classmethod
    def read(cls, options: Iterable[dict[str, str | None]]) -> Options:
        """From a row: dicts from one letter to a text; a null text means there is no such option."""
        texts = [
            (letter.upper(), plain(text))
            for option in options
            for letter, text in option.items()
            if len(letter) == 1 and letter.isalpha() and text is not None
        ]
        return cls(frozenset(letter for letter, _ in texts), tuple(texts))


def extract_answer(text: str, options: Options, mode: GradingMode) -> str | None:
    r"""Return the letter of the option that `text` chooses, or None.

    - `strict_single_letter_boxed`: the last `\boxed{…}` holds a capital letter and no other (`B`, `[B]`, `\text{B}`),
      or begins with one and `:`, `)`, `.` or `-`. A small letter does not count (it does not in NeMo Gym either).
    - `lenient_boxed`: else the one option whose text is part of what is in the box.
    - `lenient_answer_colon`: after the last `Answer:` the line has nothing but a letter of either case, or an option's
      text.
    - `lenient_answer_colon_md`: the same with Markdown marks, brackets, or an explanation around the letter. A list of
      different letters ("A or B") chooses nothing.

    In the last two modes, an `Answer:` that chooses nothing is skipped for the one before it. This ends after a few
    hundred times or some thousand characters.

    >>> options = Options.read([{"A": "Oslo"}, {"B": "Bergen"}])
    >>> extract_answer(r"So \boxed{B}.", options, "strict_single_letter_boxed")
    'B'
    >>> extract_answer(r"\boxed{\text{oslo, Norway}}", options, "lenient_boxed")
    'A'
    >>> extract_answer("**Answer:** B, because of the rain", options, "lenient_answer_colon_md")
    'B'
    """
    if mode == "lenient_answer_colon":
        return _answer_colon(text, options)
    if mode == "lenient_answer_colon_md":
        return _answer_colon_markdown(text, options)
    boxed = last_boxed(text)
    if boxed is None:
        return None
    if boxed in options.letters and "A" <= boxed <= "Z":
        return boxed
    letter = labelled_letter(unwrapped(boxed))
    if letter in options.letters:
        return letter
    return option_of_text(boxed, options, whole=False) if mode == "lenient_boxed" else None


def labelled_letter(inside: str) -> str | None:
    """The capital letter that is the only letter in a box, or the label at its beginning."""
    match = _LONE_LETTER.fullmatch(inside) or _LABEL.match(inside)
    return None if match is None else match[1]


def search_last(patterns_and_text: tuple[list[str], str]) -> list[str | None]:
    """For each pattern, what its last match in the text captured (the whole match if it has no group).

    A pattern may take exponential time and holds the interpreter meanwhile: call this in a worker process.
    """
    patterns, text = patterns_and_text
    captures: list[str | None] = []
    for pattern in patterns:
        last = None
        for match in re.finditer(pattern, text, re.IGNORECASE):
            last = match
        captures.append(last and next((group for group in last.groups() if group is not None), last[0]))
    return captures


def chosen_option(captured: str, options: Options) -> str | None:
    """The option that a captured string names by its letter or its whole text; any letter where a row has no options.

    >>> chosen_option(" ب ", Options.read([{"A": "Oslo"}, {"B": "Bergen"}]))
    'B'
    """
    name = _latin(captured.strip()[:_LONGEST]).strip()
    if len(name) == 1 and name.isalpha() and (not options.letters or name.upper() in options.letters):
        return name.upper()
    return option_of_text(name, options)


def _answer_colon(text: str, options: Options) -> str | None:
    if not options.letters:
        return None
    for payload in _payloads(_ANSWER, text):
        if (choice := chosen_option(unwrapped(payload), options)) is not None:
            return choice
    return None


def _answer_colon_markdown(text: str, options: Options) -> str | None:
    for payload in _payloads(_ANSWER_MARKDOWN, text):
        candidate = _latin(payload).strip().strip("*_` \t.,;:")
        letter = option_of_text(candidate, options) or only_letter(candidate, options)
        if letter is not None and letter.upper() in options.letters:
            return letter.upper()
    return None


def _payloads(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """What follows each `Answer:` on its line, the last one first."""
    start, left = len(text), _LONGEST
    for match in reversed(deque(pattern.finditer(text), _MOST_ANSWERS)):
        # Up to the next `Answer:` at most, so that a million of them on one line do not cost a million lines.
        payload = text[match.end() : min(start, match.end() + left)].partition("\n")[0]
        yield payload.strip()
        start, left = match.start(), left - len(payload)
        if left <= 0:
            return


def only_letter(candidate: str, options: Options) -> str | None:
    """The letter that an answer begins with, else its last capital that stands alone; None where it lists several."""
    letters = [match for match in _STANDALONE_LETTER.finditer(candidate) if match[0].upper() in options.letters]
    for left, right in pairwise(letters):
        between = candidate[left.end() : right.start()]
        if left[0].upper() != right[0].upper() and _LIST_SEPARATOR.fullmatch(between):
            return None
    if leading := _LEADING_LETTER.match(candidate):
        return leading[1]
    capitals = _STANDALONE_CAPITAL.findall(candidate)
    return capitals[-1] if capitals else None


def option_of_text(text: str, options: Options, *, whole: bool = True) -> str | None:
    """The only option whose text this is, or contains if it need not be the whole of it."""
    said = plain(text)
    letters = {letter for letter, option in options.texts if option and (said == option if whole else option in said)}
    return letters.pop() if len(letters) == 1 else None


def unwrapped(text: str) -> str:
    r"""Without the `\text{…}` around it (up to three of them: a bound keeps hostile nesting cheap)."""
    text = text.strip()
    for _ in range(3):
        if not text.startswith("\\text") or (wrapped := _TEXT_WRAPPER.fullmatch(text)) is None:
            break
        text = wrapped[1].strip()
    return text


def _latin(text: str) -> str:
    if text.isascii():
        return text
    return _OTHER_LETTER.sub(lambda match: _OTHER_LETTERS[match[0]], unicodedata.normalize("NFKC", text))


def plain(text: str) -> str:
    """Lower case, every run of white space one space."""
    return " ".join(text.lower().split())
