"""CompetitiveCoding: olympiad problems with subtasks and checkers (NeMo Gym's `competitive_coding_challenges`)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.env_config import LocalPath
from gym_llm.envs.competitive_coding.grading import Grader, NemoGrader, find_program
from gym_llm.envs.competitive_coding.problems import Problem, ProblemFile
from gym_llm.errors import DataError
from gym_llm.sandbox.languages import language as language_of
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.sandbox.shared import compiler_for

_TIME_LIMIT = 10.0
_ROUNDING = 1e-9
_LONG = 300.0  # total seconds of a problem's tests, above which NeMo Gym halves the scale


def _known_language(name: str) -> str:
    return name if name == "auto" else language_of(name).name


class CompetitiveCoding(SandboxedEnv):
    """Write a program; the reward is 1.0 if it reaches the subtask's score, or the share of the tests that it passes.

    Details: `name`, `subtask`, `language`, `extracted_model_code`, `num_tests_run`, and `test_case_results` by subtask:
    `score`, and `test_name`, `test_group`, `score` and `status` of each test that ran. `error` and `compile_error`
    explain why no test ran.

    Args:
        test_file: A JSON Lines file or a folder of problems, for rows without a `problem`.
        reward_mode: `"binary"`: 1.0 if the row's subtask, or all subtasks, reach their scores. `"fraction"`: the share
            of passed tests.
        time_scale: The factor of all time limits, at most 1000.
        language: The language of answers; `"auto"` takes C++ or Python from the tag of the block.
        **kwargs: As for every `SandboxedEnv`.
    """

    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("near miss/letters before", "near miss/letters after"), "text outside a block of code is ignored"
    )

    class Task(BaseTask):
        """The problem and the subtask that counts."""

        problem_id: str
        competition_id: str | None = None
        name: str = ""
        subtask: str | None = None
        subtask_score: float | None = None
        total_time: float | None = None
        solution: str | None = None
        problem: Problem | None = None

        @model_validator(mode="after")
        def _has_its_subtask(self) -> CompetitiveCoding.Task:
            if self.problem is not None:
                self.subtasks(self.problem)
            return self

        def subtasks(self, problem: Problem) -> list[str]:
            """Return the names of the subtasks that count."""
            if self.subtask is None:
                return list(problem.scored)
            if self.subtask not in problem.scored:
                raise ValueError(f"subtask {self.subtask!r} is not one of {', '.join(problem.scored)}")
            return [self.subtask]

    class Config(SandboxedEnv.Config):
        """The problems, the score and the language."""

        test_file: LocalPath | None = None
        reward_mode: Literal["binary", "fraction"] = "binary"
        time_scale: float = Field(2.0, gt=0, le=1000)
        language: Annotated[str, AfterValidator(_known_language)] = "auto"

    config: Config

    async def setup(self, task: Task) -> None:
        """Raise a `DataError` if the row's problem is missing."""
        if task.problem is None:
            (await self._problems()).place(task.problem_id, task.competition_id)

    def oracle(self, task: Task) -> str | None:
        """Return the row's solution, if it has one."""
        return task.solution

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compile the program and run it on the tests."""
        problem = task.problem
        if problem is None:
            read = (await self._problems()).read
            problem = await asyncio.to_thread(read, task.problem_id, task.competition_id)
        names, config = task.subtasks(problem), self.config
        found = find_program(episode.messages_text, config.language, whole=self.conform is not None)
        details: dict[str, Any] = {"name": task.name, "subtask": task.subtask or ""}
        if found is None or not found[1].strip():
            return Verdict(0.0, {**details, "num_tests_run": 0, "error": "there is no program in the answer"})
        name, code = found
        details |= {"language": name, "extracted_model_code": code}
        scale = config.time_scale / 2 if (task.total_time or 0) > _LONG else config.time_scale
        limits = self.limits((problem.seconds or _TIME_LIMIT) * scale)
        kind = NemoGrader if self.conform else Grader
        grader = kind(problem, task.problem_id, limits, at_a_time=config.num_processes)
        error = await grader.compile(await compiler_for(self, name, config.sandbox), name, code)
        if error is not None:
            details |= {"error": "it cannot be compiled", "compile_error": error.output}
            return Verdict(0.0, {**details, "num_tests_run": 0})
        if (checker := problem.own_checker) is not None:
            await grader.compile_checker(await compiler_for(self, checker.language, config.sandbox), checker)
        scores = await grader.grade(names, every_test=config.reward_mode == "fraction")
        details |= {"test_case_results": grader.report(scores), "num_tests_run": len(grader.graded)}
        if config.reward_mode == "fraction":
            passed = sum(graded.score >= 1 for graded in grader.graded.values())
            return Verdict(passed / len(grader.graded), details)
        most = sum(problem.scored[name].score for name in names)
        if task.subtask is not None and task.subtask_score is not None:
            most = task.subtask_score
        if most <= 0:
            raise DataError(f"{task.problem_id}: every answer reaches a score of 0. Give the subtask a score above 0.")
        return Verdict(float(sum(scores.values()) >= most - _ROUNDING), details)

    async def _problems(self) -> ProblemFile:
        path = self.config.test_file
        if path is None:
            raise DataError("The row has no problem, and there is no test_file. Give one of them.")
        problems: ProblemFile = await self.shared(["problems", path], lambda: asyncio.to_thread(ProblemFile, path))
        return problems
