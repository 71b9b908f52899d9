"""Parsing what a model wrote as JSON, YAML, TOML, XML or CSV: bounded, and without surprises.

Nothing is fetched, no object is made but plain ones, no entity or alias grows without end. Some texts take long
nevertheless (YAML most, some 100 KB a second): have a worker process parse one that is not `is_quick`.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import tomllib
from typing import Any, Literal
from xml.parsers import expat

import yaml

Format = Literal["json", "yaml", "xml", "toml", "csv"]

_DEEPEST = 100
_MOST_VALUES = 200_000
_LONGEST_CELL = 131_072
_QUICK = {"json": 20_000, "csv": 20_000, "xml": 5_000, "toml": 5_000, "yaml": 2_000}
_QUICK_BY_PYYAML = 300
_MOST_DOTS = 50  # in a line of TOML: long dotted keys take quadratic time
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _TooMuch(ValueError):
    """Raised if a value nests too deeply, or is too large once all is written out."""


def is_quick(text: str, kind: str, *, by_pyyaml: bool = False) -> bool:
    """Whether parsing a text, whatever it says, takes some milliseconds only."""
    if len(text) > _QUICK.get(kind, 0) or (kind == "yaml" and by_pyyaml and len(text) > _QUICK_BY_PYYAML):
        return False
    return kind != "toml" or all(line.count(".") <= _MOST_DOTS for line in text.split("\n"))


def parse(text: str, kind: Format, *, iso_dates: bool = True, by_pyyaml: bool = False) -> Any:
    """Read a value from a text in a format.

    - JSON and CSV: as Python's modules read them; CSV becomes a list of dicts.
    - TOML 1.0, and YAML 1.1 of plain values.
    - XML: nested dicts, with `@name` for an attribute, `#text` for text beside elements, a list for repeated elements
      and None for an empty one.

    Args:
        text: The whole text, without fences.
        kind: The format.
        iso_dates: Whether dates and times of YAML and TOML, and keys of YAML, become strings.
        by_pyyaml: Whether PyYAML's own parser reads YAML, not libyaml. It takes ten times as long, refuses tabs in more
            places, and has other error messages.

    Raises:
        ValueError: If the text is invalid, nests deeper than 100 levels (JSON: some hundreds), or has too many values.

    >>> parse("a: [1, 2020-02-02]", "yaml"), parse("<a b='1'>x<c/></a>", "xml")
    ({'a': [1, '2020-02-02']}, {'a': {'@b': '1', 'c': None, '#text': 'x'}})
    """
    try:
        if kind == "json":
            return json.loads(text)
        if kind == "yaml":
            return _plain(_yaml(text, yaml.SafeLoader if by_pyyaml else _LOADER), iso_dates, 1_000 + 4 * len(text))
        if kind == "toml":
            return _plain(tomllib.loads(text), iso_dates, _MOST_VALUES)
        if kind == "xml":
            return _XMLReader().read(text)
        for row in csv.reader(io.StringIO(text)):
            _check_cells(row)
        return list(csv.DictReader(io.StringIO(text)))
    except ValueError:
        raise
    except RecursionError:
        raise _TooMuch("it nests too deeply") from None
    except (yaml.YAMLError, expat.ExpatError, csv.Error, TypeError, AttributeError, OverflowError) as error:
        # PyYAML's constructors raise the last three for values that their tags do not fit.
        raise ValueError(str(error) or type(error).__name__) from error


def _check_cells(row: list[str]) -> None:
    """Raise `csv.Error` for a long cell: another reader in the process may have raised the csv module's limit."""
    if any(len(cell) > _LONGEST_CELL for cell in row):
        raise csv.Error(f"field larger than field limit ({_LONGEST_CELL})")


def csv_header(text: str) -> list[str]:
    """The names of a CSV text's columns; none if it is empty.

    Raises:
        ValueError: If it cannot be read.
    """
    try:
        header = next(csv.reader(io.StringIO(text)), [])
        _check_cells(header)
        return header
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _yaml(text: str, loader: Any) -> Any:
    """The one document of a text. Its events are counted first: to compose them is recursive, in C."""
    if len(text) < _MOST_VALUES and sum(map(text.count, "[{-?:")) < _DEEPEST:  # each level has one of these
        return yaml.load(text, Loader=loader)
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        if isinstance(event, yaml.events.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST or count > _MOST_VALUES:
            raise _TooMuch("it nests too deeply, or has too many values")
    return yaml.load(text, Loader=loader)  # the loader is the safe one


def _plain(value: Any, iso_dates: bool, most: int) -> Any:
    """A copy in which aliases are written out: no small text may stand for a value without end."""
    left = most

    def copy(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > _DEEPEST:
            raise _TooMuch("it nests too deeply, or has too many values")
        if isinstance(value, dict):
            return {_key(key, iso_dates): copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [copy(item, depth + 1) for item in value]
        if iso_dates and isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        return value

    return copy(value, 0)


def _key(key: Any, as_text: bool) -> Any:
    if not as_text or isinstance(key, str):
        return key
    return json.dumps(key) if isinstance(key, (bool, int, float, type(None))) else str(key)[:1_000]


class _XMLReader:
    """Elements as dicts, lists and texts."""

    def __init__(self) -> None:
        self._open: list[tuple[dict[str, Any], list[str]]] = [({}, [])]
        self._count = 0

    def read(self, text: str) -> dict[str, Any]:
        parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity
        parser.Parse(text.encode("utf-8", "replace"), True)
        return self._open[0][0]

    def _start(self, name: str, attributes: list[str]) -> None:
        self._count += 1 + len(attributes)
        if len(self._open) > _DEEPEST or self._count > _MOST_VALUES:
            raise _TooMuch("it nests too deeply, or has too many values")
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        self._open.append(({f"@{attribute}": value for attribute, value in pairs}, []))

    def _end(self, name: str) -> None:
        fields, texts = self._open.pop()
        text = "".join(texts).strip() or None
        value: Any = fields or text
        if fields and text is not None:
            fields["#text"] = text
        parent = self._open[-1][0]
        if name not in parent:
            parent[name] = value
        elif isinstance(parent[name], list):
            parent[name].append(value)
        else:
            parent[name] = [parent[name], value]

    def _text(self, text: str) -> None:
        self._open[-1][1].append(text)

    def _entity(self, *_: Any) -> None:
        raise ValueError("it declares an entity, which is not read")
