"""Files of a benchmark's problems, which rows name by `task_id`."""

from __future__ import annotations

import os
from functools import cache
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gym_llm.data.files.reading import read_objects
from gym_llm.errors import DataError

M = TypeVar("M", bound=BaseModel)


class ProblemMetadata(BaseModel, Generic[M]):
    """A row's `verifier_metadata`: the id of its problem, and the problem itself where no file has it.

    Derive a class from it for a kind of problem: a class can be pickled only if its module has it under its name.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    task_id: str | None = None
    problem: M | None = None

    def problem_in(self, problems: dict[str, M]) -> M | None:
        """Return the problem of the row, else of the file, else None."""
        return self.problem or problems.get(self.task_id or "")


def read_problems(path: str | None, kind: type[M]) -> dict[str, M]:
    """Return the problems of a file, by `task_id`. A process reads each file once.

    Args:
        path: A JSON Lines file, e.g. of the evalplus package, or another source of rows; None for no problems.
        kind: The model of a line, beside its `task_id`.

    Raises:
        DataError: If the file cannot be read, or a line is not a problem.
    """
    return {} if path is None else _read(os.path.abspath(path), kind)


@cache
def _read(path: str, kind: type[M]) -> dict[str, M]:
    problems = {}
    for number, fields in read_objects(path, exact=True):
        try:
            problems[str(fields["task_id"])] = kind.model_validate(fields)
        except KeyError:
            raise DataError(f"{path}, line {number}: a problem has a `task_id`.") from None
        except ValidationError as error:
            wrong = error.errors()[0]
            place = ".".join(map(str, wrong["loc"]))
            raise DataError(f"{path}, line {number}: {place}: {wrong['msg']}.") from None
    return problems
