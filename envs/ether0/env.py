"""Ether0: chemistry questions whose answers are molecules or names (NeMo Gym's `ether0`)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import LocalPath, Seconds
from gym_llm.envs.ether0.answers import BY_TEXT, MOLECULAR, Solution, answer_in, nemo_answer_in, solution_from
from gym_llm.envs.ether0.molecules import BAD_GROUND_TRUTH, Question, check_libraries, filters_in
from gym_llm.errors import DataError, DeadlinePassed, WorkerDied
from gym_llm.grading.choices import Options, read_choice
from gym_llm.grading.quotations import meant_words
from gym_llm.types import Row


class VerifierMetadata(BaseModel):
    """The reward function with its arguments, and how the question is grouped."""

    model_config = ConfigDict(frozen=True, extra="allow")

    solution: str
    problem_type: str = ""
    ideal: str | None = None
    choices: dict[str, str] = {}

    @field_validator("solution")
    @classmethod
    def _is_gradable(cls, solution: str) -> str:
        if solution_from(solution).function in MOLECULAR:
            check_libraries()
        return solution


class Ether0(NemoCompatible):
    """Answer a question of chemistry, mostly with a SMILES; the reward is 1.0 if it is right by the row's function.

    Details: `extracted_answer`, `eval_function`, `problem_type`, `reason` (`right_answer`, `wrong_answer`,
    `format_failed`, `invalid_mol`, `wrong_formula`, ...).

    Args:
        filters: A folder with `rings.bloom` and `fingerprints.bloom`, as in `src/ether0` of FutureHouse's repository.
            A molecule that is built freely must have only rings and fragments that they know. None to not check that.
        deadline: Seconds of CPU time for an answer's molecules, in a worker process; past them it is worth 0.0.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        ValueError: If an argument is invalid.
        DependencyNotInstalled: If a row needs rdkit, exmol or molbloom, and it is not installed.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The question's reward function and its arguments."""

        verifier_metadata: VerifierMetadata

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        filters: LocalPath | None = None
        deadline: Seconds = 20.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self._filters = None if self.config.filters is None else filters_in(self.config.filters)

    def oracle(self, task: Task) -> str | None:
        """Return the string that is compared, or the row's `ideal`."""
        metadata = task.verifier_metadata
        solution = solution_from(metadata.solution)
        answer = solution.argument if solution.function in BY_TEXT else metadata.ideal
        return None if answer is None else f"<answer>{answer}</answer>"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Find the answer, and run the row's reward function on it."""
        metadata = task.verifier_metadata
        solution = solution_from(metadata.solution)
        answer = nemo_answer_in(episode.text) if self.conform else answer_in(meant_words(episode.text, episode))
        if answer is not None and metadata.choices:
            letter = (
                answer.upper()
                if self.conform
                else read_choice(answer, Options(frozenset(metadata.choices), ()), brief=True)
            )
            answer = metadata.choices.get(letter or "", answer)
        if answer is None:
            right, reason = False, "format_failed"
        elif solution.function in BY_TEXT:
            right = BY_TEXT[solution.function](answer, solution.argument)
            reason = "right_answer" if right else "wrong_answer"
        else:
            reason = await self._compare_molecules(answer, solution)
            right = reason == "right_answer"
        details = {
            "extracted_answer": answer,
            "eval_function": solution.function,
            "problem_type": metadata.problem_type,
            "reason": reason,
        }
        return Verdict(float(right), details)

    async def _compare_molecules(self, answer: str, solution: Solution) -> str:
        pool = shared_pool("gym_llm.envs.ether0.molecules:reason_in_worker", deadline=self.config.deadline)
        question = Question(solution.function, answer, solution.argument, self._filters)
        try:
            reason: str = await pool.call(question)
        except DeadlinePassed:
            return "too_slow"
        except WorkerDied:
            return "invalid_mol"
        if reason == BAD_GROUND_TRUTH:
            raise DataError(f"the right answer of the row has no molecule that counts: {solution.argument[:200]!r}")
        return reason
