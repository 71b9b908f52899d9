"""Mapping rows of any columns to tasks, without a script: `question=input, answer|after(####)=expected_answer`.

A mapping is a list of entries, separated by commas or as a dict in a configuration's `map:`. Each is `SOURCE=FIELD`:

- `problem=question`: rename a column. The row's other columns are kept under their own names.
- `"boxed"=extraction_mode`: a constant.
- `{question} {choices|listed}=question`: a template of columns, perhaps with steps.
- `answer|after(####)=expected_answer`: steps, each on the result of the one before.

The steps are:

- `after(TEXT)`, `before(TEXT)`: the part after the last, or before the first, occurrence;
- `regex(PATTERN)`: the first group of the first match, or all of it;
- `strip`, `lower`, and `number` (the last number, without commas);
- `listed`: a list of options as text, a line each with its letter;
- `letters`: a list of options in the form of `MultipleChoice`;
- `letter`: an index as its letter;
- `shuffle(COLUMN)`: a list in an order that the column's text seeds.

A field may be `input`: the user's message. Nested fields have dots: `meta.level=level`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from string import ascii_uppercase
from typing import Any, NamedTuple

from gym_llm.data.files.conversion import lettered, listed, messages, options, shuffled_by
from gym_llm.errors import DataError, UsageError
from gym_llm.types import Row
from gym_llm.utils.text import did_you_mean

_STEP = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)
_COLUMN = re.compile(r"\{([\w. -]+(?:\|[^{}]+)?)\}")
"""A place of a template: a column, perhaps with steps, e.g. `{choices|listed}`."""
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_INPUT = "input"


class Entry(NamedTuple):
    """An entry of a mapping: what is read, the steps on it, and the field that it becomes."""

    source: str
    steps: tuple[tuple[str, str], ...]
    field: str


def parse_mapping(mapping: str | Mapping[str, str]) -> list[Entry]:
    """Parse a mapping.

    Raises:
        UsageError: If an entry has no `=`, or a step is unknown.

    >>> parse_mapping("answer|after(####)|strip=expected_answer")
    [Entry(source='answer', steps=(('after', '####'), ('strip', '')), field='expected_answer')]
    """
    if isinstance(mapping, str):
        pairs = [_pair(text) for text in _split(mapping, ",")]
    else:
        pairs = [(source, field) for field, source in mapping.items()]
    entries = []
    for source, field in pairs:
        head, *steps = _split(source, "|")
        for place in _COLUMN.findall(head):
            _place(place)
        entries.append(Entry(head.strip(), tuple(_step(text) for text in steps), field.strip()))
    if not entries:
        raise UsageError("The mapping is empty: give COLUMN=FIELD, e.g. question=input.")
    return entries


def map_rows(rows: Iterable[tuple[int, Row]], mapping: list[Entry], label: str) -> Iterator[tuple[int, Row]]:
    """Map rows, each with its number.

    Raises:
        DataError: If a row lacks a column, or a step cannot be done.
    """
    for number, row in rows:
        try:
            yield number, map_row(row, mapping)
        except KeyError as error:
            near = did_you_mean(str(error.args[0]), list(row))
            raise DataError(
                f"{label}, row {number}: there is no column {error}.{near} The columns are {', '.join(row)}."
            ) from None
        except (ValueError, TypeError, IndexError, AttributeError) as error:
            raise DataError(f"{label}, row {number} does not fit the mapping: {error}.") from None


def map_row(row: Row, mapping: list[Entry]) -> Row:
    """Map one row.

    >>> map_row({"q": "1 + 1", "a": "so #### 2"}, parse_mapping("q=input, a|after(####)|strip=expected_answer"))
    {'responses_create_params': {'input': [{'role': 'user', 'content': '1 + 1'}]}, 'expected_answer': '2'}
    """
    task: Row = {}
    used = set()
    for source, steps, field in mapping:
        value = _read(row, source)
        used |= {source.partition(".")[0], *(_place(each)[0].partition(".")[0] for each in _COLUMN.findall(source))}
        value = _stepped(value, steps, row)
        if field == _INPUT:
            task["responses_create_params"] = messages(value) if isinstance(value, str) else {"input": value}
        else:
            task[field] = value
    return {**{name: value for name, value in row.items() if name not in used and name not in task}, **task}


def _read(row: Row, source: str) -> Any:
    if len(source) > 1 and source[0] == source[-1] and source[0] in "\"'":
        return source[1:-1]
    if _COLUMN.search(source):
        return _COLUMN.sub(lambda match: _filled(row, match[1]), source)
    return _look_up(row, source)


def _filled(row: Row, place: str) -> str:
    column, steps = _place(place)
    return str(_stepped(_look_up(row, column), steps, row))


@cache
def _place(text: str) -> tuple[str, list[tuple[str, str]]]:
    """A template's column, and the steps on it."""
    column, *steps = _split(text, "|") or [""]
    return column, [_step(step) for step in steps]


def _stepped(value: Any, steps: Iterable[tuple[str, str]], row: Row) -> Any:
    for name, argument in steps:
        value = _STEPS[name](value, argument, row)
    return value


def _look_up(row: Row, path: str) -> Any:
    if path in row:
        return row[path]
    value: Any = row
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            raise KeyError(path)
        value = value[name]
    return value


def _split(text: str, mark: str) -> list[str]:
    """The parts between marks that are in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if char == mark and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in (part.strip() for part in parts) if part]


def _pair(text: str) -> tuple[str, str]:
    source, equals, field = text.rpartition("=")
    if not (equals and _split(source, "|") and field):
        raise UsageError(f"The mapping's part {text!r} is not COLUMN=FIELD, e.g. question=input.")
    return source, field


def _step(text: str) -> tuple[str, str]:
    match = _STEP.fullmatch(text.strip())
    if match is None or match[1] not in _STEPS:
        name = match[1] if match else text
        raise UsageError(f"There is no step {name!r}.{did_you_mean(name, _STEPS)} There are {', '.join(_STEPS)}.")
    if match[1] == "regex":
        try:
            re.compile(match[2] or "")
        except re.error as error:
            raise UsageError(f"The pattern {match[2]!r} is not a regular expression: {error}.") from None
    return match[1], match[2] or ""


def _after(value: Any, mark: str, _: Row) -> str:
    head, found, tail = str(value).rpartition(mark)
    if not found:
        raise ValueError(f"{mark!r} is not in {head or str(value)[-60:]!r}")
    return tail.strip()


def _before(value: Any, mark: str, _: Row) -> str:
    head, found, _tail = str(value).partition(mark)
    if not found:
        raise ValueError(f"{mark!r} is not in {str(value)[:60]!r}")
    return head.strip()


def _regex(value: Any, pattern: str, _: Row) -> str:
    match = re.search(pattern, str(value))
    if match is None:
        raise ValueError(f"{pattern!r} is not found in {str(value)[:60]!r}")
    return match[1] if match.groups() else match[0]


def _number(value: Any, _argument: str, _: Row) -> str:
    found = _NUMBER.findall(str(value))
    if not found:
        raise ValueError(f"there is no number in {str(value)[:60]!r}")
    return str(found[-1]).replace(",", "")


_STEPS: dict[str, Callable[[Any, str, Row], Any]] = {
    "after": _after,
    "before": _before,
    "regex": _regex,
    "strip": lambda value, marks, _: str(value).strip(marks or None),
    "lower": lambda value, _argument, _: str(value).lower(),
    "number": _number,
    "letters": lambda value, _argument, _: options(lettered(map(str, value))),
    "listed": lambda value, _argument, _: listed(lettered(map(str, value))),
    "letter": lambda value, _argument, _: ascii_uppercase[int(value)],
    "shuffle": lambda value, column, row: shuffled_by(str(_look_up(row, column)), list(value)),
}
