r"""MathWithJudge: mathematical answers, by the math-verify library first and by a judge where that finds no match.

NeMo Gym's `math_with_judge`; the verifiers of mathematics and physics that differ in what they ask the judge derive
from it.
"""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from gym_llm import Episode, Metric, Verdict
from gym_llm.envs.math_verify.env import MathVerify
from gym_llm.grading.answers import boxed_answer
from gym_llm.grading.extraction import last_brace_box
from gym_llm.judge import FAILS, JudgedEnv, Judgement, labels
from gym_llm.types import Row


class MathWithJudge(MathVerify, JudgedEnv):
    r"""Answer a question of mathematics; 1.0 if math-verify finds it equal to the expected answer, or a judge does.

    The judge compares the two answers twice, in both orders, and must find them equal both times. Details:
    `library_reward`, `judge_evaluations` (None without a judge) and those of `MathVerify`.

    Args:
        should_use_judge: Whether to ask a judge if the library finds no match; None: if a judge is given.
        library_verifier_timeout_seconds: The library's deadline, as `deadline` of `MathVerify`.
        **kwargs: As for every `JudgedEnv`, and `workers` of `MathVerify`.

    Raises:
        ValueError: If an argument is invalid, or a required judge is not given.
    """

    reverify_mode = "stateless"
    judge_required = False
    needs_box = True
    """Whether NeMo Gym's server verifies nothing without a complete last box."""
    metrics = {**MathVerify.metrics, "library_reward": Metric()}

    class Task(MathVerify.Task):
        """The question, as the judge is to see it, and the expected answer."""

        question: str

        @field_validator("expected_answer")
        @classmethod
        def _readable(cls, answer: str) -> str:
            return answer  # a judge can compare what the library cannot read

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        should_use_judge: bool | None = None,
        library_verifier_timeout_seconds: float = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks, **{"deadline": library_verifier_timeout_seconds, **kwargs})
        if should_use_judge and self.judge is None:
            raise ValueError(f'should_use_judge needs a judge for {type(self).__name__}: judge="http://HOST:PORT/v1".')
        if self.conform:
            self.grader = "gym_llm.envs.math_verify.grading:grade_as_nemo_gym"
        self.should_use_judge = self.judge is not None if should_use_judge is None else should_use_judge

    async def verify(self, task: Any, episode: Episode) -> Verdict:
        """Compare with the library, then by the judge."""
        if self.conform and self.needs_box and not (last_brace_box(episode.answer) or "").strip():
            return Verdict(0.0, {"extracted_answer": None, "library_reward": 0.0, "judge_evaluations": None})
        verdict = await super().verify(task, episode)
        verdict.info["library_reward"] = verdict.reward
        is_asked = verdict.reward < 0.5 and self.should_use_judge
        if is_asked and (self.conform or self.text_of(episode)):
            verdict.reward = float(await self.judge_answer(task, episode, verdict))
        elif not is_asked:
            verdict.info["judge_evaluations"] = None
        return verdict

    async def grade(self, task: Any, text: str) -> tuple[bool, str | None]:
        """Compare as `MathVerify` does; an expected answer that cannot be read is left to the judge."""
        if self.should_use_judge and not self.conform and task.reading is None:
            return False, boxed_answer(text)
        return await super().grade(task, text)

    async def judge_answer(self, task: Any, episode: Episode, verdict: Verdict) -> bool:
        """Ask the judge whether the answer is right; details may go into the verdict."""
        extracted = verdict.info["extracted_answer"]
        text = self.text_of(episode)
        boxed = (last_brace_box if self.conform else boxed_answer)(text)  # the library cuts sets apart
        values = {
            "question": task.question,
            "first_answer": task.expected_answer,
            "second_answer": boxed or extracted or text,
        }
        parse = labels("[[A=B]]", "[[A!=B]]", conform=bool(self.conform))
        return (await self.decide(values, parse, swap=("first_answer", "second_answer"))).value

    async def decide(self, values: dict[str, Any], parse: Any, **options: Any) -> Judgement:
        """Ask the judge; as NeMo Gym does it, a verdict that cannot be read is a no."""
        return await self.ask(values, parse, unparsable=False if self.conform else FAILS, **options)
