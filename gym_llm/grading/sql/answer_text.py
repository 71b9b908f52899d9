"""A gold statement as a model would give it, and what looks like it: for `gym-llm env attack`."""

from __future__ import annotations


def as_answer(statement: str) -> str:
    """The statement in a block."""
    return f"```sql\n{statement}\n```"


def near_misses(gold: str) -> list[str]:
    """Answers with the gold statement in them that do not give its rows, if it has any."""
    gold = gold.strip().rstrip(";")
    quoted = gold.replace("'", "''")
    return [
        as_answer(statement)
        for statement in (
            f"SELECT * FROM (\n{gold}\n) LIMIT 0",
            f"EXPLAIN {gold}",
            f"{gold};\n{gold}",
            f"SELECT '{quoted}'",
            f"/*\n{gold}\n*/ SELECT 1",
        )
    ]
