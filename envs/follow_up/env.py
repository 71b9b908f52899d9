"""FollowUp: a conversation of several user turns (NeMo Gym's `example_multi_turn_gymnasium`)."""

from __future__ import annotations

import re

from gym_llm import BaseTask, Episode
from gym_llm.core.compat import NemoCompatible
from gym_llm.types import message_text


class FollowUp(NemoCompatible):
    """The user asks on; the reward is 1.0 if the answer to the last message says the expected one, in whole words.

    Args:
        tasks: See `VerifierEnv`.
        conform: `"nemo"` looks for the expected answer within words and numbers, too, as NeMo Gym does.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("near miss", "all options", "look-alike"),
        "NeMo Gym's rule, of its example: the expected answer has to be said, whatever is said beside it",
    )

    class Task(BaseTask):
        """What the user says next, and what the last answer has to contain."""

        follow_ups: list[str] = []
        expected_answer: str

    def setup(self, task: Task) -> list[str]:
        """The messages still to come, last one first."""
        return task.follow_ups[::-1]

    def user_turn(self, task: Task, episode: Episode) -> str | None:
        """The next follow-up, None after the last."""
        return episode.state.pop() if episode.state else None

    def verify(self, task: Task, episode: Episode) -> float:
        """Whether what was answered to the last message says `expected_answer`, upper and lower case alike."""
        if not task.expected_answer:
            return 0.0  # there is nothing to find, though every answer contains it
        questions = [place for place, item in enumerate(episode.items) if item.get("role") == "user"]
        if len(questions) != len(task.follow_ups):
            return 0.0  # the episode was cut short
        # Not the last turn's text alone: a call beside an answer takes a turn, and the answer still stands.
        items = episode.items[questions[-1] :] if questions else episode.items
        expected = task.expected_answer.casefold()
        if self.conform:
            return float(expected in message_text(items).casefold())
        return float(any(says(message_text([item]).casefold(), expected) for item in items))


def says(text: str, words: str) -> bool:
    """Whether a text has these words as they are: no letters or digits glued to them, no sign, no further decimals.

    >>> [says(text, "9") for text in ("It is 9.", "9%", "19", "9.4", "-9", "1e9")]
    [True, True, False, False, False, False]
    """
    before = r"(?<![-+.\w])" if words[0].isdigit() else r"(?<!\w)"
    return re.search(rf"{before}{re.escape(words)}(?!\w|\.\d)", text) is not None
