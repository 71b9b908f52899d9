r"""NVARC: ARC's puzzles, answered with lines of digits, or with a program that makes them (NeMo Gym's `nvarc`)."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from gym_llm import Episode, Verdict
from gym_llm.core.env_config import Seconds
from gym_llm.envs.arc_agi.env import ArcAGI
from gym_llm.grading.extraction import python_code
from gym_llm.grading.grids import Grid, grid_of_lines_as_nemo_gym, grid_of_numbers, last_grid_of_lines
from gym_llm.grading.quotations import meant_words
from gym_llm.sandbox import Limits, check_backend, sandbox_for
from gym_llm.sandbox.functions import Functions
from gym_llm.tokens.parsers.thinking import strip_thinking, without_spans

Mode = Literal["transductive", "inductive"]
_FUNCTION = "transform"
_PRELOAD = ("numpy",)


class NVARC(ArcAGI):
    r"""Find the rule of the examples; the reward is 1.0 for the expected output grid, given as lines, or by a program.

    Transductive rows want the grid: it is in the last `\boxed{}`, or, without any, the last lines of digits. Inductive
    rows want a function `transform(grid)` in Python, which makes the grid from the test's input. Details:
    `predicted_output` (the grid or None), `extraction_successful`, `exact_match`, `agent_mode`; of a program that
    gave no grid `error`.

    Args:
        agent_mode: How rows are answered that do not say: `"transductive"`, with the grid, or `"inductive"`, with code.
        python_timeout_seconds: Seconds of processor time that a program may take, and as many in which it only waits.
        sandbox: Where it runs; see `gym_llm.sandbox.Sandbox`. Not started before a program comes.
        conform: `"nemo"` reads every digit that stands alone, as NeMo Gym does; the README says what else.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    class Task(ArcAGI.Task):
        """ArcAGI's, and whether the answer is the grid or a program that makes it."""

        agent_mode: Mode | None = None

    class Config(ArcAGI.Config):
        """The default mode, and how programs run."""

        agent_mode: Mode = "transductive"
        python_timeout_seconds: Seconds = 30.0
        sandbox: Annotated[str, AfterValidator(check_backend)] = "bubblewrap"

    config: Config

    def oracle(self, task: Any) -> str:
        """Return the expected grid, or a program that returns it."""
        if (task.agent_mode or self.config.agent_mode) == "inductive":
            return f"```python\ndef {_FUNCTION}(grid):\n    return {task.expected_output}\n```"
        lines = (" ".join(map(str, line)) for line in task.expected_output)
        return "\\boxed{\n" + "\n".join(lines) + "\n}"

    def verify(self, task: Any, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Compare the grid that the model gives, or its program makes, with the expected one."""
        if (task.agent_mode or self.config.agent_mode) == "inductive":
            return self._verify_program(task, strip_thinking(episode.messages_text, unclosed=self.conform is None))
        if self.conform:
            grid = grid_of_lines_as_nemo_gym(without_spans(episode.messages_text, "<think>", "</think>").strip())
        else:
            grid = last_grid_of_lines(meant_words(episode.messages_text, episode))
        return _verdict(task, grid, "transductive")

    async def _verify_program(self, task: Task, text: str) -> Verdict:
        code = python_code(text, _FUNCTION) or (text if f"def {_FUNCTION}" in text else None)
        if code is None:
            return _verdict(task, None, "inductive", "there is no program")
        sandbox = await sandbox_for(self, self.config.sandbox, preload=_PRELOAD)
        seconds = self.config.python_timeout_seconds
        limits = Limits(cpu_seconds=seconds, wall_seconds=seconds)
        async with Functions(sandbox, limits) as functions:
            called = await functions.load(code, _FUNCTION, False)
            if called.error is None and called.limit is None:
                called = await functions.call(json.dumps([task.test_input]))
        grid = grid_of_numbers(called.value) if called.error is None else None
        error = None if grid else called.error or "it returns no grid"
        return _verdict(task, grid, "inductive", error)


def _verdict(task: Any, grid: Grid | None, mode: Mode, error: str | None = None) -> Verdict:
    correct = grid == task.expected_output
    details = {"predicted_output": grid, "extraction_successful": grid is not None, "exact_match": correct}
    return Verdict(float(correct), details | {"agent_mode": mode} | ({"error": error} if error else {}))
