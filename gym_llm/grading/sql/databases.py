"""The database of a task: a file in a folder, or the statements that make one."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from gym_llm.core.tasks import RowTasks, TaskSource
from gym_llm.errors import DataError

_HEADER = b"SQLite format 3\0"


class Database(NamedTuple):
    """A SQLite file, or a script of CREATE and INSERT statements."""

    path: str = ""
    script: str = ""
    copied: bool = False
    """Whether each statement gets a copy of it in memory, in which it may write."""


def find_database(folder: str | os.PathLike[str], name: str, *, argument: str) -> Database:
    """The database of a name: `NAME/NAME.sqlite` (BIRD's way), else `NAME.sqlite` (Spider 2's); or `.sql`, a script.

    Args:
        folder: Where the databases are.
        name: A row's `db_id`.
        argument: The environment's argument that names the folder, for the message.

    Raises:
        DataError: If there is none, or the file is no SQLite database.
    """
    if not name or name in (".", "..") or not {"/", "\\", "\0"}.isdisjoint(name):
        raise DataError(f"db_id is the name of a database, got {name!r}.")
    for ending in (".sqlite", ".sql"):
        for path in (Path(folder, name, name + ending), Path(folder, name + ending)):
            if path.is_file():
                return Database(script=_script(path)) if ending == ".sql" else Database(path=_sqlite(path))
    raise DataError(
        f"There is no database {name!r} in {os.fspath(folder)} ({name}/{name}.sqlite or {name}.sqlite): "
        f"{argument} is the folder that has the databases."
    )


@lru_cache(maxsize=8)
def check_databases(tasks: TaskSource | None, folder: str, argument: str) -> None:
    """Raise the DataError of the first of the rows' databases that is not there; once for all who play these rows."""
    if isinstance(tasks, RowTasks):
        for name in dict.fromkeys(tasks[index].task.db_id for index in range(tasks.size)):
            find_database(folder, name, argument=argument)


def _sqlite(path: Path) -> str:
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            raise DataError(f"{path} is no SQLite database: it does not begin as one.")
    return str(path.resolve())


def _script(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None
