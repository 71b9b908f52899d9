r"""Functions that find the chosen letter in a text by the rules of NeMo Gym's `gpqa_diamond`, in linear time."""

from __future__ import annotations

import re
from collections import deque

from gym_llm.grading.choices import ANY_LETTER, Options, stated_choice
from gym_llm.grading.extraction import flat_boxes

_CAPITAL = re.compile(r"\b[A-Z]\b")
_LAST_ANSWER_AS_NEMO_GYM = re.compile(r".*answer[*_]{0,2}\s*+:[\s*_]{0,2}\s*([a-z])(?![a-z0-9])", re.I | re.S)
_LONGEST = 6_000
_LONGEST_TEXT = 100_000  # the last characters of a text, where an `Answer:` is looked for


def extract_choice(text: str, options: Options) -> str | None:
    r"""Return the option of the last statement: a `\boxed{…}` with its letter or text, an `Answer:`, "the answer is".

    >>> options = Options.read([{"A": "1 s"}, {"B": "2 s"}, {"C": "3 s"}])
    >>> extract_choice(r"I say \boxed{B (not C)}.", options), extract_choice("**Answer:** (b)", options)
    ('B', 'B')
    """
    return stated_choice(text, options if options.letters else ANY_LETTER, within=True)


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
