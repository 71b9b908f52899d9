"""BirdSQL: BIRD's folders, its rule, and where NeMo Gym's is another."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import row, scored
from verifier_vectors import all_vectors_of

from gym_llm.author.conform import replay_vector
from gym_llm.errors import DataError

ENV_ID = "gym_llm/BirdSQL-v0"
GOLD = "SELECT name, age FROM people WHERE age > 30"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """BIRD's layout, with one database."""
    path = tmp_path / "town" / "town.sqlite"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE people (name TEXT, age INTEGER);"
            "INSERT INTO people VALUES ('Ann  Lee', 41), ('Bo', 35), ('Cy', 20), ('Bo', 35);"
        )
    return tmp_path


def play(folder: Path, answer: str, gold: str = GOLD, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    kwargs = {"bird_sql_dir": str(folder), **kwargs}
    return scored(ENV_ID, answer, kwargs, question="Who?", gt_sql=gold, db_id="town", difficulty="simple", id=3)


def block(query: str) -> str:
    return f"Let me see.\n```sql\n{query}\n```"


@pytest.mark.parametrize(
    ("query", "reward", "status"),
    [
        (GOLD, 1.0, "equal"),
        (f"{GOLD};", 1.0, "equal"),
        (f"-- the older ones\n{GOLD} -- all of them", 1.0, "equal"),
        ("SELECT DISTINCT name, age FROM people WHERE age >= 35 ORDER BY age DESC", 1.0, "equal"),
        ("SELECT age, name FROM people WHERE age > 30", 0.0, "different"),
        ("SELECT name FROM people WHERE age > 30", 0.0, "different"),
        ("SELECT nme FROM people", 0.0, "error"),
        ("DELETE FROM people", 0.0, "error"),
    ],
)
def test_the_same_set_of_rows_is_right(folder: Path, query: str, reward: float, status: str) -> None:
    got, info = play(folder, block(query))
    assert (got, info["execution_status"], info["execution_match"]) == (reward, status, reward == 1.0)
    assert info["failure_reason"] == {"equal": "none", "different": "result_mismatch"}.get(status, "execution_error")
    assert (info["extracted_sql"], info["had_codeblock"]) == (query, True)


def test_the_last_block_counts_and_without_one_the_statement_in_the_text(folder: Path) -> None:
    assert play(folder, block("SELECT 1") + block(GOLD))[0] == 1.0
    assert play(folder, f"```SQL\n{GOLD}\n```")[0] == 1.0
    for answer in (GOLD, f"<sql>{GOLD}</sql>", f"`{GOLD}`", f"The query:\n{GOLD}\n\nIt lists them."):
        assert (play(folder, answer)[0], play(folder, answer)[1]["had_codeblock"]) == (1.0, False)
        assert play(folder, answer, conform="nemo")[0] == 0.0
    for answer in ("Who knows?", "", "```sql\n1\n```"):
        reward, info = play(folder, answer, gold="SELECT 1")
        assert (reward, info["failure_reason"], info["had_codeblock"]) == (0.0, "no_sql_extracted", False)
        assert info["extracted_sql"] is None is info["execution_status"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (block(f"-- all\n{GOLD} -- of them"), "none"),
        (f"```SQL\n{GOLD}\n```", "none"),
        (block(f"**Query** {GOLD}"), "none"),
        (block(f"**Query**\n{GOLD}"), "none"),
        (block(f"{GOLD} -- all\n, nonsense"), "execution_error"),
        (f"```sqlite\n{GOLD}\n```", "no_sql_extracted"),
        (GOLD, "no_sql_extracted"),
        ("Who knows?", "no_sql_extracted"),
        (block("SELECT name FROM people"), "result_mismatch"),
    ],
)
def test_as_in_nemo_gym_a_block_of_sql_counts_with_its_comments(folder: Path, answer: str, reason: str) -> None:
    reward, info = play(folder, answer, conform="nemo")
    assert (reward, info["failure_reason"]) == (float(reason == "none"), reason)


def test_a_gold_statement_that_fails_is_no_reward_but_in_nemo_gym(folder: Path) -> None:
    with pytest.raises(DataError, match=r"gold statement fails.*no such table: nobody"):
        play(folder, block(GOLD), gold="SELECT * FROM nobody")
    reward, info = play(folder, block(GOLD), gold="SELECT * FROM nobody", conform="nemo")
    assert (reward, info["failure_reason"]) == (0.0, "gold_execution_error")


def test_nothing_is_written_not_even_as_nemo_gym_does(folder: Path) -> None:
    path = folder / "town" / "town.sqlite"
    before = hashlib.sha256(path.read_bytes()).digest()
    for conform in (None, "nemo"):
        for query in ("DELETE FROM people", "DROP TABLE people", "INSERT INTO people VALUES ('Di', 50)"):
            assert play(folder, block(query), conform=conform)[1]["execution_status"] == "error"
            assert play(folder, block(GOLD), conform=conform)[0] == 1.0
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_database_that_is_not_there_is_said_when_the_rows_are_loaded(folder: Path) -> None:
    rows = [row("Who?", question="Who?", gt_sql=GOLD, db_id=name) for name in ("town", "village")]
    with pytest.raises(DataError, match=r"bird_sql_dir .* has no database village/village.sqlite"):
        gym.make(ENV_ID, tasks=rows, bird_sql_dir=str(folder))
    with pytest.raises(DataError, match="has no database town"):
        gym.make(ENV_ID, tasks=rows[:1])
    (folder / "village").mkdir()
    (folder / "village" / "village.sqlite").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(DataError, match="is not a SQLite database"):
        gym.make(ENV_ID, tasks=rows, bird_sql_dir=str(folder))
    for name in ("../town", "..", "", "town/town", "a\0b"):
        with pytest.raises(DataError, match="db_id is the name of a database"):
            gym.make(ENV_ID, tasks=[{**rows[0], "db_id": name}], bird_sql_dir=str(folder))


def test_a_folder_of_files_and_scripts_will_do(folder: Path) -> None:
    (folder / "town" / "town.sqlite").rename(folder / "town.sqlite")
    assert play(folder, block(GOLD))[0] == 1.0
    (folder / "town.sqlite").unlink()
    (folder / "town.sql").write_text("CREATE TABLE people AS SELECT 'Eve' AS name, 77 AS age;")
    assert play(folder, block("SELECT 'Eve', 77"))[0] == 1.0


def test_seconds_are_seconds() -> None:
    for seconds in (0, -1, True, "5", float("inf")):
        with pytest.raises(ValueError, match="sql_execution_timeout_s"):
            gym.make(ENV_ID, sql_execution_timeout_s=seconds)


def test_recorded_episodes_are_skipped_without_their_databases() -> None:
    vectors = all_vectors_of("bird_sql")
    if not vectors:
        pytest.skip("no vectors")
    assert {replay_vector(vector).skipped for vector in vectors} == {"its check is 'unchecked'"}
    missing = [replay_vector(vector, all_checks=True).disagreements[0].got for vector in vectors]
    assert all("has no database california_schools" in got for got in missing)
