"""WMTTranslation: a sentence translated, scored by its characters (NeMo Gym's `wmt_translation`)."""

from __future__ import annotations

from typing import Any

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Seconds
from gym_llm.envs.wmt_translation.grading import MOST_INLINE, check_sacrebleu, chrf, without_reasoning
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.types import Row


class WMTTranslation(NemoCompatible):
    """Translate a text; the reward is its chrF to the reference translation, 0 to 1.

    Details: `generation` (what was scored), `sentence_chrf` (0 to 100).

    Args:
        strip_reasoning: Whether all before the last `</think>` is left out, and a `<think>` that is not closed leaves
            nothing.
        deadline: Seconds of processor time for scoring a very long answer; past them it is worth 0.0.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        ValueError: If an argument makes no sense.
        DependencyNotInstalled: Without sacrebleu.
    """

    reverify_mode = "stateless"
    metrics = {"sentence_chrf": Metric()}

    class Task(BaseTask):
        """The source text, its reference translation, and both languages."""

        translation: str
        text: str = ""
        source_language: str | None = None
        target_language: str | None = None

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        strip_reasoning: bool = True
        deadline: Seconds = 10.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        check_sacrebleu()
        super().__init__(tasks, **kwargs)

    def oracle(self, task: Task) -> str:
        """The reference itself."""
        return task.translation

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the answer's pieces of one to six characters with the reference's."""
        text = episode.text
        generation = (without_reasoning(text) if self.config.strip_reasoning else text).strip()
        if len(generation) + len(task.translation) <= MOST_INLINE:
            score = chrf(generation, task.translation)
        else:
            pool = shared_pool("gym_llm.envs.wmt_translation.grading:chrf_of", deadline=self.config.deadline)
            try:
                score = await pool.call((generation, task.translation))
            except (DeadlinePassed, WorkerDied):
                score = 0.0
        return Verdict(score / 100, {"generation": generation, "sentence_chrf": score})
