"""TextToSQL: finding the query, and a judge in both orders."""

from __future__ import annotations

import pytest
from judging import judged
from verifier_vectors import replay_all

from gym_llm.errors import DataError
from gym_llm.grading.sql.statements import extract_sql

ENV_ID = "gym_llm/TextToSQL-v0"
TASK = {"sql": "SELECT 1;", "sql_dialect": "Postgres", "sql_prompt": "One?", "sql_context": "CREATE TABLE t (a INT);"}
YES, NO = "[[A=B]]", "[[A!=B]]"


def test_recorded_episodes_score_as_recorded() -> None:
    replay_all("text_to_sql")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("```sql\nSELECT 1;\n```\nor ```SQL\nSELECT 2;\n```", "SELECT 2;"),
        ("```\nSELECT 3\n```", "SELECT 3"),
        ("```\nhello\n```\n```\nwith x as (select 1) select * from x\n```", "with x as (select 1) select * from x"),
        ("I would select a FROM b; and that; is all", "select a FROM b;"),
        ("delete\nfrom t", "delete\nfrom t;"),
        ("```sql\nSELECT 4;", "SELECT 4;"),
        ("Nothing to see.", None),
        ("selection", None),
    ],
)
def test_the_query_is_found(text: str, query: str | None) -> None:
    assert extract_sql(text) == query


@pytest.mark.parametrize("text", ["```sql" * 170_000, "SELECT " * 150_000, "`" * 1_000_000, ";" * 1_000_000])
def test_any_megabyte_is_read(text: str) -> None:
    extract_sql(text)


@pytest.mark.parametrize(("texts", "reward"), [((YES, YES), 1.0), ((YES, NO), 0.0), ((NO,), 0.0)])
def test_the_judge_has_to_agree_in_both_orders(texts: tuple[str, ...], reward: float) -> None:
    got, info = judged(ENV_ID, TASK, "```sql\nSELECT 2;\n```", *texts)
    assert (got, info["judge_passed"], info["extracted_sql"]) == (reward, reward == 1.0, "SELECT 2;")
    assert info["failure_reason"] == ("none" if reward else "judge_evaluation_failed")
    prompts = [call["responses_create_params"]["input"][-1]["content"] for call in info["judge_evaluations"]]
    assert all("Dialect: postgresql" in prompt for prompt in prompts)
    assert [prompt.index("SELECT 1;") < prompt.index("SELECT 2;") for prompt in prompts] == [True, False][: len(texts)]


def test_one_order_where_that_is_asked_for_and_a_reward_for_a_failed_swap() -> None:
    assert judged(ENV_ID, TASK, "SELECT 2", YES, check_twice_swap=False)[0] == 1.0
    assert judged(ENV_ID, TASK, "SELECT 2", YES, NO, reward_if_swap_fails=0.5)[0] == 0.5


def test_no_query_asks_nobody() -> None:
    reward, info = judged(ENV_ID, TASK, "I cannot.")
    assert (reward, info["failure_reason"], info["extracted_sql"]) == (0.0, "no_sql_extracted", None)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(DataError, match="sql_dialect is one of"):
        judged(ENV_ID, {**TASK, "sql_dialect": "oracle"}, "SELECT 1")


def test_upstream_takes_an_empty_block_for_the_query() -> None:
    _, info = judged(ENV_ID, TASK, "SELECT 1; ```sql\n```", conform="nemo")
    assert (info["extracted_sql"], info["failure_reason"], info["sql_dialect"]) == (
        "",
        "no_sql_extracted",
        "postgresql",
    )


FILLED = {
    "sql": "SELECT name FROM towns ORDER BY people DESC",
    "sql_dialect": "sqlite",
    "sql_prompt": "The towns, the largest first?",
    "sql_context": "CREATE TABLE towns (name TEXT, people INT); INSERT INTO towns VALUES ('Ely', 20), ('Rye', 4);",
}


@pytest.mark.parametrize(
    ("changes", "query", "execution", "texts"),
    [
        ({}, "SELECT name FROM towns ORDER BY -people", "equal", ()),
        ({}, "SELECT name FROM towns ORDER BY people", "different", (NO,)),
        ({"sql": "SELECT name FROM towns"}, "SELECT name FROM towns ORDER BY people", "equal", ()),
        ({}, "SELECT title FROM towns", "error", (NO,)),
        ({}, "DELETE FROM towns", "error", (NO,)),
        ({"sql": "SELECT name FROM towns WHERE people > 50"}, "SELECT 1 WHERE 0", "different", (NO,)),
        ({"sql": "SELECT NOW()"}, "SELECT 1", "gold_failed", (NO,)),
        ({"sql_context": "CREATE TABLE towns (name TEXT, people INT);"}, "SELECT 1", None, (NO,)),
        ({"sql_dialect": "mysql"}, "SELECT name FROM towns ORDER BY -people", None, (NO,)),
    ],
)
def test_equal_rows_ask_no_judge_where_queries_run_first(
    changes: dict[str, str], query: str, execution: str | None, texts: tuple[str, ...]
) -> None:
    reward, info = judged(ENV_ID, {**FILLED, **changes}, query, *texts, execute_first=True)
    assert (reward, info["judge_passed"], info.get("execution")) == (float(not texts), False, execution)
    assert info["failure_reason"] == ("judge_evaluation_failed" if texts else "none")


def test_by_default_nothing_runs() -> None:
    reward, info = judged(ENV_ID, FILLED, FILLED["sql"], NO)
    assert reward == 0.0 and "execution" not in info
