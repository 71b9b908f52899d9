r"""RULER v2's rules to compare an answer, written anew, in linear time.

Source of the rules: `resources_servers/ruler2` of https://github.com/NVIDIA-NeMo/Gym.
"""

from __future__ import annotations

import re
from collections import deque

from gym_llm.grading.extraction import last_brace_box
from gym_llm.grading.text_metrics import edit_distance

_DOCUMENT = re.compile(r"Document \d+:")
_FINAL = re.compile("The final answer is (.+)")
_CAPITAL = re.compile(r"\b[A-Z]\b")
_ANSWER = re.compile(r"answer[*_]{0,2}\s*:[\s*_]{0,2}\s*([a-z])(?![a-z0-9])", re.IGNORECASE)
_LETTERS = str.maketrans(
    {
        letter: f" {latin}"
        for letters in ("أبجد", "অবডঢ", "ＡＢＣＤ")
        for letter, latin in zip(letters, "ABCD", strict=True)
    }
)


def soft_match(said: str, reference: str) -> float:
    """1.0 if the reference is in the text, else 1 - word error rate, at least 0.0; both in lower case.

    >>> soft_match("a red fox ran", "red fox"), soft_match("the red box", "a red fox")
    (1.0, 0.33333333333333337)
    """
    if reference in said:
        return 1.0
    words = reference.split()
    said_words = said.split(None, 2 * len(words))
    if not words or len(said_words) > 2 * len(words):  # so many have to go that the error rate is 1 or more
        return 0.0
    return max(0.0, 1 - edit_distance(said_words, words) / len(words))


def without_documents(text: str) -> str:
    r"""Without what stands from each `Document N:` to the next empty line, this included.

    >>> without_documents("Document 1:\nfoxes\n\nred")
    'red'
    """
    kept, position = [], 0
    while (match := _DOCUMENT.search(text, position)) is not None and (end := text.find("\n\n", match.end())) >= 0:
        kept.append(text[position : match.start()])
        position = end + 2
    return "".join(kept) + text[position:]


def last_part(text: str) -> str:
    r"""Return the text after the last empty line."""
    return text[text.rfind("\n\n") + 2 :] if "\n\n" in text else text


def letter_as_nemo_gym(text: str) -> str | None:
    r"""The letter after the last "The final answer is", else in the last box, else after the last "Answer:".

    >>> letter_as_nemo_gym("The final answer is (B)."), letter_as_nemo_gym(r"\boxed{A or B}")
    ('B', 'B')
    """
    finals = deque(_FINAL.finditer(text), maxlen=1)
    choice = finals[0][1] if finals else last_brace_box(text, "\\boxed")
    if choice is not None:
        choice = choice.translate(_LETTERS).strip()
        if len(choice) == 1:
            return choice.upper()
        if capitals := _CAPITAL.findall(choice):
            return str(capitals[-1])
    answers = deque(_ANSWER.finditer(text), maxlen=1)
    return answers[0][1].upper() if answers else None
