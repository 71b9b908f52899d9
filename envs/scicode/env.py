"""SciCode: a problem of science, solved in code step by step (NeMo Gym's `scicode`)."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

from gym_llm import Episode, Verdict
from gym_llm.core.env_config import LocalPath, Seconds
from gym_llm.envs.scicode.dialogue import imported, question, turns
from gym_llm.envs.scicode.grading import failure
from gym_llm.envs.scicode.problem import Problem, Step
from gym_llm.envs.scicode.targets import Targets, read_targets
from gym_llm.errors import DataError
from gym_llm.grading.extraction import PYTHON, last_fence, python_code
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.types import Item


class SciCode(SandboxedEnv):
    """Write a function in each turn; 1.0 if all pass their tests, each with those before it.

    Details: `step_results`, `num_steps_passed`, `num_steps_total`, `problem_accuracy`, `subtask_accuracy`,
    `step_failures` (by step, why not).

    Args:
        test_data_fpath: The targets, where the rows have none: SciCode's HDF5 file, or JSON.
        timeout_secs: Seconds of processor time of a step's tests.
        **kwargs: As for every `SandboxedEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"

    Task = Problem

    class Config(SandboxedEnv.Config):
        """Arguments of the class."""

        test_data_fpath: LocalPath | None = None
        timeout_secs: Seconds = 30.0

    config: Config

    async def setup(self, task: Problem) -> None:
        """See that the problem can be graded, before it is asked."""
        task.split_tests()
        for module in imported(task.required_dependencies):
            if importlib.util.find_spec(module) is None:
                raise DataError(f"Problem {task.problem_id} needs {module}, which is not installed here.")
        for step in task.sub_steps:
            await self._targets(step)

    def opening(self, task: Problem, state: None) -> str:
        """The first step."""
        return question(task, 0)

    def user_turn(self, task: Problem, episode: Episode) -> str | None:
        """The next step, None after the last."""
        answered = len(turns(episode))
        return question(task, answered) if answered < len(task.asked) else None

    async def verify(self, task: Problem, episode: Episode) -> Verdict:
        """Run the tests of every step on its code and that of the steps before it."""
        read = last_python if self.conform else python_code
        steps = [task.sub_steps[number] for number in task.asked]
        codes = [read(text, step.entry_point) or "" for text, step in zip(turns(episode), steps, strict=False)]
        if self.conform is None:
            codes += [""] * (len(task.asked) - len(codes))
        answered = dict(zip(task.asked, codes, strict=False))
        solutions = [
            answered.get(number, "") if not step.is_given else step.ground_truth_code
            for number, step in enumerate(task.sub_steps)
        ]
        results: list[bool] = []
        failures: dict[str, str] = {}
        for number in answered:
            why = await self._failure(task, number, solutions[: number + 1])
            results.append(why is None)
            if why is not None:
                failures[task.sub_steps[number].step_number] = why
        passed = sum(results)
        solved = bool(results) and passed == len(results)
        return Verdict(
            float(solved),
            {
                "step_results": results,
                "num_steps_passed": passed,
                "num_steps_total": len(results),
                "problem_accuracy": solved,
                "subtask_accuracy": passed / max(1, len(results)),
                "step_failures": failures,
            },
        )

    def oracle(self, task: Problem) -> list[list[Item]] | None:
        """The code that the row has of each step, if it has all."""
        codes = [task.sub_steps[number].ground_truth_code for number in task.asked]
        texts = [f"```python\n{code}\n```" for code in codes if code.strip()]
        said = [[{"type": "message", "role": "assistant", "content": text}] for text in texts]
        return said if len(said) == len(codes) else None

    async def _failure(self, task: Problem, number: int, solutions: list[str]) -> str | None:
        if not solutions[-1].strip():
            return "no code"
        step = task.sub_steps[number]
        sandbox = await self.started_sandbox()
        solution = "\n\n".join([task.required_dependencies, *solutions])
        limits = self.limits(self.config.timeout_secs)
        targets = await self._targets(step)
        return await failure(sandbox, solution, task.required_dependencies, task.split_tests()[number], targets, limits)

    async def _targets(self, step: Step) -> list[Any]:
        if step.targets is not None or step.is_given:
            return step.targets or []
        path = self.config.test_data_fpath
        if path is None:
            raise DataError(f"Step {step.step_number} has no targets, and there is no test_data_fpath.")
        read: Targets = await self.shared(["scicode", path], lambda: asyncio.to_thread(read_targets, path))
        return await asyncio.to_thread(read, step.step_number, len(step.test_cases))


def last_python(text: str, entry_point: str | None = None) -> str | None:
    """Return the last closed block of Python, else the last closed block, whatever it defines: NeMo Gym's rule."""
    code = last_fence(text, PYTHON)
    return last_fence(text) if code is None else code
