"""SQL statements in texts: found in what a model wrote, and written as a model would answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BEGINS = re.compile(r"\s{0,99}(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP)\b", re.IGNORECASE)
_ASCII_LETTER = re.compile("[a-zA-Z]")
_LETTER = re.compile(r"[^\W\d_]")
_WORDS = ("select", "insert", "update", "delete", "with")
_LONGEST = 200_000  # characters, the last ones
_MOST = 1_000  # blocks, or places of one of these words, that are looked at


def extract_sql(text: str, *, conform: bool = False) -> str | None:
    r"""Return the statement in the last ```sql block, else in the last bare one, else in the text itself.

    Args:
        text: What the model said.
        conform: Whether, as in NeMo Gym, an empty block counts, and a word inside of another one does.

    Returns:
        The stripped statement, or None.

    >>> extract_sql("So: ```sql\nSELECT 1;\n```"), extract_sql("It is SELECT a FROM b"), extract_sql("No idea.")
    ('SELECT 1;', 'SELECT a FROM b;', None)
    """
    text = text[-_LONGEST:]
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text  # of some letters two are made
    found = [block for block in _blocks(text, lowered, "```sql") if block or conform]
    found = found or [block for block in _blocks(text, lowered, "```") if _BEGINS.match(block)]
    if found:
        return found[-1]
    begin = min((place for word in _WORDS if (place := _find_word(lowered, word, inside=conform)) >= 0), default=None)
    if begin is None:
        return None
    end = text.rfind(";", begin)
    statement = text[begin : end if end >= 0 else len(text)].strip().rstrip(";").rstrip()
    return f"{statement};"


def last_sql_block(text: str, *, conform: bool = False) -> str | None:
    r"""Return the content of the last closed ```sql block that has a letter (BIRD's rule).

    Args:
        text: What the model said.
        conform: Whether to apply NeMo Gym's rules. `sql` must be in small letters. The statement loses comments (after
            `--` all text), extra white space, and `**…**` at its start.

    Returns:
        The stripped statement, or None.

    >>> last_sql_block("```sql\nSELECT 1 -- one\n, 2\n```"), last_sql_block("SELECT 1")
    ('SELECT 1 -- one\n, 2', None)
    >>> last_sql_block("```sql\nSELECT 1 -- one\n, 2\n```", conform=True)
    'SELECT 1'
    """
    text = text[-_LONGEST:]
    if conform:
        return _last_block_as_nemo_gym(text)
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text
    return next((block for block in reversed(list(_blocks(text, lowered, "```sql"))) if _LETTER.search(block)), None)


def _last_block_as_nemo_gym(text: str) -> str | None:
    """The last block, which goes on until there was a letter, as NeMo Gym runs it."""
    block, place = None, 0
    while (start := text.find("```sql", place)) >= 0:
        letter = _ASCII_LETTER.search(text, start + 6)
        end = text.find("```", letter.end()) if letter else -1
        if end < 0:
            break
        block, place = text[start + 6 : end], end + 3
    if block is None:
        return None
    block = " ".join(re.split(r"\s+", _without_comments(block)))
    if block.startswith("**") and (end := block.rfind("**")) >= 2:
        block = block[end + 2 :]
    return block.strip()


def _without_comments(statement: str) -> str:
    """Without `/*…*/`, and from `--` on without anything."""
    kept, place = [], 0
    line_comment = statement.find("--")
    while (start := statement.find("/*", place)) >= 0:
        if 0 <= line_comment < start or (end := statement.find("*/", start + 2)) < 0:
            break
        kept.append(statement[place:start])
        place = end + 2
        line_comment = statement.find("--", place)
    return "".join(kept) + statement[place : line_comment if line_comment >= 0 else None]


def _find_word(lowered: str, word: str, *, inside: bool) -> int:
    """Return the place of a word that stands alone, or perhaps inside of one, before a space; -1 without."""
    place = -1
    for _ in range(_MOST):
        place = lowered.find(word, place + 1)
        if place < 0:
            return -1
        before, behind = lowered[place - 1 : place], lowered[place + len(word) : place + len(word) + 1]
        if behind.isspace() and (inside or not (before.isalnum() or before == "_")):
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
