"""StructEval: output in a format, with the keys that were asked for (NeMo Gym's `structeval`)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Seconds
from gym_llm.envs.structeval.grading import Question, Scores, is_quick_for, scores_of, steps_of
from gym_llm.errors import DeadlinePassed, WorkerDied


class StructEval(NemoCompatible):
    """Write JSON, YAML, TOML, XML or CSV; the reward is 0.2 if it parses, and up to 0.8 for the paths that are in it.

    Details: `render_score` (1.0 if it parses), `error_type` and `error_message`. `key_validation_score` is the share of
        the
    paths that are in the output, and `raw_output_score` the share that is written somewhere in the answer.

    Args:
        deadline: Seconds of CPU time that a long answer may take, in a worker process; then it does not parse.
        conform: `"nemo"` takes the output out of the answer as NeMo Gym does; the README says what that is.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    metrics = {"render_score": Metric(), "key_validation_score": Metric(), "raw_output_score": Metric()}

    class Task(BaseTask):
        """The format, and the paths that are asked for."""

        output_type: str
        raw_output_metric: list[str]
        task_id: str | None = None
        task_name: str | None = None
        input_type: str | None = None
        rendering: bool = False

        @field_validator("raw_output_metric")
        @classmethod
        def _are_paths(cls, paths: list[str]) -> list[str]:
            for path in paths:
                steps_of(path)
            return paths

        @cached_property
        def steps(self) -> tuple[tuple[str, ...], ...]:
            """The paths, step by step."""
            return tuple(map(steps_of, self.raw_output_metric))

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        deadline: Seconds = 5.0

    config: Config

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Parse the output, and look for the paths."""
        text = episode.text
        if not text or text.isspace():
            return _verdict(task, text, Scores(error_type="empty_response", error_message="No assistant response text"))
        question = Question(task.output_type.lower(), task.steps, self.conform is not None)
        if is_quick_for(question, text):
            return _verdict(task, text, scores_of((question, text)))
        return self._verify_in_worker(task, question, text)

    async def _verify_in_worker(self, task: Task, question: Question, text: str) -> Verdict:
        pool = shared_pool("gym_llm.envs.structeval.grading:scores_of", deadline=self.config.deadline)
        try:
            scores = await pool.call((question, text))
        except (DeadlinePassed, WorkerDied) as error:
            scores = Scores(error_type="parse_error", error_message=f"{type(error).__name__}: {error}")
        return _verdict(task, text, scores)


def _verdict(task: StructEval.Task, text: str, scores: Scores) -> Verdict:
    said, paths = text.lower(), task.raw_output_metric
    written = sum(path.lower() in said for path in paths) / len(paths) if paths else 0.0
    reward = round(0.2 * scores.render_score + 0.8 * scores.key_validation_score, 2)
    return Verdict(
        reward, scores._asdict() | {"raw_output_score": written if scores.error_type != "empty_response" else 0.0}
    )
