"""CodeOutput: the output of a program, worked out by reading it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from gym_llm import BaseTask, Episode, Verdict, VerifierEnv
from gym_llm.core.checks import check_choice
from gym_llm.core.env_config import Seconds
from gym_llm.envs.code_output.programs import PROGRAMS, output_of, program
from gym_llm.errors import DataError
from gym_llm.grading.extraction import last_fence, last_tagged
from gym_llm.grading.program_output import line_difference
from gym_llm.grading.quotations import meant_words
from gym_llm.sandbox import Limits, check_backend, sandbox_for
from gym_llm.types import Row

_PROMPT = """What does this Python program print? Work it out, and end with the output, and only that, in a ``` block.

```python
{}```"""


def _known_kinds(kinds: Sequence[str]) -> Sequence[str]:
    for kind in kinds:
        check_choice("a kind", kind, PROGRAMS)
    return kinds


class CodeOutput(VerifierEnv):
    """Write the output of a program; the reward is 1.0 if it is right.

    The answer is the last fenced block, or else the content of the last `<answer>`. Without a file, the environment
    draws programs without end. Details: `extracted_answer`, `difference`.

    Args:
        compare: `"lines"` ignores spaces around lines and the spelling of numbers (LiveCodeBench's rule). `"exact"`
            ignores only line breaks at the ends.
        kinds: The kinds of drawn programs; None for all of `programs.PROGRAMS`.
        parts: The number of short programs in a drawn program, 1 to 100.
        timeout_s: Seconds of processor time for the program of a row without its output.
        sandbox: The back end of that run; see `gym_llm.sandbox.Sandbox`. It starts when it is first needed.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """A program, its standard input and its output; without the output the program is run."""

        code: str
        stdin: str = ""
        expected_output: str | None = None

    class Config(VerifierEnv.Config):
        """The comparison, the drawn programs and the run of a row's program."""

        compare: Literal["lines", "exact"] = "lines"
        kinds: Annotated[Sequence[str], Field(min_length=1), AfterValidator(_known_kinds)] | None = None
        parts: int = Field(1, ge=1, le=100)
        timeout_s: Seconds = 10.0
        sandbox: Annotated[str, AfterValidator(check_backend)] = "bubblewrap"

    config: Config

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw a program."""
        code = program(rng, tuple(self.config.kinds or PROGRAMS), self.config.parts)
        return self.row(_PROMPT.format(code), code=code, expected_output=output_of(code))

    async def setup(self, task: Task) -> str:
        """Return the program's output: the row's, or else that of a run in the sandbox."""
        if task.expected_output is not None:
            return task.expected_output
        sandbox = await sandbox_for(self, self.config.sandbox)
        limits = Limits(cpu_seconds=self.config.timeout_s, wall_seconds=self.config.timeout_s)
        result = await sandbox.python(task.code, stdin=task.stdin.encode("utf-8", "replace"), limits=limits)
        if result.ok:
            return result.stdout.decode("utf-8", "replace")
        why = f"it passed its limit of {result.limit}" if result.limit else f"it ended with {result.exit_code}"
        raise DataError(f"The row's program fails: {why}. Give the row an `expected_output`.")

    def oracle(self, task: Task) -> str | None:
        """Return the row's output in a block, or None if the row lacks it."""
        return None if task.expected_output is None else f"```\n{task.expected_output}\n```"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the answer with the program's output."""
        text = meant_words(episode.answer, episode)
        answer = last_fence(text)
        if answer is None:
            answer = last_tagged(text, "answer")
        difference = "there is no answer" if answer is None else self._difference(answer, episode.state)
        return Verdict(float(difference is None), {"extracted_answer": answer, "difference": difference})

    def _difference(self, answer: str, expected: str) -> str | None:
        difference = line_difference(answer, expected)
        if difference is None and self.config.compare == "exact" and answer.strip("\r\n") != expected.strip("\r\n"):
            return "the spaces or the spelling of numbers differ"
        return difference
