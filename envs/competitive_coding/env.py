"""CompetitiveCoding: problems of olympiads, with subtasks and checkers (NeMo Gym's `competitive_coding_challenges`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Literal

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.envs.competitive_coding.grading import Grader, find_program
from gym_llm.envs.competitive_coding.problems import Problem, ProblemFile
from gym_llm.errors import DataError
from gym_llm.sandbox.languages import language as language_of
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.sandbox.shared import compiler_for
from gym_llm.types import Row

_TIME_LIMIT = 10.0
_ROUNDING = 1e-9
_LONG = 300.0  # seconds that a problem's tests take together, above which NeMo Gym halves the scale


class CompetitiveCoding(SandboxedEnv):
    """Write a program; the reward is whether it reaches the subtask's score, or the share of tests that it passes.

    Details: `name`, `subtask`, `language`, `extracted_model_code`, `test_case_results` (by subtask: `score`, and of
    each test that was run `test_name`, `test_group`, `score`, `status`), `num_tests_run`; `error` where nothing was
    run, with `compile_error`.

    Args:
        test_file: A JSON Lines file or a folder of problems, for rows without a `problem` of their own.
        reward_mode: `"binary"`: 1.0 if the row's subtask, or all of them, reach their scores; `"fraction"`: the share
            of the tests that are passed.
        time_scale: What time limits are multiplied by.
        language: `"auto"`, C++ or Python as the answer's block says; or the one language that answers are in.
        **kwargs: As for every `SandboxedEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    accepted_findings = {
        "near miss/letters before": "what is said beside a block of code is not read",
        "near miss/letters after": "what is said beside a block of code is not read",
    }

    class Task(BaseTask):
        """The problem, and which part of it counts."""

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
            """The names of what counts."""
            if self.subtask is None:
                return list(problem.scored)
            if self.subtask not in problem.scored:
                raise ValueError(f"subtask {self.subtask!r} is none of {', '.join(problem.scored)}")
            return [self.subtask]

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        test_file: str | None = None,
        reward_mode: Literal["binary", "fraction"] = "binary",
        time_scale: float = 2.0,
        language: str = "auto",
        **kwargs: Any,
    ) -> None:
        if reward_mode not in ("binary", "fraction"):
            raise ValueError(f"reward_mode is 'binary' or 'fraction', got {reward_mode!r}.")
        if not isinstance(time_scale, int | float) or not 0 < time_scale <= 1000:
            raise ValueError(f"time_scale is a number above 0, 1000 at most; got {time_scale!r}.")
        super().__init__(tasks, **kwargs)
        self.test_file = test_file
        self.reward_mode = reward_mode
        self.time_scale = time_scale
        self.language = language if language == "auto" else language_of(language).name

    def setup(self, task: Task) -> Awaitable[None] | None:
        """See that there is such a problem."""
        return None if task.problem is not None else self._find(task)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compile the program and run it on the tests."""
        problem = task.problem
        if problem is None:
            read = (await self._problems()).read
            problem = await asyncio.to_thread(read, task.problem_id, task.competition_id)
        names = task.subtasks(problem)
        found = find_program(episode.messages_text, self.language, whole=self.conform is not None)
        details: dict[str, Any] = {"name": task.name, "subtask": task.subtask or ""}
        if found is None or not found[1].strip():
            return Verdict(0.0, {**details, "num_tests_run": 0, "error": "there is no program in the answer"})
        name, code = found
        details |= {"language": name, "extracted_model_code": code}
        scale = self.time_scale / 2 if (task.total_time or 0) > _LONG else self.time_scale
        grader = Grader(
            problem,
            task.problem_id,
            self.limits((problem.seconds or _TIME_LIMIT) * scale),
            conform=self.conform is not None,
            at_a_time=self.config.num_processes,
        )
        error = await grader.compile(await compiler_for(self, name, self.config.sandbox), name, code)
        if error is not None:
            details |= {"error": "it cannot be compiled", "compile_error": error.output}
            return Verdict(0.0, {**details, "num_tests_run": 0})
        if (checker := problem.own_checker) is not None:
            await grader.compile_checker(await compiler_for(self, checker.language, self.config.sandbox), checker)
        scores = await grader.grade(names, every_test=self.reward_mode == "fraction")
        details |= {"test_case_results": grader.report(scores), "num_tests_run": len(grader.graded)}
        if self.reward_mode == "fraction":
            passed = sum(graded.score >= 1 for graded in grader.graded.values())
            return Verdict(passed / len(grader.graded), details)
        most = sum(problem.scored[name].score for name in names)
        if task.subtask is not None and task.subtask_score is not None:
            most = task.subtask_score
        if most <= 0:
            raise DataError(f"{task.problem_id}: its subtasks are worth nothing, so that every answer reaches that.")
        return Verdict(float(sum(scores.values()) >= most - _ROUNDING), details)

    def oracle(self, task: Task) -> str | None:
        """The row's right answer."""
        return task.solution

    async def _find(self, task: Task) -> None:
        (await self._problems()).check(task.problem_id, task.competition_id)

    async def _problems(self) -> ProblemFile:
        path = self.test_file
        if path is None:
            raise DataError("the row has no problem, and there is no test_file to look it up in")
        problems: ProblemFile = await self.shared(["problems", path], lambda: asyncio.to_thread(ProblemFile, path))
        return problems
