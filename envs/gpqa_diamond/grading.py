r"""Functions that find the chosen letter in a text by the rules of NeMo Gym's `gpqa_diamond`, in linear time."""

from __future__ import annotations

import re
from collections import deque

from gym_llm.envs.multiple_choice.grading import Options, labelled_letter, option_of_text, unwrapped
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.extraction import flat_boxes

_CAPITAL = re.compile(r"\b[A-Z]\b")
_EXPLAINED = re.compile(r"\(?([A-Z])\)?\s*\(")
# Greedy up to the last `answer`, and as short as possible after it, so that no text takes quadratic time.
_LAST_ANSWER = re.compile(r".*\banswer[*_]{0,2}\s*+:[\s*_(\[$]*+(?:\\text\s*+\{)?([a-z])(?![a-z0-9])", re.I | re.S)
_LAST_ANSWER_AS_NEMO_GYM = re.compile(r".*answer[*_]{0,2}\s*+:[\s*_]{0,2}\s*([a-z])(?![a-z0-9])", re.I | re.S)
_LONGEST = 6_000
_LONGEST_TEXT = 100_000  # the last characters of a text, where an `Answer:` is looked for


def extract_choice(text: str, options: Options) -> str | None:
    r"""Return the letter in the last `\boxed{…}`: alone, as a label, or explained in brackets; or its option's text.

    Without a choice in a box, the letter after the last `Answer:` counts, in upper or lower case.

    >>> options = Options.read([{"A": "1 s"}, {"B": "2 s"}, {"C": "3 s"}])
    >>> extract_choice(r"I say \boxed{B (not C)}.", options), extract_choice("**Answer:** (b)", options)
    ('B', 'B')
    """
    boxed = last_boxed(text)
    if boxed is not None and (inside := unwrapped(boxed[:_LONGEST])):
        explained = _EXPLAINED.match(inside)
        letter = explained[1] if explained else labelled_letter(inside) or option_of_text(inside, options, whole=False)
        if letter:
            return letter
    answer = _LAST_ANSWER.match(text[-_LONGEST_TEXT:])
    return answer[1].upper() if answer else None


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
