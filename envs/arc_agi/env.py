r"""ArcAGI: puzzles of coloured grids, answered with a grid (NeMo Gym's `arc_agi`)."""

from __future__ import annotations

import json
from collections.abc import Awaitable

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.grids import Grid, first_json_grid_as_nemo_gym, last_json_grid
from gym_llm.grading.quotations import meant_words


class ArcAGI(NemoCompatible):
    r"""Find the rule of the examples; the reward is 1.0 for the expected output grid.

    The answer is the last `\boxed{[[…]]}`, or, without a box, the last grid in the text. Details: `predicted_output`
    (the grid or None), `extraction_successful`.

    Args:
        conform: `"nemo"` reads the first grid, as NeMo Gym does; the README lists the other differences.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The examples, the grid to transform, and the expected output."""

        train: list[dict[str, Grid]] = []
        test_input: Grid = []
        expected_output: Grid
        task_id: str | None = None

        @field_validator("expected_output")
        @classmethod
        def _has_cells(cls, grid: Grid) -> Grid:
            if not grid or not grid[0]:
                raise ValueError("the grid is empty")
            return grid

    def oracle(self, task: Task) -> str:
        """Return the expected grid in a box."""
        return f"\\boxed{{{json.dumps(task.expected_output)}}}"

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Compare the model's grid with the expected one."""
        text = episode.messages_text
        grid = first_json_grid_as_nemo_gym(text) if self.conform else last_json_grid(meant_words(text, episode))
        details = {"predicted_output": grid, "extraction_successful": grid is not None}
        return Verdict(float(grid == task.expected_output), details)
