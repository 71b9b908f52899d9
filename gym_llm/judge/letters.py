"""LetterGraded: verifiers whose judge grades an answer with a letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from gym_llm.core.tasks import BaseTask
from gym_llm.judge.judged_env import FAILS, JudgedEnv
from gym_llm.judge.letter_verdicts import letter
from gym_llm.judge.verdicts import Parser
from gym_llm.types import Episode


class LetterGraded(JudgedEnv):
    """Asks a judge for a letter that stands for a verdict.

    Attributes:
        verdicts: What each letter means, e.g. `{"A": "correct"}`.
        words: What stands for a letter where the judge writes words, e.g. `{"INCORRECT": "B"}`.
        fallback: With `conform`: the letter of a judge whose grade cannot be read.
        first_characters: Whether NeMo Gym takes a text's first character for its grade, of whatever word that is.
    """

    verdicts: ClassVar[dict[str, str]]
    words: ClassVar[dict[str, str]]
    fallback: ClassVar[str] = "B"
    first_characters: ClassVar[bool] = False

    class Task(BaseTask):
        """The question, if it is not the request's last message."""

        question: str | None = None

        def question_in(self, episode: Episode) -> str:
            """Return the question."""
            return episode.question if self.question is None else self.question

    async def grade(self, values: Mapping[str, Any]) -> tuple[str, str]:
        """Return the verdict on an answer, and the judge's text; the judge never sees an empty answer.

        Args:
            values: What the prompt has places for; the last value is the answer.

        Raises:
            JudgeError: If the grade cannot be read; with `conform` only if the judge says nothing.
        """
        *_, answer = values.values()
        if not self.conform and not answer.strip():
            none = "not_attempted"
            return none if none in self.verdicts.values() else self.verdicts[self.fallback], ""
        letters = "".join(self.verdicts)
        parse = nemo_letter(letters, self.first_characters) if self.conform else _parser(type(self))
        judgement = await self.ask(values, parse, unparsable=self.fallback if self.conform else FAILS, empty_fails=True)
        return self.verdicts[judgement.value], judgement.text

    def flags(self, verdict: str) -> dict[str, float]:
        """1.0 for the verdict and 0.0 for all others: `is_correct` and so on."""
        return {f"is_{name}": float(name == verdict) for name in self.verdicts.values()}


def _parser(env: type[LetterGraded]) -> Parser:
    if env not in _parsers:
        _parsers[env] = letter("".join(env.verdicts), env.words)
    return _parsers[env]


_parsers: WeakKeyDictionary[type[LetterGraded], Parser] = WeakKeyDictionary()


def nemo_letter(letters: str, first_characters: bool) -> Parser:
    """NeMo Gym's reading of a grade, which takes any letter of any word: `CORRECT` is a C.

    Args:
        letters: The grades.
        first_characters: Whether the first character of the text, or of its last line, is enough; else all of it.

    >>> parse = nemo_letter("ABC", first_characters=True)
    >>> parse("Answer: B"), parse("CORRECT")
    ('A', 'C')
    """

    def parse(text: str) -> str | None:
        text = text.strip()
        for whole in (text, text[text.rfind("\n") + 1 :].strip()):
            if (grade := whole[:1] if first_characters else whole) and grade in tuple(letters):
                return grade
        return next((grade for grade in letters if grade in text), None)

    return parse
