"""SWERLJudge: which of several patches mends an issue (NeMo Gym's `swerl_llm_judge`; no judge takes part)."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from pydantic import field_validator, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.multiple_choice.grading import Options
from gym_llm.grading.denials import is_doubted
from gym_llm.grading.quotations import meant_words

_STRICT = re.compile(r"<solution>\s*+(?:\[\s*+)?([A-Za-z])\s*+(?:\]\s*+)?</solution>")
_STRICT_OF_NEMO_GYM = re.compile(r"<solution>\s*+\[?([A-Za-z])\]?\s*+</solution>")
_TAG = re.compile("<solution>", re.IGNORECASE)
_CLOSING_TAG = re.compile("</solution>", re.IGNORECASE)
_OPENING = re.compile(r".*<solution>", re.IGNORECASE | re.DOTALL)  # greedy: the last one
_CLOSING = re.compile(r".*</solution>", re.IGNORECASE | re.DOTALL)
_LONE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_ONLY_LETTER = re.compile(r"[^A-Za-z]*([A-Za-z])[^A-Za-z]*")
_LONGEST = 6_000


class SWERLJudge(NemoCompatible):
    """Choose the right patch by its letter, in `<solution>`; the reward is 1.0 for it. Details: `extracted_answer`.

    Args:
        conform: `"nemo"` reads as NeMo Gym does where we read better; the README says what that is.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The patches as dicts from a letter to a diff, the right letter or letters, and how strictly to read."""

        options: list[dict[str, str | None]]
        expected_answer: str | list[str]
        grading_mode: Literal["lenient", "strict"] = "lenient"
        instance_id: str | None = None

        @field_validator("expected_answer")
        @classmethod
        def _letters(cls, answer: str | list[str]) -> str | list[str]:
            return answer.strip().upper() if isinstance(answer, str) else [letter.strip().upper() for letter in answer]

        @model_validator(mode="after")
        def _answerable(self) -> SWERLJudge.Task:
            if not self.golds:
                names = ", ".join(sorted(self.letters)) or "none"
                raise ValueError(f"expected_answer {self.expected_answer!r} is not the letter of an option ({names})")
            return self

        @cached_property
        def letters(self) -> frozenset[str]:
            """The letters that can be chosen."""
            return Options.read(self.options).letters

        @cached_property
        def golds(self) -> frozenset[str]:
            """Those of them that are right."""
            answer = self.expected_answer
            return self.letters & {*([answer] if isinstance(answer, str) else answer)}

    def oracle(self, task: Task) -> str:
        """Return a right letter in its tags."""
        return f"<solution>{min(task.golds)}</solution>"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the letter in the solution with the right ones."""
        text = episode.messages_text
        text = text if self.conform else meant_words(text, episode)
        if task.grading_mode == "strict":
            found = list((_STRICT_OF_NEMO_GYM if self.conform else _STRICT).finditer(text))
            last = found[0 if self.conform else -1] if found else None
            is_chosen = last is not None and (bool(self.conform) or not is_doubted(text, last.start()))
            choice = last[1].upper() if last is not None and is_chosen else None
        else:
            choice = first_lone_letter(text) if self.conform else lenient_choice(text, task.letters)
        choice = choice if choice in task.letters else None
        return Verdict(float(choice in task.golds), {"extracted_answer": choice})


def first_lone_letter(text: str) -> str | None:
    """The first letter that stands alone in the last `<solution>`, as NeMo Gym reads: the "a" of "a better fix".

    >>> first_lone_letter("<solution>C <solution>B</solution>")
    'C'
    """
    inside, position = "", 0
    while (opening := _TAG.search(text, position)) and (closing := _CLOSING_TAG.search(text, opening.end())):
        inside, position = text[opening.end() : closing.start()].strip()[:_LONGEST], closing.end()
    padded = f" {inside} "
    for before, character, after in zip(padded, inside, padded[2:], strict=False):
        if character.isalpha() and not before.isalpha() and not after.isalpha():
            return character.upper()
    return None


def lenient_choice(text: str, letters: frozenset[str]) -> str | None:
    """The letter in the last `<solution>`: the only one, else the one option's that stands alone as a capital.

    Args:
        text: What the model wrote.
        letters: Of the options.

    >>> lenient_choice("<solution>a fix like B</solution>", frozenset("AB"))
    'B'
    """
    closing = _CLOSING.match(text)
    end = closing.end() - len("</solution>") if closing else -1
    opening = _OPENING.match(text, 0, max(end, 0))
    if closing is None or opening is None or is_doubted(text, opening.end() - len("<solution>")):
        return None
    inside = text[opening.end() : end][:_LONGEST]
    alone: list[str] = _LONE_LETTER.findall(inside)
    if _ONLY_LETTER.fullmatch(inside):
        return alone[0].upper() if alone else None
    capitals = letters.intersection(alone)
    return next(iter(capitals)) if len(capitals) == 1 else None
