"""The SQL statement in a text without a fenced block: where it begins, and where the prose behind it begins."""

from __future__ import annotations

import re

_NAME = r"[^\s(]{1,99}"
VERBS = (
    rf"(?:SELECT\s|WITH\s+(?:RECURSIVE\s+)?{_NAME}\s*(?:\([^()]{{0,999}}\)\s*)?AS\s*(?:(?:NOT\s+)?MATERIALIZED\s*)?\("
    rf"|VALUES\s*\(|(?:INSERT|REPLACE)\s+(?:OR\s+\w+\s+)?INTO\s|UPDATE\s+{_NAME}\s[^;]{{0,99}}?\bSET\s|DELETE\s+FROM\s"
    r"|(?:CREATE|ALTER|DROP)\s+(?:\w+\s+){0,3}(?:TABLE|VIEW|INDEX|TRIGGER)\s|(?:EXPLAIN|PRAGMA)\s)"
)
"""How a statement begins."""
COMMENT = r"(?:--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))"
_STARTS = re.compile(rf"(?:^|:)[ \t>(*_]{{0,20}}(?P<statement>{VERBS})", re.IGNORECASE | re.MULTILINE)
_UPPER_CASE = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|WITH)\s")
_ANY_CASE = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|WITH)\s", re.IGNORECASE)
_TOKEN = re.compile(
    rf"'[^']*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z)|`[^`\n]*+`|{COMMENT}|[();`]|</"
    r"|(?:\n[ \t\r]*+)++(?=(?P<line>[^\n]*+))|[.!?][ \t]++(?P<sentence>(?=[A-Z][a-z']))"
)
_PROSE = re.compile(
    r"[>*_ \t]*+[A-Z][a-z]*+(?:['’][a-z]++)?+(?:[.!:,]|[ \t]++[a-z`(\"'])"  # "This counts", "Note:"
    r"|(?:[-*•]|\d{1,3}[.)])[ \t]++[A-Z`*]|#|\*\*|`"
)
_CLAUSE = re.compile(
    r"(?:[(),*+/<>=|'\"-]|(?:FROM|WHERE|LEFT|RIGHT|INNER|OUTER|FULL|CROSS|NATURAL|JOIN|ON|USING|AND|OR|NOT|IN|GROUP|ORDER"
    r"|HAVING|LIMIT|OFFSET|UNION|INTERSECT|EXCEPT|SELECT|VALUES|SET|CASE|WHEN|ELSE|END|AS|WINDOW|RETURNING)\b"
    r"|\w++\s++AS\s*+\()",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    r"(?:[,(=<>+*/|-]|\b(?:SELECT|DISTINCT|FROM|WHERE|JOIN|ON|AND|OR|NOT|IN|BY|HAVING|UNION|ALL|AS|SET))\s*\Z",
    re.IGNORECASE,
)
_MOST_STATEMENTS = 100
_FIRST_WORDS = (
    *("select", "with", "values", "insert", "replace", "update", "delete", "create", "alter", "drop", "explain"),
    "pragma",
)


def statement_in(text: str) -> str | None:
    r"""Return the last statement that begins a line or follows a colon, else what the first such word begins, or None.

    It ends at a semicolon, a back-tick, a tag, a closing bracket of the sentence or a line of prose.

    >>> statement_in("It is: SELECT a FROM b\n\nThis reads a."), statement_in("Use WITH x as I said")
    ('SELECT a FROM b', 'WITH x as I said')
    """
    lowered = text.lower()
    if not any(word in lowered for word in _FIRST_WORDS):  # the expressions are slow
        return None
    statement = None
    position = 0
    for _ in range(_MOST_STATEMENTS):
        match = _STARTS.search(text, position)
        if match is None:
            break
        word = match["statement"].split(None, 1)[0]
        position = match.end()
        if word.isupper() or word.islower():
            position = max(position, _end(text, match.start("statement")))
            statement = text[match.start("statement") : position]
    if statement is None:
        match = _UPPER_CASE.search(text) or _ANY_CASE.search(text)
        if match is None:
            return None
        statement = text[match.start() : _end(text, match.start())]
    return statement.rstrip("; \t\r\n.*_")


def _end(text: str, begin: int) -> int:
    """Return where a statement ends."""
    depth = 0
    for token in _TOKEN.finditer(text, begin):
        mark = token[0]
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        if depth < 0 or mark in (";", "`", "</") or token["sentence"] is not None:
            return token.start()
        line = token["line"]
        if line is not None and depth == 0 and _leaves(text, begin, token, line):
            return token.start()
    return len(text)


def _leaves(text: str, begin: int, token: re.Match[str], line: str) -> bool:
    """Whether a line below a statement does not belong to it."""
    if _UNFINISHED.search(text, max(begin, token.start() - 30), token.start()):
        return False
    is_apart = text.count("\n", token.start(), token.start("line")) > 1
    return bool(_PROSE.match(line)) or not line.strip() or (is_apart and not _CLAUSE.match(line))
