"""Running a model's SQL safely, and comparing its rows with those of the gold statement.

`compare` sends a statement to a worker process. The worker opens the database read-only, limits time and memory, and
compares the rows.
"""

from gym_llm.grading.sql.comparison import Cell, ColumnsRule, RowsRule, SetRule
from gym_llm.grading.sql.grade import compare
from gym_llm.grading.sql.question import Database, QueryResult, Question, check_databases, find_database
from gym_llm.grading.sql.statements import as_answer, extract_sql, last_sql_block, near_misses
from gym_llm.utils.limits import check_seconds

__all__ = [
    "Cell",
    "ColumnsRule",
    "Database",
    "QueryResult",
    "Question",
    "RowsRule",
    "SetRule",
    "as_answer",
    "check_databases",
    "check_seconds",
    "compare",
    "extract_sql",
    "find_database",
    "last_sql_block",
    "near_misses",
]
