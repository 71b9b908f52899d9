"""MTBench: open questions of two turns, each rated from 1 to 10 by a judge (Zheng et al. 2023)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.judge import JudgedEnv, meant_match
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Item, message_text

LEAST, MOST = 1.0, 10.0
"""The ends of the judge's scale."""

_RATING = re.compile(r"\[\[\s{0,3}([0-9]{1,4}(?:[.,][0-9]{1,4})?)\s{0,3}\]\]")

Two = Annotated[list[str], Field(min_length=2, max_length=2)]


class MTBench(JudgedEnv):
    """Answer a question and its follow-up; the reward is the mean of a judge's two ratings, 0.0 for 1 and 1.0 for 10.

    Details: `rating` (the mean, from 1 to 10), `rating_turn_1`, `rating_turn_2`, `category`.

    Args:
        **kwargs: As for every `JudgedEnv`.
    """

    dry_run_kwargs = {"judge": "constant:Rating: [[10]]"}
    judge_thinks = True
    reverify_mode = "stateless"
    metrics = {"rating": Metric(), "rating_turn_1": Metric(), "rating_turn_2": Metric()}

    class Task(BaseTask):
        """The user's two messages, and perhaps an answer to each that the judge compares with."""

        turns: Two
        category: str
        reference: Two | None = None
        question_id: int | str | None = None

    def user_turn(self, task: Task, episode: Episode) -> str | None:
        """Return the second message after the first answer, None after the second answer."""
        return task.turns[1] if _second_message(episode) is None else None

    def oracle(self, task: Task) -> list[list[Item]] | None:
        """Return the reference's answers, if the row has both."""
        if task.reference is None or not all(task.reference):
            return None
        return [[{"type": "message", "role": "assistant", "content": text}] for text in task.reference]

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Have each answer rated; a missing one gets the lowest rating, and the judge is not asked."""
        said = answers(episode)
        shown = dict(zip(("question_1", "question_2", "answer_1", "answer_2"), (*task.turns, *said), strict=True))
        names = ["first_turn", "second_turn"]
        if task.reference is not None:
            shown |= {"reference_1": task.reference[0], "reference_2": task.reference[1]}
            names = [f"{name}_reference" for name in names]
        asked = [self.prompt(name).messages(shown) for name, answer in zip(names, said, strict=True) if answer]
        judgements = iter(await self.ask_each(asked, last_rating))
        first, second = [float(next(judgements).value) if answer else LEAST for answer in said]
        rating = (first + second) / 2
        details = {
            "rating": rating,
            "rating_turn_1": first,
            "rating_turn_2": second,
            "category": task.category,
        }
        return Verdict((rating - LEAST) / (MOST - LEAST), details)


def answers(episode: Episode) -> tuple[str, str]:
    """Return the answers to the two messages, without thinking; "" for one that was not given."""
    place = _second_message(episode)
    place = len(episode.items) if place is None else place
    first, second = episode.items[:place], episode.items[place:]
    return strip_thinking(message_text(first)), strip_thinking(message_text(second))


def last_rating(text: str) -> float | None:
    """Return the last number in double brackets, if it is from 1 to 10.

    >>> last_rating("Not [[9]]. Rating: [[7.5]]"), last_rating("[7]"), last_rating("[[9]], or [[11]]")
    (7.5, None, None)
    """
    last = meant_match(_RATING, text)
    rating = float(last[1].replace(",", ".")) if last else 0.0
    return rating if LEAST <= rating <= MOST else None


def _second_message(episode: Episode) -> int | None:
    return next((place for place, item in enumerate(episode.items) if item.get("role") == "user"), None)
