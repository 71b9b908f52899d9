"""What a verifier says of its own right answers, for `gym-llm env attack`."""

from __future__ import annotations

from typing import Any, ClassVar

from gym_llm.types import Item


class RightAnswers:
    """The hooks of a verifier that an attack asks; no episode does.

    Attributes:
        accepted_findings: What an attack finds and that is meant to be so: the reason, by the check's name or by
            `check/attack`.
    """

    accepted_findings: ClassVar[dict[str, str]] = {}

    def oracle(self, task: Any) -> str | list[Item] | list[list[Item]] | None:
        """What a model that is right would answer: a text, a turn's items, or those of several turns.

        An attack needs it to tell what else is paid like a right answer. None: it tries what the row's `expected_…`
        fields say, in the usual forms.
        """
        return None

    def near_misses(self, task: Any) -> list[str] | None:
        """Answers that look right and are wrong, as whole messages; None: the usual ones."""
        return None
