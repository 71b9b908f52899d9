r"""NeMo Gym's own reading of a choice, where `grading.py` reads more: for `conform="nemo"`.

Source of the rules: `resources_servers/mcqa` of https://github.com/NVIDIA-NeMo/Gym, 0.7.0; written anew, each in time
linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from itertools import pairwise

from gym_llm.envs.multiple_choice.grading import GradingMode
from gym_llm.grading.choices import Options, plain
from gym_llm.grading.extraction import last_brace_box

_TEXT = "\\text{"
_DEEPEST = 100
_LONGEST_WORD = 1_000
_MOST_PREFIXES = 64
_ANSWER = re.compile(r"answer\s*:\s*(.+)", re.IGNORECASE)
_ANSWER_MARKDOWN = re.compile(r"[*_]{0,2}answer[*_]{0,2}\s*:[*_\s]{0,2}(.+)", re.IGNORECASE)
_OTHER_LETTERS = str.maketrans({other: f" {letter}" for other, letter in zip("أبجدঅবডঢ", "ABCDABCD", strict=True)})
_WORD = re.compile(r"[^ \t\r\n]+")
_LONE_LETTER = re.compile(r"[^A-Za-z]*([A-Z])[^A-Za-z]*")
_LABEL = re.compile(r"\s*([A-Z])\s*[:).\-]")
_LEADING_LETTER = re.compile(r"([A-Za-z])(?![A-Za-z0-9])")
_STANDALONE_CAPITAL = re.compile(r"\b[A-Z]\b")
_STANDALONE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_LIST_SEPARATOR = re.compile(r"\s*[/|&,;]\s*|\s+(?:or|and)\s+|\s+", re.IGNORECASE)


def extract_answer_as_nemo_gym(text: str, options: Options, mode: GradingMode, prefix: str | None = None) -> str | None:
    r"""The letter of the option that `text` chooses by NeMo Gym's rules, or None.

    Args:
        text: What the model said.
        options: The task's options.
        mode: How the choice is found.
        prefix: What the row has as `answer_prefix`: another word for `Answer:`, in `lenient_answer_colon_md`.

    >>> options = Options.read([{"A": "Oslo"}, {"B": "Bergen"}])
    >>> extract_answer_as_nemo_gym("Answer: A\nAnswer: B", options, "lenient_answer_colon")
    'A'
    >>> extract_answer_as_nemo_gym(r"\boxed{B} or \boxed{A", options, "strict_single_letter_boxed") is None
    True
    """
    text = text.strip()
    if mode == "lenient_answer_colon":
        found = _ANSWER.search(text)
        return None if found is None else _letter_or_text(_unwrapped(found[1]).strip(), options)
    if mode == "lenient_answer_colon_md":
        for payload in _payloads(_normal(text), _normal(prefix or "")):
            candidate = payload.translate(_OTHER_LETTERS).strip().strip("*_` \t\n\r.,;:")
            letter = candidate if len(candidate) == 1 else _only_letter(candidate, options)
            if letter is not None and letter.upper() in options.letters:
                return letter.upper()
        return _boxed_letter(text, options) if prefix else None
    letter = _boxed_letter(text, options)
    if letter is None and mode == "lenient_boxed" and (boxed := last_brace_box(text)) is not None:
        return _option_in(boxed, options)
    return letter


def chosen_option_as_nemo_gym(captured: str, options: Options) -> str | None:
    """The option that a captured string names: any letter, one of the options or not, or the first with its text."""
    name = _normal(captured.strip()).translate(_OTHER_LETTERS).strip().upper()
    return name if len(name) == 1 and name.isalpha() else _first_of_text(name, options)


def _payloads(text: str, prefix: str) -> Iterator[str]:
    """What follows `Answer:` or the prefix on its line, the last one first."""
    found = [(match.start(), match.span(1)) for match in _ANSWER_MARKDOWN.finditer(text)]
    if prefix:
        places = deque(re.finditer(rf"{re.escape(prefix)}\s*", text, re.IGNORECASE), _MOST_PREFIXES)
        for match in places:
            end = text.find("\n", match.end())
            found.append((match.start(), (match.end(), len(text) if end < 0 else end)))
        found.sort(key=lambda each: each[0])
    return (text[start:end] for _, (start, end) in reversed(found))


def _normal(text: str) -> str:
    """NFKC, word by word: a hostile word of marks, for which it takes quadratic time, stays as it is."""
    if text.isascii():
        return text
    return _WORD.sub(
        lambda word: unicodedata.normalize("NFKC", word[0]) if len(word[0]) <= _LONGEST_WORD else word[0], text
    )


def _boxed_letter(text: str, options: Options) -> str | None:
    boxed = last_brace_box(text)
    if boxed is None:
        return None
    inside = _unwrapped(boxed.strip())
    match = _LONE_LETTER.fullmatch(inside) or _LABEL.match(inside)
    return match[1] if match is not None and match[1] in options.letters else None


def _option_in(boxed: str, options: Options) -> str | None:
    """The only option whose text the box has."""
    said = plain(boxed), plain(_unwrapped(boxed.strip()))
    letters = {letter for letter, option in options.texts if option and any(option in each for each in said)}
    return letters.pop() if len(letters) == 1 else None


def _only_letter(candidate: str, options: Options) -> str | None:
    letters = [match for match in _STANDALONE_LETTER.finditer(candidate) if match[0].upper() in options.letters]
    for left, right in pairwise(letters):
        between = candidate[left.end() : right.start()]
        if left[0].upper() != right[0].upper() and _LIST_SEPARATOR.fullmatch(between):
            return None
    if leading := _LEADING_LETTER.match(candidate):
        return leading[1]
    capitals = _STANDALONE_CAPITAL.findall(candidate)
    return capitals[-1] if capitals else None


def _letter_or_text(candidate: str, options: Options) -> str | None:
    if len(candidate) == 1 and candidate.isalpha() and candidate.upper() in options.letters:
        return candidate.upper()
    return _first_of_text(candidate, options)


def _first_of_text(text: str, options: Options) -> str | None:
    wanted = plain(text)
    return next((letter for letter, option in options.texts if option == wanted), None)


def _unwrapped(text: str) -> str:
    for _ in range(_DEEPEST):
        if not (text.startswith(_TEXT) and text.endswith("}")):
            break
        text = text[len(_TEXT) : -1].strip()
    return text
