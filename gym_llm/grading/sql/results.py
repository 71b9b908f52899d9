"""What is asked of a worker that runs SQL, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from gym_llm.grading.sql.comparison import Rule
from gym_llm.grading.sql.databases import Database

Rows: TypeAlias = list[tuple[Any, ...]]
"""Of ints, floats, texts, bytes and None."""

FailureName: TypeAlias = Literal["error", "timed_out", "too_large"]
"""SQLite refused a statement or failed; it took too long; its result, or what it needs, is too large."""

Status: TypeAlias = Literal["equal", "different", "error", "timed_out", "too_large", "worker_died"]
"""The model's statement gave the gold rows, others, or none: `FailureName`, or it ended two worker processes."""


GOLD: Final = "gold"
MODEL: Final = "model"
"""The notes of a worker: whose statement it is at."""


class Question(NamedTuple):
    """A statement, and what should come out of it."""

    database: Database
    query: str | None
    """The model's; None asks only whether the gold statement runs."""
    gold: str | list[Rows]
    """A statement, or the rows themselves, in one or several ways."""
    rules: Sequence[Rule]
    """How the model's rows are compared with each of these."""
    seconds: float
    """Of CPU time, for each statement."""


class Failure(NamedTuple):
    """Why a statement has no rows."""

    name: FailureName
    message: str


class Outcome(NamedTuple):
    """How a model's statement compares."""

    status: Status
    message: str | None = None
    """What SQLite said, or what took too long."""

    @property
    def equal(self) -> bool:
        """Whether the rows are the gold ones."""
        return self.status == "equal"


class GoldFailed(NamedTuple):
    """The gold statement, or the database, is wrong: whose row that is has to hear it."""

    message: str
