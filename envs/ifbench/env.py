"""IFBench: answers in forms that no model was trained for (NeMo Gym's `ifbench`)."""

from __future__ import annotations

from collections.abc import Awaitable

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.constraints import (
    Followed,
    GradingMode,
    Instructions,
    Job,
    follow_later,
    follow_quickly,
    graded,
    ifbench,
)


class IFBench(NemoCompatible):
    """Answer in the form that is asked for; the reward is the share of the constraints that the answer follows.

    Details: `follow_instruction_list`, `follow_all_instructions`, these as read loosely (`…_loose`), `reward_loose`.

    Args:
        conform: `"nemo"` reads the last item as NeMo Gym does, which is no answer after a tool call.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    metrics = {"reward_loose": Metric()}

    class Task(Instructions, BaseTask):  # type: ignore[misc, no-redef]  # as for `Instructions`
        """The constraints, of IFBench's 58, and what following them is worth."""

        registry = ifbench.constraint

        prompt: str = ""
        grading_mode: GradingMode = "fraction"

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Check the answer for each constraint, as it is and loosely."""
        job = Job(episode.last_item_text if self.conform else episode.answer, task.checks, loose=True)
        followed = follow_quickly(job)
        return self._verify_later(task, job) if followed is None else _verdict(task, followed)

    async def _verify_later(self, task: Task, job: Job) -> Verdict:
        return _verdict(task, await follow_later(job))


def _verdict(task: IFBench.Task, followed: Followed) -> Verdict:
    details = {
        "follow_instruction_list": followed.strict,
        "follow_all_instructions": all(followed.strict),
        "follow_instruction_list_loose": followed.loose,
        "follow_all_instructions_loose": all(followed.loose),
        "reward_loose": graded(followed.loose, task.grading_mode),
    }
    return Verdict(graded(followed.strict, task.grading_mode), details)
