"""IFBench: answers in forms that models are not trained for (NeMo Gym's `ifbench`)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.constraints import Followed, GradingMode, Instructions, Job, follow_then, graded, ifbench
from gym_llm.tokens.parsers.thinking import without_cut_thought


class IFBench(NemoCompatible):
    """Answer in the requested form; the reward is the share of the constraints that the answer follows.

    Details: `follow_instruction_list`, `follow_all_instructions`, the same read loosely (`…_loose`), `reward_loose`.

    Args:
        conform: `"nemo"` reads only the last item, as NeMo Gym does; after a tool call the answer is empty.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    metrics = {"reward_loose": Metric()}

    class Task(Instructions, BaseTask):  # type: ignore[misc, no-redef]  # as for `Instructions`
        """The constraints, from IFBench's 58, and the grading mode."""

        registry = ifbench.constraint

        prompt: str = ""
        grading_mode: GradingMode = "fraction"

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Check the answer for each constraint, strictly and loosely."""
        conform = self.conform is not None
        text = episode.last_item_text if conform else without_cut_thought(episode.answer)
        job = Job(text, task.checks, loose=True, conform=conform)
        return follow_then(job, partial(_verdict, task))


def _verdict(task: IFBench.Task, followed: Followed) -> Verdict:
    details = {
        "follow_instruction_list": followed.strict,
        "follow_all_instructions": all(followed.strict),
        "follow_instruction_list_loose": followed.loose,
        "follow_all_instructions_loose": all(followed.loose),
        "reward_loose": graded(followed.loose, task.grading_mode),
    }
    return Verdict(graded(followed.strict, task.grading_mode), details)
