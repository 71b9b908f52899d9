"""Databases opened for untrusted statements; only in worker processes.

No statement can change or create a file:

- The file is opened read-only and as immutable, and the connection accepts only queries.
- SQLite asks `_reading` about every table, column and function before a statement runs. Pragmas, ATTACH, virtual tables
  and extensions are refused.
- SQLite's memory has a limit in this process, and it sorts in memory.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeAlias
from urllib.parse import quote

from gym_llm.grading.sql.question import Database

HEAP_BYTES = 512 << 20
"""Of SQLite in a worker process, all databases in memory included."""
LONGEST_VALUE = 16 << 20
"""Bytes of a text, a blob or a row."""

_MOST_OPEN = 16
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COLUMN: 1_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 250,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 500_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_LONGEST_STATEMENT = 1 << 20
_OPERATIONS = 10_000  # of SQLite's machine between two looks at the clock: less than a millisecond, mostly

_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_WRITES = _READS | {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_CREATE_TEMP_VIEW,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_TEMP_TABLE,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_DROP_TEMP_INDEX,
    sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_DROP_TEMP_VIEW,
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_REINDEX,
    sqlite3.SQLITE_ANALYZE,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_SAVEPOINT,
}
_SKIPPED_PRAGMAS = {"foreign_keys"}  # with which SQLite's own dumps begin; whether they hold matters to no query
_FORBIDDEN_FUNCTIONS = {
    "load_extension",
    "fts3_tokenizer",  # gives addresses in this process
    "fts5",
    "sqlite_log",
    "rtreecheck",  # runs statements of its own
}
_Authorizer: TypeAlias = Callable[[int, str | None, str | None, str | None, str | None], int]
_open: OrderedDict[Any, sqlite3.Connection] = OrderedDict()


def database_key(database: Database) -> tuple[Any, ...]:
    """Return a key that two databases share if and only if they are the same.

    Raises:
        OSError: If the file is missing.
    """
    if database.path:
        status = os.stat(database.path)
        return database.path, status.st_mtime_ns, status.st_size, status.st_ino
    return (hashlib.sha256(database.script.encode("utf-8", "surrogatepass")).digest(),)


def connect(database: Database, seconds: float) -> sqlite3.Connection:
    """Return a read-only connection for one statement; it is cached for the next one.

    Args:
        database: Where to.
        seconds: Of CPU time that a script may take.

    Raises:
        sqlite3.Error: If the file is not there or cannot be read, or SQLite refuses the script, or a part of it.
        OSError: If the file is missing.
        MemoryError: If a script makes more than `HEAP_BYTES`.
        ValueError: If a script has a null character or half a character.
    """
    key = database_key(database)
    connection = _open.pop(key, None)
    if connection is None:
        connection = _open_file(database.path) if database.path else _open_script(database.script, seconds, _reading)
    _open[key] = connection
    if len(_open) > _MOST_OPEN:
        _open.popitem(last=False)[1].close()
    return connection


def connect_copy(database: Database, seconds: float) -> sqlite3.Connection:
    """A connection to a copy in memory, in which statements may also write; for the caller to close.

    Raises:
        Exception: See `connect`; MemoryError also if the copy is too large.
    """
    if not database.path:
        return _open_script(database.script, seconds, _writing)
    connection = _connect(":memory:")
    try:
        with closing(_open_file(database.path)) as source:
            source.backup(connection)
        _guard(connection, _writing)
    except BaseException:
        connection.close()
        raise
    return connection


def close_others(database: Database) -> bool:
    """Close the cached connections of all other databases; return whether there were any."""
    key = database_key(database)
    others = [other for other in _open if other != key]
    for other in others:
        _open.pop(other).close()
    return bool(others)


class Clock:
    """Says whether the time of a statement is up."""

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds
        self.is_over = False

    def look(self) -> bool:
        """For SQLite, which stops if it is."""
        self.is_over = time.process_time() > self._end
        return self.is_over


@contextmanager
def limited(connection: sqlite3.Connection, seconds: float) -> Iterator[Clock]:
    """Stop statements of this connection after these seconds of CPU time; yield the `Clock`."""
    clock = Clock(seconds)
    connection.set_progress_handler(clock.look, _OPERATIONS)
    try:
        yield clock
    finally:
        connection.set_progress_handler(None, 0)


def _open_file(path: str) -> sqlite3.Connection:
    connection = _connect(f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1")
    connection.execute("PRAGMA query_only = ON")
    _guard(connection, _reading)
    return connection


def _open_script(script: str, seconds: float, authorizer: _Authorizer) -> sqlite3.Connection:
    connection = _connect(":memory:")
    try:
        connection.set_authorizer(_writing)
        with limited(connection, seconds) as clock:
            try:
                connection.executescript(script)
            except sqlite3.OperationalError:
                if clock.is_over:
                    raise sqlite3.OperationalError(f"it takes longer than {seconds:g} s") from None
                raise
        if authorizer is _reading:
            connection.set_authorizer(None)
            connection.execute("PRAGMA query_only = ON")
        _guard(connection, authorizer)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=0)
    connection.text_factory = _text
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    for pragma in (f"hard_heap_limit = {HEAP_BYTES}", "temp_store = MEMORY", "trusted_schema = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    # Their first use declares tables, which the authorizer would refuse.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
    return connection


def _guard(
    connection: sqlite3.Connection,
    authorizer: _Authorizer,
) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
    connection.set_authorizer(authorizer)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _reading(action: int, _first: str | None, second: str | None, *_: str | None) -> int:
    if action not in _READS or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _writing(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _SKIPPED_PRAGMAS:
        return sqlite3.SQLITE_IGNORE
    if action in _WRITES and not (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
