"""A question of SQL: the database, the statement, and how the result compares with the gold rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from gym_llm.core.tasks import RowTasks, TaskSource
from gym_llm.errors import DataError
from gym_llm.grading.sql.comparison import Rule

_HEADER = b"SQLite format 3\0"


class Database(NamedTuple):
    """A SQLite file, or a script of CREATE and INSERT statements."""

    path: str = ""
    script: str = ""
    copied: bool = False
    """Whether each statement gets a copy of it in memory, in which it may write."""


def find_database(folder: str | os.PathLike[str], name: str, *, argument: str) -> Database:
    """Return a database by name: `NAME/NAME.sqlite` (BIRD), else `NAME.sqlite` (Spider 2); or a script, `.sql`.

    Args:
        folder: Where the databases are.
        name: A row's `db_id`.
        argument: The environment's argument that names the folder, for the message.

    Raises:
        DataError: If the database is missing, or the file is not an SQLite database.
    """
    if not name or name in (".", "..") or not {"/", "\\", "\0"}.isdisjoint(name):
        raise DataError(f"db_id is the name of a database, got {name!r}.")
    for ending in (".sqlite", ".sql"):
        for path in (Path(folder, name, name + ending), Path(folder, name + ending)):
            if path.is_file():
                return Database(script=_script(path)) if ending == ".sql" else Database(path=_sqlite(path))
    raise DataError(f"{argument} {os.fspath(folder)} has no database {name}/{name}.sqlite or {name}.sqlite.")


@lru_cache(maxsize=8)
def check_databases(tasks: TaskSource | None, folder: str, argument: str) -> None:
    """Raise the DataError of the first missing database of these rows; they are checked once."""
    if isinstance(tasks, RowTasks):
        for name in dict.fromkeys(tasks[index].task.db_id for index in range(tasks.size)):
            find_database(folder, name, argument=argument)


def _sqlite(path: Path) -> str:
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            raise DataError(f"{path} is not a SQLite database: its first bytes differ.")
    return str(path.resolve())


def _script(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None


Rows: TypeAlias = list[tuple[Any, ...]]
"""Of ints, floats, texts, bytes and None."""

FailureName: TypeAlias = Literal["error", "timed_out", "too_large"]
"""SQLite refused the statement or failed; it took too long; its result or its memory is too large."""

Status: TypeAlias = Literal["equal", "different", "error", "timed_out", "too_large", "worker_died"]
"""The model's statement gave the gold rows, other rows, or failed: `FailureName`, or it ended two workers."""


GOLD: Final = "gold"
MODEL: Final = "model"
"""The notes of a worker: the statement that it runs."""


class Question(NamedTuple):
    """A statement, and its expected result."""

    database: Database
    query: str | None
    """The statement of the model; None asks only whether the gold statement runs."""
    gold: str | list[Rows]
    """A statement, or the rows themselves, in one or several ways."""
    rules: Sequence[Rule]
    """The rules by which the model's rows are compared with each of these."""
    seconds: float
    """Seconds of CPU time for each statement."""


class Failure(NamedTuple):
    """The failure of a statement."""

    name: FailureName
    message: str


class QueryResult(NamedTuple):
    """The result of a model's statement, compared with the gold rows."""

    status: Status
    message: str | None = None
    """The message of SQLite, or of what took too long."""

    @property
    def equal(self) -> bool:
        """Whether the rows are the gold ones."""
        return self.status == "equal"


class GoldFailed(NamedTuple):
    """A failure of the gold statement or the database: an error of the row."""

    message: str
