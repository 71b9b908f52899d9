"""CodeOutput: what a program prints, said without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from gym_llm import BaseTask, Episode, Verdict, VerifierEnv
from gym_llm.envs.code_output.programs import PROGRAMS, output_of, program
from gym_llm.errors import DataError
from gym_llm.grading.extraction import last_fence, last_tagged
from gym_llm.grading.program_output import line_difference
from gym_llm.sandbox import Limits, check_backend, check_seconds, sandbox_for
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Row

_PROMPT = """What does this Python program print? Work it out, and end with the output, and only that, in a ``` block.

```python
{}```"""


class CodeOutput(VerifierEnv):
    """Say what a program prints; the reward is 1.0 if that is right.

    The answer is the last fenced block, else what is in the last `<answer>`. Without a file there are endless programs,
    drawn at random. Details: `extracted_answer`, `difference`.

    Args:
        tasks: See `VerifierEnv`.
        compare: `"lines"`: equal line by line, spaces around a line aside, or the same numbers (LiveCodeBench's rule);
            `"exact"`: equal but for line breaks at the end.
        kinds: Of the programs that are drawn; None for all of `programs.PROGRAMS`.
        parts: How many short programs one that is drawn is made of.
        timeout_s: Seconds of processor time that a row's program may take, where the row does not say what it prints.
        sandbox: Where that runs; see `gym_llm.sandbox.Sandbox`. Not started before it is needed.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """A program, and what it reads and prints, as far as the row says that."""

        code: str
        stdin: str = ""
        expected_output: str | None = None

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        compare: Literal["lines", "exact"] = "lines",
        kinds: Sequence[str] | None = None,
        parts: int = 1,
        timeout_s: float = 10.0,
        sandbox: str = "bubblewrap",
        **kwargs: Any,
    ) -> None:
        if compare not in ("lines", "exact"):
            raise ValueError(f"compare is 'lines' or 'exact', got {compare!r}.")
        chosen = tuple(PROGRAMS) if kinds is None else tuple(kinds)
        if isinstance(kinds, str) or not chosen or not all(kind in PROGRAMS for kind in chosen):
            raise ValueError(f"kinds is a list of some of {', '.join(PROGRAMS)}; got {kinds!r}.")
        if type(parts) is not int or not 1 <= parts <= 100:
            raise ValueError(f"parts is an integer from 1 to 100, got {parts!r}.")
        check_seconds("timeout_s", timeout_s)
        check_backend(sandbox)
        self.kinds = chosen
        self.parts = parts
        super().__init__(tasks, **kwargs)
        self.compare = compare
        self.sandbox = sandbox
        self._limits = Limits(cpu_seconds=timeout_s, wall_seconds=timeout_s)

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw a program."""
        code = program(rng, self.kinds, self.parts)
        prompt = _PROMPT.format(code)
        return {
            "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
            "code": code,
            "expected_output": output_of(code),
        }

    async def setup(self, task: Task) -> str:
        """What the program prints: as the row says, else as it does in the sandbox."""
        if task.expected_output is not None:
            return task.expected_output
        sandbox = await sandbox_for(self, self.sandbox)
        result = await sandbox.python(task.code, stdin=task.stdin.encode("utf-8", "replace"), limits=self._limits)
        if result.ok:
            return result.stdout.decode("utf-8", "replace")
        why = f"it passed its limit of {result.limit}" if result.limit else f"it ended with {result.exit_code}"
        raise DataError(f"The row's program does not run to its end: {why}; give the row an `expected_output`.")

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the answer with what the program prints."""
        text = strip_thinking(episode.answer)
        answer = last_fence(text)
        if answer is None:
            answer = last_tagged(text, "answer")
        difference = "there is no answer" if answer is None else self._difference(answer, episode.state)
        return Verdict(float(difference is None), {"extracted_answer": answer, "difference": difference})

    def _difference(self, answer: str, expected: str) -> str | None:
        difference = line_difference(answer, expected)
        if difference is None and self.compare == "exact" and answer.strip("\r\n") != expected.strip("\r\n"):
            return "there are other spaces, or numbers written otherwise"
        return difference
