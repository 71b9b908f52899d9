"""ZebraLogic: logic grid puzzles, answered with every cell of the grid (Lin et al. 2025)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.grading.quotations import meant_words
from gym_llm.judge import json_objects
from gym_llm.types import known

EASY = frozenset({"2*2", "2*3", "2*4", "2*5", "2*6", "3*2", "3*3"})
"""The sizes (houses * columns) that ZeroEval calls easy."""

_SPACES = str.maketrans("\n\r\t", "   ")


class Grid(BaseModel):
    """A solved grid: the names of the columns, the first of them `House`, and a row for each house."""

    model_config = ConfigDict(frozen=True)

    header: list[str]
    rows: list[list[str]]

    @model_validator(mode="after")
    def _is_whole(self) -> Grid:
        if len(self.header) < 2 or self.header[0] != "House" or len(set(self.header)) < len(self.header):
            raise ValueError("header names the columns, each once, and begins with House")
        if not self.rows or any(len(row) != len(self.header) for row in self.rows):
            raise ValueError("every row has a cell for each column of the header")
        if len({row[0] for row in self.rows}) < len(self.rows):
            raise ValueError("every row is of another house")
        return self

    @property
    def houses(self) -> dict[str, dict[str, str]]:
        """The cells by house and column: `{"House 1": {"Name": "Ada"}}`."""
        return {f"House {row[0]}": dict(zip(self.header[1:], row[1:], strict=True)) for row in self.rows}

    @property
    def size(self) -> str:
        """The number of houses and of columns, as in ZeroEval: `3*4`."""
        return f"{len(self.rows)}*{len(self.header) - 1}"


class ZebraLogic(VerifierEnv):
    """Solve a logic grid puzzle; the reward is 1.0 if every cell is right. The answer is JSON with a `solution`.

    Details: `cell_accuracy`, `parsed`, `size`, and the reward again as `solved_easy` or `solved_hard`.

    Args:
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"
    metrics = {
        "cell_accuracy": Metric(),
        "parsed": Metric("rate"),
        "solved_easy": Metric(),
        "solved_hard": Metric(),
    }

    class Task(BaseTask):
        """The puzzle and its solution."""

        puzzle: str = ""
        solution: Grid
        size: str | None = None
        id: str | None = None

    def oracle(self, task: Task) -> str:
        """Return the solution as JSON."""
        return json.dumps({"solution": task.solution.houses}, ensure_ascii=False)

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare each cell with the solution's."""
        expected = task.solution.houses
        given = last_solution(meant_words(episode.answer, episode))
        cells = [
            _same(_cell(given, house, column), cell)
            for house, columns in expected.items()
            for column, cell in columns.items()
        ]
        reward = float(all(cells))
        size = task.size or task.solution.size
        is_easy = size in EASY
        details = {
            "cell_accuracy": sum(cells) / len(cells),
            "parsed": given is not None,
            "size": size,
            **known(solved_easy=reward if is_easy else None, solved_hard=None if is_easy else reward),
        }
        return Verdict(reward, details)


def last_solution(text: str) -> dict[str, Any] | None:
    r"""Return the `solution` of the last JSON object that has one; of a very long text only the end is read.

    A line may break inside of a JSON string, as in ZeroEval.

    >>> last_solution('{"solution": {}} or\n```json\n{"why": "a\nb", "solution": {"House 1": {"Name": "Ada"}}}\n```')
    {'House 1': {'Name': 'Ada'}}
    """
    for value in reversed(list(json_objects(text.translate(_SPACES)))):
        if isinstance(solution := value.get("solution"), dict):
            return solution
    return None


def _cell(solution: dict[str, Any] | None, house: str, column: str) -> Any:
    columns = (solution or {}).get(house)
    return columns.get(column) if isinstance(columns, dict) else None


def _same(given: Any, expected: str) -> bool:
    return isinstance(given, str) and given.strip().lower() == expected.strip().lower()
