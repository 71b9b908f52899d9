"""A proposal of `--map` for rows with columns of their own."""

from __future__ import annotations

from collections.abc import Sequence

from gym_llm.types import Row

_QUESTIONS = ("question", "prompt", "problem", "query", "instruction", "input", "text", "task", "description")
_ANSWERS = ("answer", "expected_answer", "solution", "target", "label", "output", "gold", "response", "reference")
_SHOWN_COLUMNS = 20


def proposed_map(row: Row, required: Sequence[str]) -> str:
    """Return the sentences that name a row's columns and a mapping to try.

    >>> proposed_map({"question": "2+2?", "answer": "4", "level": 1}, ["expected_answer"])
    " The columns are question, answer, level. Try --map 'question=input, answer=expected_answer'."

    Args:
        row: The first row.
        required: The fields that the environment's rows must have.
    """
    if not row:
        return ""
    columns = list(map(str, row))
    free = [name for name in columns if name not in required] or columns
    question = _first(free, _QUESTIONS) or next((name for name in free if isinstance(row[name], str)), free[0])
    entries = [f"{question}=input"]
    others = [name for name in free if name != question]
    for field in required:
        if field not in columns:
            column = _first(others, _ANSWERS) or "COLUMN"
            entries.append(f"{column}={field}")
            others = [name for name in others if name != column]
    shown = ", ".join(columns[:_SHOWN_COLUMNS]) + (", …" if len(columns) > _SHOWN_COLUMNS else "")
    return f" The columns are {shown}. Try --map '{', '.join(entries)}'."


def _first(columns: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the column with a known name, in the order of the names; whole names come before parts of names."""
    named = (column for name in known for column in columns if column.lower() == name)
    parts = (column for name in known for column in columns if name in column.lower())
    return next(named, None) or next(parts, None)
