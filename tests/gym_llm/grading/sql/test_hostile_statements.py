"""Statements that nobody should run, and what becomes of them: an outcome, bounded, and not a byte changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gym_llm.concurrency.processes import shared_pool
from gym_llm.errors import DataError, WorkerDied
from gym_llm.grading.sql import Database, QueryResult, Question, RowsRule, SetRule, compare
from gym_llm.grading.sql.question import MODEL, find_database

SCRIPT = """
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, NULL);
CREATE VIEW v AS SELECT b FROM t;
"""
SECONDS = 1.0
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"

WRITES = [
    "DELETE FROM t",
    "DELETE FROM t RETURNING a",
    "UPDATE t SET b = 'x'",
    "INSERT INTO t VALUES (9, 'nine') RETURNING *",
    "REPLACE INTO t VALUES (1, 'x')",
    "WITH q AS (SELECT 1) DELETE FROM t",
    "DROP TABLE t",
    "DROP VIEW v",
    "ALTER TABLE t RENAME TO u",
    "CREATE TABLE u (a)",
    "CREATE TABLE u AS SELECT * FROM t",
    "CREATE TEMP TABLE u (a)",
    "CREATE VIEW w AS SELECT 1",
    "CREATE INDEX i ON t (b)",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE f USING fts5(x)",
    "CREATE VIRTUAL TABLE temp.f USING fts4(x)",
    "CREATE VIRTUAL TABLE f USING rtree(a, b, c)",
    "ATTACH DATABASE '{folder}/new.sqlite' AS n",
    "ATTACH DATABASE ':memory:' AS n",
    "DETACH DATABASE main",
    "VACUUM",
    "VACUUM INTO '{folder}/copy.sqlite'",
    "ANALYZE",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = WAL",
    "PRAGMA writable_schema = ON",
    "PRAGMA hard_heap_limit = 0",
    "PRAGMA temp_store_directory = '{folder}'",
    "PRAGMA table_info(t)",
    "SELECT * FROM pragma_table_info('t')",
    "SELECT * FROM pragma_database_list",
    "BEGIN IMMEDIATE",
    "SAVEPOINT s",
    "COMMIT",
    "SELECT load_extension('{folder}/evil.so')",
    "SELECT writefile('{folder}/new.txt', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x', 'sh -c \"touch {folder}/new.txt\"')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('simple', x'4141414141414141')",
    "SELECT * FROM fsdir('/')",
    "SELECT * FROM dbstat",
    "SELECT 1; DELETE FROM t",
    "UPDATE sqlite_master SET sql = 'x'",
    "SELECT rtreecheck('t')",
]
BOMBS = {
    f"{ENDLESS} SELECT count(*) FROM r": "timed_out",
    f"{ENDLESS} SELECT x FROM r": "too_large",
    f"{ENDLESS} SELECT x FROM r ORDER BY -x": "too_large",
    f"{ENDLESS} SELECT group_concat(hex(randomblob(1000000))) FROM r": "too_large",
    f"{ENDLESS} SELECT DISTINCT hex(randomblob(1000)) FROM r": "too_large",
    f"{ENDLESS} SELECT json_group_array(x) FROM r": "too_large",
    f"{ENDLESS} SELECT sum(x) OVER (ORDER BY x) FROM r": "too_large",
    "SELECT a.a FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m, t n, t o, t p": "too_large",
    "SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m, t n, t o, t p, t q, t r":
        "timed_out",
    "SELECT randomblob(1000000000)": "too_large",
    "SELECT zeroblob(1000000000)": "too_large",
    "SELECT hex(zeroblob(16000000))": "too_large",
    "SELECT replace(hex(zeroblob(4000000)), '0', hex(zeroblob(1000)))": "too_large",
    f"SELECT {', '.join(['zeroblob(16000000)'] * 500)}": "too_large",
    f"SELECT {', '.join(['1'] * 5000)}": "error",
    f"SELECT {'(' * 5000}1{')' * 5000}": "error",
    f"SELECT {' + '.join(['1'] * 5000)}": "error",
    " UNION ALL ".join(["SELECT 1"] * 5000): "error",
    f"SELECT '{'x' * 2_000_000}'": "too_large",
    "SELECT" + " " * 2_000_000 + "1": "too_large",
    f"SELECT 'a' LIKE '{'%a' * 5000}'": "error",
    "SELECT 'a' REGEXP '(a+)+$'": "error",
    "SELECT ?": "error",
    "SELECT \x00 1": "error",
    "SELECT '\ud800'": "error",
    "": "error",
    "-- nothing": "error",
    "EXPLAIN": "error",
    "SELECT * FROM nowhere": "error",
    "\u202eSELECT": "error",
}  # fmt: skip
HANGS = (
    "SELECT instr(zeroblob(16000000), zeroblob(8000000) || x'01')",
    "SELECT replace(hex(zeroblob(8000000)), hex(zeroblob(400000)) || '1', '')",
)
HARMLESS = {
    "SELECT printf('%1000000000d', 1)": "different",
    "SELECT format('%.*f', 1000000000, 1.0) IS NULL": "different",
    "SELECT value FROM json_each('[1, 2]') ORDER BY value": "different",
    "EXPLAIN QUERY PLAN SELECT * FROM t": "different",
    "SELECT length(b) FROM v": "different",
    "SELECT name FROM sqlite_master": "different",
}


def ask(
    database: Database, query: str | None, gold: str = "SELECT a, b FROM t", seconds: float = SECONDS
) -> QueryResult:
    return asyncio.run(compare(Question(database, query, gold, [SetRule()], seconds)))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_file(folder: Path, name: str = "base") -> Database:
    path = folder / name / f"{name}.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCRIPT)
    return find_database(folder, name, argument="folder")


def test_what_writes_is_refused_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    database = make_file(tmp_path)
    path = Path(database.path)
    os.chmod(path, 0o666)
    before, listed = digest(path), sorted(tmp_path.rglob("*"))
    for statement in WRITES:
        outcome = ask(database, statement.replace("{folder}", str(tmp_path)))
        assert outcome.status == "error", (statement, outcome)
    assert ask(database, "REINDEX").status == "error"
    assert ask(database, "SELECT a, b FROM t") == QueryResult("equal")
    assert (digest(path), sorted(tmp_path.rglob("*"))) == (before, listed)


def test_what_writes_is_refused_in_a_script_that_is_kept_too(tmp_path: Path) -> None:
    for statement in WRITES:
        outcome = ask(Database(script=SCRIPT), statement.replace("{folder}", str(tmp_path)))
        assert outcome.status == "error", (statement, outcome)
    assert ask(Database(script=SCRIPT), "SELECT a, b FROM t") == QueryResult("equal")
    assert not list(tmp_path.iterdir())


def test_a_copy_may_be_written_and_is_thrown_away(tmp_path: Path) -> None:
    database = make_file(tmp_path)
    before, listed = digest(Path(database.path)), sorted(tmp_path.rglob("*"))
    for copied in (database._replace(copied=True), Database(script=SCRIPT, copied=True)):
        assert ask(copied, "DELETE FROM t RETURNING a, b") == QueryResult("equal")
        assert ask(copied, "SELECT a, b FROM t") == QueryResult("equal")
        assert ask(copied, "DROP TABLE t", "SELECT 1 WHERE 0") == QueryResult("equal")
        for statement in ("ATTACH '{folder}/x' AS x", "VACUUM INTO '{folder}/y'", "PRAGMA user_version = 3",
                          "SELECT load_extension('x')", "CREATE VIRTUAL TABLE f USING fts5(x)"):  # fmt: skip
            assert ask(copied, statement.replace("{folder}", str(tmp_path))).status == "error"
    assert (digest(Path(database.path)), sorted(tmp_path.rglob("*"))) == (before, listed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "script"])
def test_bombs_end_in_an_outcome_within_time_and_memory(kind: str, tmp_path: Path) -> None:
    database = make_file(tmp_path) if kind == "file" else Database(script=SCRIPT)
    before = set(Path(os.environ.get("TMPDIR", "/tmp")).iterdir())
    for statement, status in {**BOMBS, **HARMLESS}.items():
        outcome = ask(database, statement, seconds=0.3)
        # Whether a bomb first is too large or takes too long depends on the machine; no other outcome is right.
        allowed = {status, "timed_out"} if status == "too_large" else {status}
        assert outcome.status in allowed, (statement[:100], outcome)
        assert len(outcome.message or "") <= 500
    assert ask(database, "SELECT a, b FROM t") == QueryResult("equal")
    left = {path for path in set(Path(os.environ.get("TMPDIR", "/tmp")).iterdir()) - before if "etilqs" in path.name}
    assert not left, "SQLite has made temporary files"


@pytest.mark.slow
@pytest.mark.parametrize("statement", [HANGS[0], pytest.param(HANGS[1], marks=pytest.mark.nightly)])
def test_what_hangs_in_one_function_is_ended_by_the_kernel(statement: str, tmp_path: Path) -> None:
    assert ask(make_file(tmp_path), statement, seconds=0.1).status == "timed_out"


@pytest.mark.slow
def test_a_worker_never_has_more_memory_than_sqlite_and_the_rows_may_have() -> None:
    code = f"""
import asyncio
from gym_llm.grading.sql import *
from gym_llm.grading.sql.query_worker import grade
for query in ({f"{ENDLESS} SELECT x, hex(randomblob(100)) FROM r ORDER BY 2"!r}, {f"{ENDLESS} SELECT x FROM r"!r},
              {f"SELECT {', '.join(['zeroblob(16000000)'] * 500)}"!r}):
    assert grade(Question(Database(script={SCRIPT!r}), query, "SELECT 1", [SetRule()], 20.0)).status == "too_large"
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])  # since its exec; ru_maxrss has pytest's
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(run.stdout) * 1024 < 1200 << 20


@pytest.mark.slow
def test_a_result_that_is_too_large_is_not_compared_in_part() -> None:
    endless_ones = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT x FROM r"
    outcome = ask(Database(script=SCRIPT), endless_ones, "SELECT 1", seconds=30.0)
    assert (outcome.status, outcome.message) == ("too_large", "Its result has more than 1,000,000 rows or 128 MiB.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "gold", "message"),
    [
        (Database(script=SCRIPT), "SELECT nope FROM t", "gold statement fails.*no such column: nope"),
        (Database(script=SCRIPT), "DELETE FROM t", "gold statement fails.*not authorized"),
        (Database(script=SCRIPT), f"{ENDLESS} SELECT count(*) FROM r", "gold statement fails.*longer than 0.5 s"),
        (Database(script="CREATE TABEL t (a)"), "SELECT 1", "cannot be opened.*syntax error"),
        (Database(script=f"CREATE TABLE t AS {ENDLESS} SELECT count(*) FROM r"), "SELECT 1", "longer than 0.5 s"),
        (Database(script="ATTACH '/tmp/x' AS x"), "SELECT 1", "cannot be opened.*not authorized"),
        (Database(script="PRAGMA journal_mode = WAL"), "SELECT 1", "cannot be opened.*not authorized"),
        (Database(script="CREATE TABLE t (a) \x00"), "SELECT 1", "cannot be opened.*null char"),
        (Database(script="SELECT '\ud800'"), "SELECT 1", "cannot be opened.*surrogates"),
        (Database(path="/nowhere/there.sqlite"), "SELECT 1", "cannot be opened.*No such file"),
    ],
)
def test_what_the_row_has_wrong_is_no_reward(database: Database, gold: str, message: str) -> None:
    for query in ("SELECT 1", "SELECT nope"):
        with pytest.raises(DataError, match=message):
            ask(database, query, gold, seconds=0.5)


@pytest.mark.slow
def test_a_gold_statement_that_hangs_is_the_rows_fault() -> None:
    with pytest.raises(DataError, match="takes too long"):
        ask(Database(script=SCRIPT), "SELECT 1", HANGS[0], seconds=0.1)


def test_a_dump_of_sqlites_own_is_a_script(tmp_path: Path) -> None:
    script = f"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n{SCRIPT}\nCOMMIT;\n"
    assert ask(Database(script=script), "SELECT a, b FROM t") == QueryResult("equal")


def test_texts_that_are_not_utf8_can_be_compared(tmp_path: Path) -> None:
    script = SCRIPT + "INSERT INTO t VALUES (7, CAST(x'ff41' AS TEXT)), (8, CAST(x'fe41' AS TEXT));"
    gold = "SELECT b FROM t WHERE a = 7"
    assert ask(Database(script=script), gold, gold).status == "equal"
    assert ask(Database(script=script), "SELECT b FROM t WHERE a = 8", gold).status == "different"


def test_a_database_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    database = make_file(tmp_path)
    assert ask(database, "SELECT count(*) FROM t", "SELECT 3") == QueryResult("equal")
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript(SCRIPT + "INSERT INTO t VALUES (4, 'four');")
    os.replace(other, database.path)
    assert ask(database, "SELECT count(*) FROM t", "SELECT 4") == QueryResult("equal")


@pytest.mark.slow
def test_other_databases_in_memory_do_not_take_a_statements_memory() -> None:
    fill = "CREATE TABLE big AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 12) "
    fill += "SELECT x, zeroblob(15000000) AS z FROM r;"
    needs = "SELECT count(*) FROM (SELECT DISTINCT x, z FROM big)"
    for number in range(4):  # 180 MB each: four of them are more than there is
        script = f"{SCRIPT}{fill} -- {number}"
        assert ask(Database(script=script), needs, "SELECT 12", seconds=30.0).status == "equal"


@pytest.mark.parametrize("name", ["a b#c?mode=rwc", "%41", "'quoted'", "дом", "x\udcff"])
def test_any_name_of_a_file_is_a_name(name: str, tmp_path: Path) -> None:
    assert ask(make_file(tmp_path, name), "SELECT a, b FROM t") == QueryResult("equal")


def test_a_file_in_wal_mode_is_read_and_gets_no_files_beside_it(tmp_path: Path) -> None:
    database = make_file(tmp_path)
    with closing(sqlite3.connect(database.path)) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        connection.execute("DELETE FROM t WHERE a = 3")
        connection.commit()
    before, listed = digest(Path(database.path)), sorted(tmp_path.rglob("*"))
    assert ask(database, "SELECT count(*) FROM t", "SELECT 2") == QueryResult("equal")
    assert (digest(Path(database.path)), sorted(tmp_path.rglob("*"))) == (before, listed)


def test_a_file_that_may_not_be_written_or_is_broken(tmp_path: Path) -> None:
    database = make_file(tmp_path)
    path = Path(database.path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert ask(database, "SELECT a, b FROM t") == QueryResult("equal")
    finally:
        path.parent.chmod(0o755)
        path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[100:] = b"\xa5" * (len(data) - 100)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"cannot be opened|gold statement fails"):
        ask(database, "SELECT a, b FROM t")


def test_many_at_once_get_their_own_outcomes(tmp_path: Path) -> None:
    files = [make_file(tmp_path, f"db{number}") for number in range(20)]

    async def ask_all() -> list[QueryResult]:
        questions = [
            Question(files[number % 20], f"SELECT {number % 3}", "SELECT 1", [RowsRule()], SECONDS)
            for number in range(600)
        ]
        return await asyncio.gather(*map(compare, questions))

    outcomes = asyncio.run(ask_all())
    assert [outcome.equal for outcome in outcomes] == [number % 3 == 1 for number in range(600)]


def test_a_worker_that_is_killed_costs_nobody_the_outcome(tmp_path: Path) -> None:
    database = make_file(tmp_path)
    long = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 3000000) SELECT count(*) FROM r"
    pool = shared_pool("gym_llm.grading.sql.query_worker:grade", deadline=3 * 60.0 + 5.0)

    async def ask_and_kill() -> QueryResult:
        up = list(pool._live)
        asked = asyncio.ensure_future(compare(Question(database, long, "SELECT 3000000", [SetRule()], 60.0)))
        await asyncio.sleep(0.2)
        for worker in up:
            os.kill(worker._process.pid, signal.SIGKILL)
        return await asked

    assert ask(database, "SELECT 1", "SELECT 1", seconds=60.0).equal  # the worker is up
    assert asyncio.run(ask_and_kill()) == QueryResult("equal")


def test_a_worker_that_is_killed_twice_is_no_fault_of_the_model(tmp_path: Path) -> None:
    database = make_file(tmp_path)
    long = f"{ENDLESS} SELECT count(*) FROM r"
    pool = shared_pool("gym_llm.grading.sql.query_worker:grade", deadline=3 * 61.0 + 5.0)

    async def ask_and_kill() -> QueryResult:
        asked = asyncio.ensure_future(compare(Question(database, long, "SELECT 1", [SetRule()], 61.0)))
        killed: set[int] = set()
        while not asked.done():
            await asyncio.sleep(0.1)
            for worker in list(pool._live):
                # One that has begun: before that there is nothing to be killed for.
                if worker._process.pid not in killed and worker._note() == MODEL:
                    killed.add(worker._process.pid)
                    os.kill(worker._process.pid, signal.SIGKILL)
        return asked.result()

    with pytest.raises(WorkerDied) as died:
        asyncio.run(ask_and_kill())
    assert (died.value.exit_code, died.value.failure_kind) == (-signal.SIGKILL, "kill_shaped")


def test_the_callers_process_has_no_limits_of_the_workers() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    assert ask(Database(script=SCRIPT), "SELECT 1", "SELECT 1") == QueryResult("equal")
    assert resource.getrlimit(resource.RLIMIT_DATA) == (soft, hard)
