"""Files of a benchmark's problems, which rows name by `task_id`."""

from __future__ import annotations

from functools import cache
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gym_llm.data.files.reading import read_objects
from gym_llm.errors import DataError

M = TypeVar("M", bound=BaseModel)


class ProblemMetadata(BaseModel, Generic[M]):
    """A row's `verifier_metadata`: which problem it is of, and the problem, where it is not in a file.

    Derive from it for a kind of problem: only a class that its module has under its name can be pickled.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    task_id: str | None = None
    problem: M | None = None

    def problem_in(self, problems: dict[str, M]) -> M | None:
        """The row's own problem, else that of a file, else None."""
        return self.problem or problems.get(self.task_id or "")


@cache
def read_problems(path: str, kind: type[M]) -> dict[str, M]:
    """The problems of a file, by `task_id`; one that is asked for again is not read again.

    Args:
        path: A JSON Lines file, e.g. of the evalplus package, or another source of rows.
        kind: What each line is, beside its `task_id`.

    Raises:
        DataError: If it cannot be read, or a line is no problem.
    """
    problems = {}
    for number, fields in read_objects(path):
        try:
            problems[str(fields["task_id"])] = kind.model_validate(fields)
        except KeyError:
            raise DataError(f"{path}, line {number}: a problem has a `task_id`.") from None
        except ValidationError as error:
            wrong = error.errors()[0]
            place = ".".join(map(str, wrong["loc"]))
            raise DataError(f"{path}, line {number}: {place}: {wrong['msg']}.") from None
    return problems
