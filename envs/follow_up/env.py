"""FollowUp: a conversation of several user turns (NeMo Gym's `example_multi_turn_gymnasium`)."""

from __future__ import annotations

import re

from gym_llm import BaseTask, Episode
from gym_llm.core.compat import NemoCompatible
from gym_llm.tokens.parsers.thinking import without_cut_thought
from gym_llm.types import message_text


class FollowUp(NemoCompatible):
    """Answer the user's follow-ups; the reward is 1.0 if the last answer has the expected one in it, as whole words.

    Args:
        tasks: See `VerifierEnv`.
        conform: `"nemo"` also finds the expected answer inside words and numbers, as NeMo Gym does.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("near miss", "all options", "look-alike"),
        "NeMo Gym's rule: the last answer has to contain the expected one, whatever else it says",
    )

    class Task(BaseTask):
        """The user's next messages, and the text that the last answer has to contain."""

        follow_ups: list[str] = []
        expected_answer: str

    def setup(self, task: Task) -> list[str]:
        """Return the messages still to come, last one first."""
        return task.follow_ups[::-1]

    def user_turn(self, task: Task, episode: Episode) -> str | None:
        """Return the next follow-up, None after the last."""
        return episode.state.pop() if episode.state else None

    def oracle(self, task: Task) -> str | None:
        """Return the expected answer, to be given to every message; None if it is empty."""
        return task.expected_answer or None

    def verify(self, task: Task, episode: Episode) -> float:
        """Look for `expected_answer` in the answer to the last message, in upper or lower case."""
        if not task.expected_answer:
            return 0.0  # every answer contains the empty text
        questions = [place for place, item in enumerate(episode.items) if item.get("role") == "user"]
        if len(questions) != len(task.follow_ups):
            return 0.0  # the episode was cut short
        # Not the last turn's text alone: a call beside an answer takes a turn, and the answer still stands.
        items = episode.items[questions[-1] :] if questions else episode.items
        expected = task.expected_answer.casefold()
        if self.conform:
            return float(expected in message_text(items).casefold())
        return float(any(says(without_cut_thought(message_text([item])).casefold(), expected) for item in items))


def says(text: str, words: str) -> bool:
    """Return whether a text has these words alone: without letters or digits beside them, a sign or more decimals.

    >>> [says(text, "9") for text in ("It is 9.", "9%", "19", "9.4", "-9", "1e9")]
    [True, True, False, False, False, False]
    """
    before = r"(?<![-+.\w])" if words[0].isdigit() else r"(?<!\w)"
    return re.search(rf"{before}{re.escape(words)}(?!\w|\.\d)", text) is not None
