"""ProofGenSelect: which of two proofs is better (NeMo Gym's `proof_genselect`)."""

from __future__ import annotations

from typing import Literal

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.denials import is_doubted
from gym_llm.grading.quotations import meant_words

_OPENING, _CLOSING = "<best_solution>", "</best_solution>"
_LONGEST = 20  # characters of a choice, white space not counted
_END_OF_THINKING = "</think>"


class ProofGenSelect(NemoCompatible):
    """Say which proof is better, `<best_solution>1</best_solution>` or 2; the reward is 1.0 for the right one.

    Details: `predicted_index`, 1, 2 or None.

    Args:
        assert_think_end: Whether an answer without `</think>` is worth 0.0, whatever it says: for models whose thinking
            stays in the text.
        conform: `"nemo"` takes the first choice, as NeMo Gym does; else it is the last.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    metrics = {"no_answer": Metric("rate", higher_is_better=False)}

    class Task(BaseTask):
        """Which proof is the better one; the problem and both proofs are in the prompt."""

        correct_index: Literal[1, 2]
        problem: str | None = None
        proof_1: str | None = None
        proof_2: str | None = None
        score_1: float | None = None
        score_2: float | None = None

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        assert_think_end: bool = False

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the number of the better proof in its tags."""
        return f"{_OPENING}{task.correct_index}{_CLOSING}"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the choice after the thinking with the right one."""
        _, tag, text = episode.text.rpartition(_END_OF_THINKING)
        text = text if self.conform else meant_words(text, episode)
        choice = read_choice(text, first=self.conform is not None) if tag or not self.config.assert_think_end else None
        details = {"predicted_index": choice, "no_answer": choice is None}
        return Verdict(float(choice == task.correct_index), details)


def read_choice(text: str, *, first: bool = False) -> int | None:
    """The number in the last tags, or the first: 1 or 2; None if these hold something else, whatever others hold.

    >>> read_choice("<best_solution> 2 </best_solution>"), read_choice("<best_solution>proof 2</best_solution>")
    (2, None)
    """
    if first:
        _, opening, rest = text.partition(_OPENING)
    else:
        before, opening, rest = text.rpartition(_CLOSING)[0].rpartition(_OPENING)
        rest += _CLOSING
        if is_doubted(before, len(before)):
            return None
    if not opening or _CLOSING not in text:
        return None
    inside = rest.partition(_CLOSING)[0].strip()
    try:
        choice = int(inside) if len(inside) <= _LONGEST else None
    except ValueError:
        return None
    return choice if choice in (1, 2) else None
