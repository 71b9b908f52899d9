"""SQL statements in texts: found in what a model wrote, and written as a model would answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from gym_llm.grading.answers import last_boxed
from gym_llm.grading.fences import Fence, fences
from gym_llm.grading.sql.plain_text import COMMENT, VERBS, statement_in
from gym_llm.tokens.parsers.thinking import strip_thinking

DIALECTS = {
    *("sql", "sqlite", "sqlite3", "postgresql", "postgres", "pgsql", "psql", "plpgsql", "mysql", "mariadb", "tsql"),
    *("t-sql", "mssql", "sqlserver", "duckdb", "bigquery", "snowflake", "oracle", "plsql", "sparksql", "spark-sql"),
    *("hive", "hiveql", "presto", "trino", "redshift", "clickhouse", "ansi-sql", "db2"),
}
"""What a fenced block of SQL is called."""
_BEGINS = re.compile(rf"(?:[\s(]|{COMMENT})*+{VERBS}", re.IGNORECASE)
_LABEL = re.compile(rf"\*\*[^\n*]*+\*\*|(?:{'|'.join(map(re.escape, sorted(DIALECTS)))}):?[ \t]*\n", re.IGNORECASE)
_TAG = re.compile(r"<(sql|query)>", re.IGNORECASE)
_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)([^`]++)\1(?!`)")
_QUOTES = ('"', "'''", "“", "$")
_NEMO_BEGINS = re.compile(r"\s{0,99}(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP)\b", re.IGNORECASE)
_ASCII_LETTER = re.compile("[a-zA-Z]", re.IGNORECASE)
_NEMO_BLOCK = re.compile(r"```sql\b", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d_]")
_WORDS = ("select", "insert", "update", "delete", "with")
_LONGEST = 200_000  # characters, the last ones
_MOST = 1_000  # blocks, or places of one of these words, that are looked at


def extract_sql(text: str, *, conform: bool = False) -> str | None:
    r"""Return the statement in the last SQL block, else in the last `<sql>`, else in another block, else in the text.

    A block is SQL's if it has the name of a dialect, whole, as in "```sqlite". One without a name comes next, and one
    of another name last; both count only if they begin as a statement. The text may have it between back-ticks.

    Args:
        text: What the model said.
        conform: Whether to read as NeMo Gym does: any block that begins with "```sql", else any, else the text up to
            its last semicolon.

    Returns:
        The stripped statement, or None.

    >>> extract_sql("So: ```sql\nSELECT 1;\n```"), extract_sql("It is SELECT a FROM b"), extract_sql("No idea.")
    ('SELECT 1;', 'SELECT a FROM b;', None)
    >>> extract_sql("```sqlite\nSELECT 1\n```"), extract_sql("So `SELECT a FROM b` it is.")
    ('SELECT 1', 'SELECT a FROM b')
    """
    text = text[-_LONGEST:]
    if conform:
        return _extract_as_nemo_gym(text)
    text = strip_thinking(text)
    blocks = [(fence.language, _statement_of(fence)) for fence in fences(text) if fence.closed]
    for statements in (
        [body for language, body in blocks if language in DIALECTS and _LETTER.search(body)],
        [_unlabelled(body) for body in _tagged(text) if _LETTER.search(body)],
        [body for language, body in blocks if not language and _BEGINS.match(body)],
        [body for language, body in blocks if language and _BEGINS.match(body)],
        [
            span[2].strip()
            for span in islice(_SPAN.finditer(text), _MOST if "`" in text else 0)
            if _BEGINS.match(span[2])
        ],
    ):
        if statements:
            return statements[-1]
    if "\\boxed" in text and _BEGINS.match(box := last_boxed(text) or ""):
        text = box
    elif text.lstrip().startswith(_QUOTES):
        text = text.strip("\"'“”$ \n")
    statement = statement_in(text)
    return f"{statement};" if statement else None


def _statement_of(fence: Fence) -> str:
    """Return a block's statement, which may begin on the line of the opening mark."""
    return f"{fence.info}\n{fence.body}".strip() if _BEGINS.match(f"{fence.info}\n") else _unlabelled(fence.body)


def _unlabelled(body: str) -> str:
    """Return a block's statement without a bold heading or the dialect's name before it."""
    body = body.strip()
    return body[match.end() :].strip() if (match := _LABEL.match(body)) else body


def _tagged(text: str) -> Iterator[str]:
    for opening in islice(_TAG.finditer(text), _MOST):
        end = text.find("</", opening.end())
        if end >= 0 and text[end + 2 : end + 3 + len(opening[1])].lower() == f"{opening[1].lower()}>":
            yield text[opening.end() : end]


def _extract_as_nemo_gym(text: str) -> str | None:
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text  # of some letters two are made
    found = list(_blocks(text, lowered, "```sql"))
    found = found or [block for block in _blocks(text, lowered, "```") if _NEMO_BEGINS.match(block)]
    if found:
        return found[-1]
    begin = min((place for word in _WORDS if (place := _find_word(lowered, word)) >= 0), default=None)
    if begin is None:
        return None
    end = text.rfind(";", begin)
    statement = text[begin : end if end >= 0 else len(text)].strip().rstrip(";").rstrip()
    return f"{statement};"


def last_sql_block(text: str, *, conform: bool = False) -> str | None:
    r"""Return the content of the last closed SQL block that has a letter (BIRD's rule).

    Args:
        text: What the model said.
        conform: Whether to apply NeMo Gym's rules. A mark inside of the statement ends the block only behind its first
            letter. The statement loses `**…**` at its start.

    Returns:
        The stripped statement, or None.

    >>> last_sql_block("```sql\nSELECT 1 -- one\n, 2\n```"), last_sql_block("SELECT 1")
    ('SELECT 1 -- one\n, 2', None)
    >>> last_sql_block("```SQL\n**Query** SELECT 1\n```", conform=True)
    'SELECT 1'
    """
    text = text[-_LONGEST:]
    if conform:
        return _last_block_as_nemo_gym(text)
    blocks = [fence for fence in fences(strip_thinking(text)) if fence.closed]
    bodies = [_statement_of(fence) for fence in blocks if fence.language in DIALECTS]
    return next((body for body in reversed(bodies) if _LETTER.search(body)), None)


def _last_block_as_nemo_gym(text: str) -> str | None:
    """The last block, which goes on until there was a letter, as NeMo Gym runs it."""
    block, place = None, 0
    while opening := _NEMO_BLOCK.search(text, place):
        letter = _ASCII_LETTER.search(text, opening.end())
        end = text.find("```", letter.end()) if letter else -1
        if end < 0:
            break
        block, place = text[opening.end() : end].strip(), end + 3
    if block is None:
        return None
    first_line = block.partition("\n")[0]
    if first_line.startswith("**") and (end := first_line.rfind("**")) >= 2:
        block = block[end + 2 :].strip()
    return block


def _find_word(lowered: str, word: str) -> int:
    """Return the place of a word before a space, perhaps the end of another one; -1 without."""
    place = -1
    for _ in range(_MOST):
        place = lowered.find(word, place + 1)
        if place < 0:
            return -1
        if lowered[place + len(word) : place + len(word) + 1].isspace():
            return place
    return -1


def _blocks(text: str, lowered: str, opening: str) -> Iterator[str]:
    """Yield the stripped contents of the closed blocks that open so."""
    place = 0
    for _ in range(_MOST):
        start = lowered.find(opening, place)
        end = text.find("```", start + len(opening)) if start >= 0 else -1
        if end < 0:
            return
        yield text[start + len(opening) : end].strip()
        place = end + 3


def as_answer(statement: str) -> str:
    """Return the statement in a block."""
    return f"```sql\n{statement}\n```"


def near_misses(gold: str) -> list[str]:
    """Return answers that contain the gold statement and do not give its rows, if it has any."""
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
