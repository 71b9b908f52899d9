r"""NVARC: ARC's puzzles, answered with lines of digits (NeMo Gym's `nvarc`, without its induced programs)."""

from __future__ import annotations

from typing import Any, Literal

from gym_llm import Episode, Verdict
from gym_llm.envs.arc_agi.env import ArcAGI
from gym_llm.errors import DataError
from gym_llm.grading.grids import grid_of_lines_as_nemo_gym, last_grid_of_lines
from gym_llm.grading.thinking import strip_thinking, without_spans
from gym_llm.types import Row


class NVARC(ArcAGI):
    r"""Find the rule of the examples; the reward is 1.0 for the expected output grid, a line of digits for each row.

    The answer is in the last `\boxed{}`, or, without any, the last lines of digits. Details: `predicted_output` (the
    grid or None), `extraction_successful`, `exact_match`, `agent_mode`.

    Args:
        agent_mode: How rows are answered that do not say: `"transductive"`, with the grid. Rows that want a program,
            `"inductive"`, are read, and their episodes masked.
        conform: `"nemo"` reads every digit that stands alone, as NeMo Gym does; the README says what else.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    class Task(ArcAGI.Task):
        """ArcAGI's, and whether the answer is the grid or a program that makes it."""

        agent_mode: Literal["transductive", "inductive"] | None = None

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        agent_mode: Literal["transductive"] = "transductive",
        **kwargs: Any,
    ) -> None:
        if agent_mode != "transductive":
            raise ValueError(f"agent_mode is 'transductive', the answer a grid and not a program; got {agent_mode!r}.")
        super().__init__(tasks, **kwargs)

    def setup(self, task: Task) -> None:
        """Refuse what cannot be played; a file that has such rows, too, can be read."""
        if task.agent_mode == "inductive":
            raise DataError("This row wants a program, `inductive`: only rows that want a grid can be played.")

    def verify(self, task: ArcAGI.Task, episode: Episode) -> Verdict:
        """Compare the grid that the model gives with the expected one."""
        if self.conform:
            grid = grid_of_lines_as_nemo_gym(without_spans(episode.messages_text, "<think>", "</think>").strip())
        else:
            grid = last_grid_of_lines(strip_thinking(episode.messages_text))
        correct = grid == task.expected_output
        details = {"predicted_output": grid, "extraction_successful": grid is not None, "exact_match": correct}
        return Verdict(float(correct), details | {"agent_mode": "transductive"})
