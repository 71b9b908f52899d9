"""SQLQuery: a database in the row, and generated ones."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest
from testing import message, row, scored

from gym_llm.errors import DataError

ENV_ID = "gym_llm/SQLQuery-v0"
SCHEMA = """
CREATE TABLE cups (id INTEGER PRIMARY KEY, colour TEXT, litres REAL);
INSERT INTO cups VALUES (1, 'red', 0.2), (2, 'blue', 0.25), (3, 'red', 0.3);
"""
GOLD = "SELECT colour, SUM(litres) FROM cups GROUP BY colour ORDER BY colour"


def play(query: str, **fields: Any) -> tuple[float, dict[str, Any]]:
    fields = {"gold_sql": GOLD, **fields} if "expected_rows" not in fields else fields
    return scored(ENV_ID, query, {"deadline": 1.0}, question="How much?", schema=SCHEMA, **fields)


@pytest.mark.parametrize(
    ("query", "unordered", "ordered"),
    [
        (GOLD, 1.0, 1.0),
        (f"```sql\n{GOLD};\n```", 1.0, 1.0),
        ("SELECT colour, SUM(litres) FROM cups GROUP BY colour ORDER BY colour DESC", 1.0, 0.0),
        ("SELECT 'blue', 0.25 UNION ALL SELECT 'red', 0.5", 1.0, 1.0),
        ("SELECT 'blue', 0.25 UNION ALL SELECT 'red', 0.51", 0.0, 0.0),
        ("SELECT SUM(litres), colour FROM cups GROUP BY colour", 0.0, 0.0),
        ("SELECT colour, SUM(litres), 1 FROM cups GROUP BY colour", 0.0, 0.0),
        ("SELECT colour, litres FROM cups", 0.0, 0.0),
    ],
)
def test_the_gold_rows_are_right(query: str, unordered: float, ordered: float) -> None:
    expected = [["blue", 0.25], ["red", 0.5]]
    for gold in ({"gold_sql": GOLD}, {"expected_rows": expected}):
        assert play(query, **gold)[0] == unordered
        assert play(query, ordered=True, **gold)[0] == ordered


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("SELECT nothing FROM cups", "error"),
        ("DELETE FROM cups", "error"),
        ("WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r", "timed_out"),
        ("No idea.", None),
    ],
)
def test_what_went_wrong_is_said(query: str, status: str | None) -> None:
    reward, info = play(query)
    assert (reward, info["execution_status"], info["execution_match"]) == (0.0, status, False)
    assert (info["execution_error"] is None) == (status is None)


def test_a_gold_query_that_fails_masks_the_episode() -> None:
    with pytest.raises(DataError, match=r"gold statement fails.*no such column: height"):
        play(GOLD, gold_sql="SELECT height FROM cups")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "gold_sql or expected_rows, and not both"),
        ({"gold_sql": "SELECT 1", "expected_rows": [[1]]}, "gold_sql or expected_rows, and not both"),
        ({"expected_rows": [[1], [1, 2]]}, "the same number of cells"),
        ({"expected_rows": [[{"a": 1}]]}, "expected_rows"),
    ],
)
def test_wrong_rows_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        gym.make(ENV_ID, tasks=[row("?", question="?", schema=SCHEMA, **fields)])
    with pytest.raises(DataError, match="schema"):
        gym.make(ENV_ID, tasks=[row("?", question="?", gold_sql="SELECT 1")])


def test_generated_questions_have_an_answer_and_differ() -> None:
    env = gym.make(ENV_ID, disable_env_checker=True)
    questions, kinds = set(), set()
    for index in range(60):
        request, _ = env.reset(options={"task_index": index})
        task = env.unwrapped._task  # type: ignore[attr-defined]
        prompt = request["input"][0]["content"]
        assert task.statements in prompt and task.question in prompt and task.gold_sql not in prompt
        questions.add(json.dumps([task.statements, task.question]))
        kinds.add(task.gold_sql.split(" FROM ")[0].split("(")[0])
        assert task.ordered == (" ORDER BY " in task.gold_sql.rpartition(")")[2])
        _, reward, _, _, info = env.step(message(f"```sql\n{task.gold_sql}\n```"))
        assert (reward, info["execution_status"]) == (1.0, "equal")
        env.reset(options={"task_index": index})
        assert env.step(message("```sql\nSELECT 'nobody', 0\n```"))[1] == 0.0
    assert len(questions) == 60 and len(kinds) > 4
    env.close()


def test_the_same_seed_draws_the_same_task() -> None:
    envs = [gym.make(ENV_ID, disable_env_checker=True) for _ in range(2)]
    assert envs[0].reset(options={"task_index": 5}) == envs[1].reset(options={"task_index": 5})
    for seconds in (0, "1"):
        with pytest.raises(ValueError, match="deadline"):
            gym.make(ENV_ID, deadline=seconds)
