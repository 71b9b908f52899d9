r"""NeMo Gym's own reading of a choice, where `grading.py` reads more: for `conform="nemo"`.

Source of the rules: `resources_servers/mcqa` of https://github.com/NVIDIA-NeMo/Gym, commit 07d6b0d; written anew, each
in time linear in the text.
"""

from __future__ import annotations

import re
from itertools import pairwise

from gym_llm.envs.multiple_choice.grading import GradingMode
from gym_llm.grading.choices import Options, plain

_BOX = "\\boxed{"
_TEXT = "\\text{"
_DEEPEST = 100
_LONE_LETTER = re.compile(r"[^A-Za-z]*([A-Z])[^A-Za-z]*")
_LABEL = re.compile(r"\s*([A-Z])\s*[:).\-]")
_LEADING_LETTER = re.compile(r"([A-Za-z])(?![A-Za-z0-9])")
_STANDALONE_CAPITAL = re.compile(r"\b[A-Z]\b")
_STANDALONE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_LIST_SEPARATOR = re.compile(r"\s*[/|&,;]\s*|\s+(?:or|and)\s+|\s+", re.IGNORECASE)
_BRACE = re.compile(r"[{}]")
_ANSWER = re.compile(r"answer\s*:\s*(.+)", re.IGNORECASE)
_ANSWER_MARKDOWN = re.compile(r"answer[*_]{0,2}\s*:[*_\s]{0,2}(.+)", re.IGNORECASE)
_OTHER_LETTERS = str.maketrans(
    {other: f" {letter}" for other, letter in zip("أبجدঅবডঢＡＢＣＤ", "ABCDABCDABCD", strict=True)}
)


def extract_answer_as_nemo_gym(text: str, options: Options, mode: GradingMode) -> str | None:
    r"""The letter of the option that `text` chooses by NeMo Gym's rules, or None.

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
        for found in reversed(list(_ANSWER_MARKDOWN.finditer(text))):
            candidate = found[1].translate(_OTHER_LETTERS).strip().strip("*_` \t\n\r.,;:")
            letter = candidate if len(candidate) == 1 else _only_letter(candidate, options)
            if letter is not None and letter.upper() in options.letters:
                return letter.upper()
        return None
    boxed = _last_box(text)
    if boxed is None:
        return None
    letter = _labelled_letter(_unwrapped(boxed.strip()))
    if letter in options.letters:
        return letter
    return _option_within(boxed, options) if mode == "lenient_boxed" else None


def chosen_option_as_nemo_gym(captured: str, options: Options) -> str | None:
    """The option that a captured string names: any letter, one of the options or not, or the first with its text."""
    name = captured.strip().translate(_OTHER_LETTERS).strip().upper()
    return name if len(name) == 1 and name.isalpha() else _first_of_text(name, options)


def _labelled_letter(inside: str) -> str | None:
    """The capital letter that is the only letter in a box, or the label at its beginning."""
    match = _LONE_LETTER.fullmatch(inside) or _LABEL.match(inside)
    return None if match is None else match[1]


def _only_letter(candidate: str, options: Options) -> str | None:
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


def _option_within(text: str, options: Options) -> str | None:
    said = plain(text)
    letters = {letter for letter, option in options.texts if option and option in said}
    return letters.pop() if len(letters) == 1 else None


def _letter_or_text(candidate: str, options: Options) -> str | None:
    if len(candidate) == 1 and candidate.isalpha() and candidate.upper() in options.letters:
        return candidate.upper()
    return _first_of_text(candidate, options)


def _first_of_text(text: str, options: Options) -> str | None:
    wanted = plain(text)
    return next((letter for letter, option in options.texts if option == wanted), None)


def _last_box(text: str) -> str | None:
    r"""What is in the last `\boxed{…}`; None if that one is not closed. A brace after a backslash counts as well."""
    start = text.rfind(_BOX)
    if start < 0:
        return None
    start += len(_BOX)
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return None


def _unwrapped(text: str) -> str:
    for _ in range(_DEEPEST):
        if not (text.startswith(_TEXT) and text.endswith("}")):
            break
        text = text[len(_TEXT) : -1].strip()
    return text
