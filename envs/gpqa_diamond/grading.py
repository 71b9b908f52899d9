r"""Functions that find the chosen letter in a text by the rules of NeMo Gym's `gpqa_diamond`, in linear time."""

from __future__ import annotations

import re
import string
from collections import deque

from gym_llm.envs.multiple_choice.grading import Options, labelled_letter, option_of_text
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.extraction import flat_boxes

_CAPITAL = re.compile(r"\b[A-Z]\b")
_EXPLAINED = re.compile(r"\(?([A-Z])\)?\s*\(")
# Greedy up to the last `answer`, and as short as possible after it, so that no text takes quadratic time.
_LAST_ANSWER = re.compile(r".*\banswer[*_]{0,2}\s*+:[\s*_(\[$]*+(?:\\text\s*+\{)?([a-z])(?![a-z0-9])", re.I | re.S)
_LAST_ANSWER_AS_NEMO_GYM = re.compile(r".*answer[*_]{0,2}\s*+:[\s*_]{0,2}\s*([a-z])(?![a-z0-9])", re.I | re.S)
# A second letter behind the chosen one: "B, C", "(B) or (C)", "**B** and **C**".
_ANOTHER = re.compile(
    r"[*_)\]}$]*(?:\s*[/|&,;]\s*(?:(?:or|and)\s)?|\s+(?:(?:or|and|and/or)\s+)?)[\s*_(\[$]*(?:\\text\s*\{)?([A-Z])(?![A-Za-z0-9'])",
    re.I,
)
_LATEX_FORMAT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:bf|rm|it|sf|tt|cal)?|mathbb|boldsymbol|bm|emph|operatorname)\s*\{([^{}]*)\}"
)
_LATEX_SPACING = re.compile(r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|quad|bf|rm)(?![A-Za-z])|\\[,;:! ]|[$~]")
_MOST_FORMATS = 3  # formats around each other that are taken away: a bound keeps hostile nesting cheap
_LONGEST = 6_000
_LONGEST_TEXT = 100_000  # the last characters of a text, where an `Answer:` is looked for


def extract_choice(text: str, options: Options) -> str | None:
    r"""Return the letter in the last `\boxed{…}`: alone, as a label, or explained in brackets; or its option's text.

    A letter may be in bold, in roman or in sized brackets. Without a choice in a box, the letter after the last
    `Answer:` counts, in upper or lower case. A list of letters ("B, C") chooses nothing.

    >>> options = Options.read([{"A": "1 s"}, {"B": "2 s"}, {"C": "3 s"}])
    >>> extract_choice(r"I say \boxed{B (not C)}.", options), extract_choice("**Answer:** (b)", options)
    ('B', 'B')
    """
    boxed = last_boxed(text)
    if boxed is not None and (inside := _without_format(boxed[:_LONGEST])):
        explained = _EXPLAINED.match(inside)
        letter = explained[1] if explained else labelled_letter(inside) or option_of_text(inside, options, whole=False)
        if letter:
            return letter
    answer = _LAST_ANSWER.match(text[-_LONGEST_TEXT:])
    return None if answer is None or _lists_another(answer, options) else answer[1].upper()


def _without_format(latex: str) -> str:
    r"""The text in a box without the fonts, sized brackets and spaces of LaTeX around it.

    >>> _without_format(r"\left(\textbf{C}\right)"), _without_format(r"\mathrm{D}")
    ('(C )', 'D')
    """
    if "\\" not in latex and "$" not in latex:
        return latex.strip()
    for _ in range(_MOST_FORMATS):
        latex, replaced = _LATEX_FORMAT.subn(r"\1", latex)
        if not replaced:
            break
    return _LATEX_SPACING.sub(" ", latex).strip()


def _lists_another(answer: re.Match[str], options: Options) -> bool:
    """Whether another option's letter, in the same case, follows the matched one on its line, as in "B or C"."""
    line = answer.string[answer.end() : answer.end() + 100].partition("\n")[0]
    another = _ANOTHER.match(line)
    if another is None or another[1].isupper() != answer[1].isupper():
        return False
    if another[1] == "a" and line[another.end() :].lstrip()[:1].isalpha():
        return False  # the article
    letters = options.letters or frozenset(string.ascii_uppercase) - {"I"}
    return another[1].upper() in letters and another[1].upper() != answer[1].upper()


def choice_as_nemo_gym(text: str) -> str | None:
    r"""Return the last lone capital in the last `\boxed{…}`, up to the first `}`, or else the last `Answer:`.

    >>> choice_as_nemo_gym(r"I say \boxed{B (not C)}.")
    'C'
    """
    text = text.strip()
    if boxes := deque(flat_boxes(text), maxlen=1):
        boxed = boxes[0].strip()
        if len(boxed) == 1 and boxed.isupper():
            return boxed
        if capitals := _CAPITAL.findall(boxed[-_LONGEST:]):
            return str(capitals[-1])
    answer = _LAST_ANSWER_AS_NEMO_GYM.match(text[-_LONGEST_TEXT:])
    return answer[1].upper() if answer else None
