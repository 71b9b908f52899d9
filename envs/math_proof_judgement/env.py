"""MathProofJudgement: is a proof right? (NeMo Gym's `math_proof_judgement`)."""

from __future__ import annotations

import re
from functools import cached_property

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.quotations import meant_words

_LABEL = re.compile(r"judgement\*{0,2}\s*+:", re.IGNORECASE)
_VERDICT = re.compile(r"[\s*]*+(?:(yes)|no)(?![^\W_])", re.IGNORECASE)
_EITHER = re.compile(
    r"judgement\W{1,8}(?:yes|no)\W{0,8}(?:\b(?:or|and)\b|[/|])\W{0,8}(?:judgement\W{1,8})?(?:yes|no)\b", re.IGNORECASE
)
# NeMo Gym's: a "not sure" begins with a no, and only one run of stars may stand before.
_AS_NEMO_GYM = re.compile(r"\s*+\**+\s*+(?:(yes)|no)", re.IGNORECASE)


class MathProofJudgement(NemoCompatible):
    """Judge a proof, `Judgement: Yes` or `Judgement: No`; the reward is 1.0 if that is right.

    Details: `extracted_judgement` ("Yes", "No" or None); `tp`, `fp`, `fn`, `tn`: 1.0 for what the judgement is.

    Args:
        skills_parity_mode: Whether a judgement within `<think>` counts as well, as in NeMo Skills.
        conform: `"nemo"` reads as NeMo Gym does where we read better; the README says what that is.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    accepted_findings = {
        "near miss": "NeMo Gym's rule: a judgement counts wherever it stands, and what follows its word is not read",
        "all options": "NeMo Gym's rule: a judgement counts wherever it stands, and what follows its word is not read",
    }
    metrics = {
        "tp": Metric("rate", higher_is_better=None),
        "fp": Metric("rate", higher_is_better=False),
        "fn": Metric("rate", higher_is_better=False),
        "tn": Metric("rate", higher_is_better=None),
    }

    class Task(BaseTask):
        """The right judgement, as `Judgement: Yes` or `Judgement: No`; problem and proof are in the prompt."""

        expected_judgement: str
        problem_id: str | None = None
        problem: str | None = None
        proof: str | None = None

        @field_validator("expected_judgement")
        @classmethod
        def _is_one(cls, text: str) -> str:
            if read_judgement(text) is None:
                raise ValueError(f"expected_judgement is 'Judgement: Yes' or 'Judgement: No', got {text[:80]!r}")
            return text

        @cached_property
        def gold(self) -> bool:
            """Whether the proof is right."""
            return read_judgement(self.expected_judgement) is True

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        skills_parity_mode: bool = False

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected judgement."""
        return task.expected_judgement

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the last judgement, in `skills_parity_mode` and with `conform` the first, with the right one."""
        text = episode.messages_text
        if self.conform:
            said = read_judgement(text, _AS_NEMO_GYM, first=True)
        elif self.config.skills_parity_mode:
            said = read_judgement(text, first=True)
        else:
            text = meant_words(text, episode)
            said = read_judgement(_EITHER.sub("Judgement:", text))
        gold = task.gold
        details = {"extracted_judgement": None if said is None else "Yes" if said else "No"}
        cells = {"tp": said is True and gold, "fp": said is True and not gold}
        cells |= {"fn": said is False and gold, "tn": said is False and not gold}
        return Verdict(float(said is gold), details | {name: float(is_so) for name, is_so in cells.items()})


def read_judgement(text: str, verdict: re.Pattern[str] = _VERDICT, *, first: bool = False) -> bool | None:
    """Return the yes or no of the last `Judgement:`, or None.

    Args:
        text: The text without the thinking.
        verdict: The pattern after the colon.
        first: Whether the first judgement counts.

    >>> read_judgement("**Judgement:** **Yes**, it holds."), read_judgement("Judgement: not sure")
    (True, None)
    """
    ends = (label.end() for label in _LABEL.finditer(text))
    end = next(ends, None) if first else max(ends, default=None)
    said = None if end is None else verdict.match(text, end)
    return None if said is None else said[1] is not None
