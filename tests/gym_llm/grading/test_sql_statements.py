"""The SQL statement in what a model wrote."""

from __future__ import annotations

import pytest
from testing import cpu_seconds

from gym_llm.grading.sql import extract_sql, last_sql_block

Q = "SELECT count(*) FROM t"


@pytest.mark.parametrize(
    "text",
    [
        *(f"```{name}\n{Q}\n```" for name in ("sql", "sqlite", "SQLite", "postgresql", "mysql", "tsql", "PL/SQL")),
        *(f'```{info}\n{Q}\n```' for info in ('sql title="q.sql"', "{.sql}", " sql", "sql (SQLite)", "query")),
        f"~~~sql\n{Q}\n~~~", f"> ```sql\n> {Q}\n> ```", f"1. Query:\n   ```sql\n   {Q}\n   ```", f"```sql {Q} ```",
        f"```\nsql\n{Q}\n```", f"```sql\n**Query**\n{Q}\n```", f"```\n{Q}\n```", f"```\n-- all\n{Q}\n```",
        f"```sql\n{Q}\n```\n```python\nwith open(f) as g:\n    pass\n```", f"```sql\n{Q}\n```\n```\n3\n```",
        f"```sql\n{Q}\n```\n```sqlalchemy\nselect(t)\n```", f"```sql\n{Q}\n```\nIn pandas:\n```python\nlen(t)\n```",
        f"```sql\n{Q}\n```\n```sqlresult\nSELECT 0\n```", f"```sqlite\nSELECT 0\n```\n```sql\n{Q}\n```",
        f"<sql>{Q}</sql>", f"<SQL>\n{Q}\n</SQL>\nThis counts.", f"<sql>```sql\n{Q}\n```</sql>", f"`{Q}`", f"Run `{Q}`.",
        Q, f"{Q};", f"SQL: {Q}", f"The query is {Q}. It counts the rows.", f"{Q}\n\nThis counts the rows; all of them.",
        f"{Q}\nThis counts the rows", f"{Q};\n\nNote: done; or not.", f"{Q}\n\n- It counts.", f"{Q}\n**Why**\nso",
        f"First:\nSELECT 0;\nBetter:\n{Q};", f"Use SELECT for this. Answer: {Q}", f"({Q})", f"```sql\n{Q}",
        f'"{Q}"', f"“{Q}”", f"$${Q}$$", f"'''sql\n{Q}\n'''", f'"""\n{Q}\n"""', f"\\boxed{{{Q}}}",
        f"SELECT all. ```{Q}```",
    ],
)  # fmt: skip
def test_the_statement_is_found_alone(text: str) -> None:
    sql = extract_sql(text)
    assert sql is not None and sql.removeprefix("-- all\n").rstrip(";") == Q


@pytest.mark.parametrize(
    "statement",
    [
        "WITH a AS (\n  SELECT 1\n),\n\nb AS (SELECT 2)\nSELECT * FROM b",
        "SELECT a\nFROM t\n\nWHERE b = 'it''s; ok. Yes'\nORDER BY a",
        "select a -- it's\nfrom t\nunion\nselect b\nfrom u",
        "SELECT Name,\n  Age years\nFROM t\nLIMIT 1",
        'SELECT "a;b", `c` FROM t WHERE d IN (\n\n SELECT e FROM f\n)',
        "SELECT a FROM t\nWHERE b LIKE '%No. Way%'",
        "INSERT INTO t VALUES (1)",
        "UPDATE t\nSET a = 1",
    ],
)
def test_a_statement_is_whole(statement: str) -> None:
    behind = ("", ";", "\n\nThis is it.", ";\n\nWith this we see it.")
    for text in (f"{before}{statement}{after}" for before in ("", "Answer:\n") for after in behind):
        assert extract_sql(text) == f"{statement};"


@pytest.mark.parametrize(
    "piece",
    ["SELECT (\n", "/*", "SELECT '", "<sql>", "WITH a(", "UPDATE a ", "SELECT \n\n A b", "\n((((", "''", "SELECT 1;\n",
     "`SELECT ", "\n \n", "SELECT a\n", "A b\n", "~~~sql\n", "CREATE "],
)  # fmt: skip
def test_hostile_texts_take_linear_time(piece: str) -> None:
    assert cpu_seconds(lambda: extract_sql(piece * (1_000_000 // len(piece)))) < 1.5


@pytest.mark.parametrize("thought", [f"<think>```sql\n{Q}\n```</think>", f"```sql\n{Q}\n```</think>", f"<thinking>{Q}"])
def test_what_is_thought_is_no_statement(thought: str) -> None:
    assert extract_sql(f"{thought}I do not know.") is last_sql_block(thought) is None
