"""Tables of Markdown in an answer, and comparing their cells (WideSearch's rules)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from gym_llm.grading.extraction import fences

Table = list[dict[str, str]]
"""Rows: cells by column."""

_BARS = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"[-+]?\d*\.\d+%?|[-+]?\d+\.?\d*%?")
_URL = re.compile(r"https?://\S+")
_RULE = set("|- :")
_MISSING = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
}
_MOST_ROWS = 5_000
_LONGEST_CELL = 10_000
_LONGEST_DATE = 100
_NEAR_DAYS = 31


def column_name(name: str) -> str:
    """Return a column's name in lower case without spaces.

    >>> column_name(" Pack Size (Bottle)")
    'packsize(bottle)'
    """
    return name.strip().lower().replace(" ", "")


def table_in(text: str, *, conform: bool = False) -> Table | None:
    r"""Return the last table of an answer: of its blocks of Markdown, else of its lines; None without one.

    Args:
        text: What the model wrote.
        conform: Whether to read as pandas does for NeMo Gym. A cell such as `N/A` is `nan`, and a row that is too long
            spoils its table.

    >>> table_in("So:\n| City | N |\n|---|---|\n| Oslo | 1 |\n| Rome | 2 |")
    [{'city': 'Oslo', 'n': '1'}, {'city': 'Rome', 'n': '2'}]
    """
    languages = ("markdown",) if conform else ("markdown", "md", "")
    blocks = [fence.body.split("\n") for fence in fences(text) if fence.closed and fence.language in languages]
    for lines in (*reversed(blocks), *reversed(list(_runs(text)))):
        table = _table([line for line in map(str.strip, lines) if "|" in line and not set(line) <= _RULE], conform)
        if table or (conform and table is not None):
            return table
    return None


def _runs(text: str) -> Iterator[list[str]]:
    """Return the runs of lines that begin and end with a bar, blank ones between them left out."""
    lines: list[str] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        if len(line) > 1 and line.startswith("|") and line.endswith("|"):
            lines.append(line)
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def _table(lines: list[str], conform: bool) -> Table | None:
    if not lines or len(lines) > _MOST_ROWS:
        return None
    split = (lambda line: line.split("|")) if conform else _BARS.split
    names, *rows = ([cell.strip() for cell in split(line)] for line in lines)
    places = {column_name(name): place for place, name in reversed(list(enumerate(names))) if name}
    if conform and any(len(row) > len(names) for row in rows):
        return None
    return [{name: _cell(row, place, conform) for name, place in reversed(places.items())} for row in rows]


def _cell(row: list[str], place: int, conform: bool) -> str:
    cell = row[place][:_LONGEST_CELL] if place < len(row) else ""
    if conform:
        return "nan" if cell in _MISSING else cell
    return cell.replace("\\|", "|")


def first_of_each(table: Table, unique: list[str]) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the rows by their cells of these columns; of several with the same cells the first."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in table:
        rows.setdefault(tuple(row[column] for column in unique), row)
    return rows


def dates_in_worker(texts: list[str]) -> list[tuple[str | None, str | None]]:
    """Return the days of dates in any language, read with the first and with today's day of a month; None if invalid.

    dateparser takes milliseconds for a text, so a worker process calls this.
    """
    import dateparser

    def day(text: str, **settings: Any) -> str | None:
        if len(text) > _LONGEST_DATE:
            return None
        try:
            date: datetime | None = dateparser.parse(text, settings=settings)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return None
        return date.strftime("%Y-%m-%d") if date else None

    return [(day(text, PREFER_DAY_OF_MONTH="first"), day(text)) for text in texts]


def normal_text(text: str) -> str:
    """Return a text in lower case without spaces and asterisks."""
    return text.lower().strip().replace(" ", "").replace("*", "")


def first_number(text: str) -> str:
    """Return the first number of a text, with its percent sign; `NULL` without one.

    >>> first_number("about 1,250.5 kg"), first_number("none")
    ('1250.5', 'NULL')
    """
    match = _NUMBER.search(text.replace(",", ""))
    return match[0] if match else "NULL"


def same_text(cell: str, expected: str, criterion: Any) -> bool:
    """Return whether two texts are the same, in any case."""
    return cell.lower() == expected.lower()


def same_hosts(cell: str, expected: str, criterion: Any) -> bool:
    """Return whether two texts have URLs of the same hosts."""
    return _hosts(cell) == _hosts(expected)


def near_number(cell: str, expected: str, criterion: Any) -> bool:
    """Return whether a number is within a share, the criterion, of the expected one; other texts must be the same."""
    try:
        number, wanted = (float(text.rstrip("%")) / (100 if "%" in text else 1) for text in (cell, expected))
        tolerance = float(criterion or 0)
    except (TypeError, ValueError):
        return cell == expected
    return abs(number - wanted) <= abs(wanted) * tolerance


def near_day(day: str | None, expected: str | None) -> bool:
    """Return whether two days are a month apart at most. Two texts without a day are near, too."""
    if day is None or expected is None:
        return day is expected
    return abs((datetime.fromisoformat(day) - datetime.fromisoformat(expected)).days) <= _NEAR_DAYS


METRICS: dict[str, Callable[[str, str, Any], bool]] = {
    "exact_match": same_text,
    "url_match": same_hosts,
    "number_near": near_number,
}
"""Metrics that need neither dates nor a judge."""


def _hosts(text: str) -> set[str]:
    return set(map(_host, _URL.findall(text)))


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; 0.0 if both are 0.0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def scores(matched: Iterable[dict[str, bool]], rows: int, expected: int, columns: int) -> dict[str, float]:
    """Return precision, recall and F1, by rows and by cells.

    Args:
        matched: The verdicts on the cells of each row that was expected, by column.
        rows: The number of rows in the answer.
        expected: The number of expected rows.
        columns: The number of expected columns.
    """
    verdicts = list(matched)
    right = {"row": sum(all(cells.values()) for cells in verdicts), "item": sum(sum(c.values()) for c in verdicts)}
    found: dict[str, float] = {}
    for name, cells in (("row", 1), ("item", columns)):
        precision = right[name] / (rows * cells) if rows else 0.0
        recall = right[name] / (expected * cells) if expected else 0.0
        found |= {f"precision_by_{name}": precision, f"recall_by_{name}": recall}
        found[f"f1_by_{name}"] = f1(precision, recall)
    return found
