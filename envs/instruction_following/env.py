"""InstructionFollowing: an answer in a form that can be checked (NeMo Gym's `instruction_following`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.constraints import GradingMode, Instructions, Job, follow_later, follow_quickly, graded, ifevalg

_FIELDS = ("instruction_id_list", "kwargs", "prompt", "grading_mode")


class Metadata(Instructions):  # type: ignore[no-redef]  # as there
    """The constraints of a row, of IFEval's 25 and IFEvalG's 29, and what following them is worth."""

    registry = ifevalg.constraint

    prompt: str = ""
    grading_mode: GradingMode = "binary"


class InstructionFollowing(NemoCompatible):
    """Answer in the form that is asked for: words, marks, sections, letters; the reward is 1.0 if it has all of it.

    Details: `follow_all_instructions`, `follow_instruction_list`.

    Args:
        conform: `"nemo"` reads an answer as NeMo Gym does where it is wrong; the README says where.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The constraints, in `verifier_metadata` or, in old rows, beside it."""

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
        text = episode.last_item_text if self.conform else episode.answer
        job = Job(text, task.verifier_metadata.checks, blank_fails=self.conform is None)
        followed = follow_quickly(job)
        return self._verify_later(task, job) if followed is None else _verdict(task, followed.strict)

    async def _verify_later(self, task: Task, job: Job) -> Verdict:
        return _verdict(task, (await follow_later(job)).strict)


def _verdict(task: InstructionFollowing.Task, followed: list[bool]) -> Verdict:
    details = {"follow_all_instructions": all(followed), "follow_instruction_list": followed}
    return Verdict(graded(followed, task.verifier_metadata.grading_mode), details)
