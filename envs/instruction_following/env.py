"""InstructionFollowing: an answer in a form that can be checked (NeMo Gym's `instruction_following`)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.constraints import Followed, GradingMode, Instructions, Job, follow_then, graded, ifevalg
from gym_llm.tokens.parsers.thinking import without_cut_thought

_FIELDS = ("instruction_id_list", "kwargs", "prompt", "grading_mode")


class Metadata(Instructions):  # type: ignore[no-redef]  # as there
    """The constraints of a row, from IFEval's 25 and IFEvalG's 29, and the grading mode."""

    registry = ifevalg.constraint

    prompt: str = ""
    grading_mode: GradingMode = "binary"


class InstructionFollowing(NemoCompatible):
    """Answer in the requested form (words, marks, sections, letters); the reward is 1.0 if every constraint is met.

    Details: `follow_all_instructions`, `follow_instruction_list`.

    Args:
        conform: `"nemo"` reads an answer as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The constraints, in `verifier_metadata` or, in old rows, at the top level."""

        verifier_metadata: Metadata

        @model_validator(mode="before")
        @classmethod
        def _gathered(cls, row: Any) -> Any:
            metadata = row.get("verifier_metadata")
            if metadata is not None and not isinstance(metadata, dict):
                return row
            beside = {name: row[name] for name in _FIELDS if name in row}
            return {**row, "verifier_metadata": beside | (metadata or {})}

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Check the answer for each constraint."""
        text = episode.last_item_text if self.conform else without_cut_thought(episode.answer)
        conform = self.conform is not None
        job = Job(text, task.verifier_metadata.checks, blank_fails=not conform, conform=conform)
        return follow_then(job, partial(_verdict, task))


def _verdict(task: InstructionFollowing.Task, followed: Followed) -> Verdict:
    details = {"follow_all_instructions": all(followed.strict), "follow_instruction_list": followed.strict}
    return Verdict(graded(followed.strict, task.verifier_metadata.grading_mode), details)
