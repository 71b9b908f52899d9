"""Spider2Lite: the gold columns among others, from a statement or from recorded rows."""

from __future__ import annotations

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

ENV_ID = "gym_llm/Spider2Lite-v0"
GOLD = "SELECT name, SUM(goals) AS goals FROM players GROUP BY name"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Spider 2's layout, with one database."""
    with closing(sqlite3.connect(tmp_path / "club.sqlite")) as connection:
        connection.executescript(
            "CREATE TABLE players (name TEXT, goals INTEGER, height REAL);"
            "INSERT INTO players VALUES ('Ana', 2, 1.7), ('Ben', 5, 1.9), ('Ana', 1, 1.7), ('Cid', NULL, 1.8);"
        )
    return tmp_path


def play(folder: Path, query: str, conform: str | None = None, **fields: Any) -> tuple[float, dict[str, Any]]:
    kwargs = {"spider2_lite_dir": str(folder), "conform": conform}
    return scored(
        ENV_ID, f"```sql\n{query}\n```", kwargs, question="Who?", db_id="club", **(fields or {"gold_sql": GOLD})
    )


@pytest.mark.parametrize(
    ("query", "right", "as_nemo_gym"),
    [
        (GOLD, True, True),
        ("SELECT SUM(goals) + 0.004, 'x', name FROM players GROUP BY name ORDER BY name DESC", True, True),
        ("SELECT SUM(goals) + 0.02, name FROM players GROUP BY name", False, False),
        ("SELECT name FROM players GROUP BY name", False, False),
        ("SELECT name, goals FROM players", False, False),
        ("SELECT name, COALESCE(SUM(goals), 0) FROM players GROUP BY name", False, True),
        # Each column is right, but not beside the other.
        ("SELECT 'Ana' AS name, NULL AS n UNION ALL SELECT 'Ben', 3 UNION ALL SELECT 'Cid', 5", False, True),
        ("SELECT nobody", False, False),
    ],
)
def test_the_gold_columns_have_to_be_there_together(folder: Path, query: str, right: bool, as_nemo_gym: bool) -> None:
    reward, info = play(folder, query)
    assert (reward, info["execution_match"]) == (float(right), right)
    assert info["failure_reason"] == ("none" if right else "execution_error")
    assert play(folder, query, "nemo")[0] == float(as_nemo_gym)


def test_recorded_results_are_alternatives_with_their_own_columns(folder: Path) -> None:
    results = [[["Ana", "3"], ["Ben", "5.0"], ["Cid", None]], [["Ben", 1, 1.9]]]
    both: dict[str, Any] = {"gold_result": results, "condition_cols": [[0], [0, 2]]}
    for conform in (None, "nemo"):
        assert play(folder, "SELECT DISTINCT name FROM players", conform, **both)[0] == 1.0
        assert play(folder, "SELECT height, name FROM players WHERE goals = 5", conform, **both)[0] == 1.0
        assert play(folder, "SELECT name FROM players WHERE goals = 5", conform, **both)[0] == 0.0
        assert play(folder, GOLD, conform, gold_result=results)[0] == 1.0
        assert play(folder, GOLD, conform, gold_result=results, condition_cols=[1])[0] == 1.0
        assert play(folder, "SELECT 1 WHERE 0", conform, gold_result=[[]])[0] == 1.0
    assert play(folder, "DROP TABLE players", gold_result=[[]])[0] == 0.0
    assert play(folder, "DROP TABLE players", "nemo", gold_result=[[]])[0] == 1.0


def test_order_counts_where_the_row_says_so(folder: Path) -> None:
    ordered = {"gold_sql": "SELECT name FROM players ORDER BY goals DESC", "ignore_order": False}
    assert play(folder, "SELECT goals, name FROM players ORDER BY goals DESC", **ordered)[0] == 1.0
    assert play(folder, "SELECT name FROM players ORDER BY goals", **ordered)[0] == 0.0
    assert play(folder, "SELECT name FROM players ORDER BY goals", **{**ordered, "ignore_order": True})[0] == 1.0


def test_no_statement_is_worth_nothing(folder: Path) -> None:
    kwargs = {"spider2_lite_dir": str(folder)}
    reward, info = scored(ENV_ID, "No idea.", kwargs, question="?", db_id="club", gold_sql=GOLD)
    assert (reward, info["failure_reason"], info["extracted_sql"]) == (0.0, "no_sql_extracted", None)


def test_writes_change_nothing_for_anyone(folder: Path) -> None:
    before = (folder / "club.sqlite").read_bytes()
    for conform in (None, "nemo"):
        play(folder, "DELETE FROM players", conform)
        assert play(folder, GOLD, conform)[0] == 1.0
    assert (folder / "club.sqlite").read_bytes() == before and len(list(folder.iterdir())) == 1


def test_a_gold_statement_that_fails_is_no_reward(folder: Path) -> None:
    for conform in (None, "nemo"):
        with pytest.raises(DataError, match=r"gold statement fails.*no such column: shirt"):
            play(folder, GOLD, conform, gold_sql="SELECT shirt FROM players")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "a row has gold_sql or gold_result"),
        ({"gold_result": []}, "a row has gold_sql or gold_result"),
        ({"gold_result": [[[1, 2], [3]]]}, "the same number of cells"),
        ({"gold_sql": "SELECT 1", "condition_cols": [-1]}, "condition_cols are columns, from 0"),
        ({"gold_sql": "SELECT 1", "db_id": "nowhere"}, "spider2_lite_dir .* has no database nowhere"),
    ],
)
def test_wrong_rows_are_refused(folder: Path, fields: dict[str, Any], message: str) -> None:
    task = row("?", **{"question": "?", "db_id": "club", **fields})
    with pytest.raises(DataError, match=message):
        gym.make(ENV_ID, tasks=[task], spider2_lite_dir=str(folder))


def test_recorded_episodes_are_skipped_without_their_databases() -> None:
    vectors = all_vectors_of("spider2_lite")
    if not vectors:
        pytest.skip("no vectors")
    assert {replay_vector(vector).skipped for vector in vectors} == {"its check is 'unchecked'"}


def test_recorded_statements_are_found_as_recorded() -> None:
    vectors = [vector for vector in all_vectors_of("spider2_lite") if vector.get("info")]
    if not vectors:
        pytest.skip("no vectors")
    for vector in vectors:  # its database is not here: on another one no column is known
        task = {**vector["task"], "db_id": "kilns", "gold_sql": "SELECT 1"}
        replayed = replay_vector({**vector, "task": task, "reward": 0.0}, all_checks=True)
        assert {each.field for each in replayed.disagreements} <= {"opening", "execution_match", "failure_reason"}
