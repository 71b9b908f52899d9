"""Checks of a value against a JSON schema, by NeMo Gym's `structured_outputs` rules, written anew."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, NamedTuple, cast

from gym_llm.grading.document_formats import Format, csv_header, is_quick, parse
from gym_llm.grading.json_schema import JsonSchema, json_schema

_SHOWN = 200
_QUICK = 4_000


class Rules(NamedTuple):
    """The result of checking a text."""

    schema: str
    """As JSON."""
    kind: Format
    """The text's format."""
    conform: bool
    """Whether all is as in NeMo Gym."""
    coerce: bool
    """Whether the texts of XML become the numbers that the schema wants."""


class Problem(NamedTuple):
    """Why a text does not fit."""

    error_type: str
    message: str


def problem_of(rules_and_text: tuple[Rules, str]) -> Problem | None:
    """Why a text does not fit the schema; None if it does.

    A schema's patterns, or a long text, take long: have a worker process call this where it is not `is_quick_for`.
    """
    rules, text = rules_and_text
    try:
        value = parse(text, rules.kind, iso_dates=not rules.conform, by_pyyaml=rules.conform)
    except ValueError as error:
        return Problem("parse_error", f"{type(error.__cause__ or error).__name__}: {str(error)[:_SHOWN]}")
    schema = strict_schema(rules.schema, rules.conform)
    if rules.kind == "xml" and rules.coerce:
        value = coerced_xml(value, schema)
    elif rules.kind == "csv":
        if not value and not rules.conform and (missing := _missing_columns(text, schema)):
            return Problem("validation_error", f"ValidationError: no rows, and no columns {missing}"[:_SHOWN])
        value = coerced_csv(value, schema)
    return mismatch(value, rules)


def problem_of_json(rules_and_payload: tuple[Rules, Any]) -> Problem | None:
    """Why a parsed value does not fit the schema; None if it does."""
    rules, payload = rules_and_payload
    return mismatch(payload, rules)


def is_quick_for(rules: Rules, text: str) -> bool:
    """Whether judging a text takes some milliseconds, whatever it says.

    With patterns it may not; nor where a schema refers to itself, and at each level to choose between branches.
    """
    if (
        len(text) > _QUICK
        or not is_quick(text, rules.kind, by_pyyaml=rules.conform)
        or "Ref" in rules.schema
        or "$ref" in rules.schema
    ):
        return False
    try:
        return not _validator(rules.schema, rules.conform).may_be_slow
    except ValueError:
        return True


def mismatch(value: Any, rules: Rules) -> Problem | None:
    """Return the first place where a value differs from the schema."""
    from referencing.exceptions import Unresolvable

    try:
        validator = _validator(rules.schema, rules.conform)
        message = validator.best_error(value) if rules.conform else validator.first_error(value)
    except RecursionError:
        message = "it nests too deeply"
    except (TypeError, OverflowError) as failure:  # a date, a key that is no text, a number too large to divide
        message = f"{type(failure).__name__}: {failure}"
    except (Unresolvable, ValueError) as failure:  # NeMo Gym's way to make it strict can leave no schema
        return Problem("schema_error", str(failure)[:_SHOWN])
    return None if message is None else Problem("validation_error", message[: _SHOWN + len("ValidationError: ")])


def check_schema(schema: str) -> None:
    """Raise ValueError unless this is a JSON schema."""
    try:
        parsed = json.loads(schema)
        if not isinstance(parsed, dict):
            raise ValueError(f"schema_str is a JSON object, not a {type(parsed).__name__}")
        json_schema(strict_schema(schema, False))  # what it makes of `required` need not have been right before
    except RecursionError:
        raise ValueError("schema_str nests too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"schema_str is not JSON: {error}") from None
    except ValueError as error:
        raise ValueError(str(error).replace("it ", "schema_str ", 1)) from None


@lru_cache(maxsize=1024)
def strict_schema(schema: str, conform: bool) -> dict[str, Any]:
    """A schema in which every object has to have all its properties, and no others."""
    parsed = cast(dict[str, Any], json.loads(schema))
    _make_all_strict(parsed) if conform else _make_strict(parsed)
    return parsed


def coerced_xml(value: Any, schema: Any) -> Any:
    """The texts of XML as the numbers, truths and lists that the schema wants, where they are such.

    >>> coerced_xml({"a": {"b": ["1", "2"]}}, {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}})
    {'a': [1, 2]}
    """
    if not isinstance(schema, dict):
        return value
    types = _types(schema)
    if isinstance(value, dict) and "array" not in types:
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        return {name: coerced_xml(item, known.get(name)) for name, item in value.items()}
    if "array" in types:
        if value is None:
            return []
        if isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [coerced_xml(item, schema.get("items")) for item in items]
    if value is None:
        return "" if "string" in types and "null" not in types else None
    return _converted(value, types) if isinstance(value, str) else value


def _missing_columns(text: str, schema: dict[str, Any]) -> list[str]:
    """Return the columns that each row of CSV needs and the header lacks: without rows a text is its header."""
    items = schema.get("items")
    required = items.get("required") if isinstance(items, dict) else None
    header = set(csv_header(text))
    return [name for name in required or () if isinstance(name, str) and name not in header]


def coerced_csv(rows: list[dict[Any, Any]], schema: dict[str, Any]) -> list[dict[Any, Any]]:
    """The cells of CSV as the numbers, truths and nulls that the schema wants of each row, where they are such."""
    items = schema.get("items", schema)
    properties = items.get("properties") if isinstance(items, dict) else None
    columns = {
        name: _types(column) or ["string"]
        for name, column in (properties if isinstance(properties, dict) else {}).items()
        if isinstance(column, dict)
    }
    return [{name: _cell(cell, columns.get(name, ["string"])) for name, cell in row.items()} for row in rows]


def _cell(cell: Any, types: list[str]) -> Any:
    if cell == "" and "null" in types:
        return None
    return _converted(cell, types) if isinstance(cell, str) and cell else cell


def _converted(text: str, types: list[str]) -> Any:
    """A text as the first of these types that it is; itself if it is none."""
    for kind in types:
        if kind == "string":
            return text
        if kind == "boolean" and text.strip().lower() in ("true", "1", "false", "0"):
            return text.strip().lower() in ("true", "1")
        if kind in ("integer", "number"):
            try:
                number: float = int(text) if kind == "integer" else float(text)
            except ValueError:
                continue
            if math.isfinite(number):
                return number
    return text


def _types(schema: dict[str, Any]) -> list[str]:
    kind = schema.get("type")
    return [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []


def _make_all_strict(schema: dict[str, Any]) -> None:
    """As NeMo Gym does: in whatever has a key `properties`, be it a property's own name; lists are not entered."""
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["required"] = list(properties)
        schema["additionalProperties"] = False
    for value in list(schema.values()):
        if isinstance(value, dict):
            _make_all_strict(value)


def _make_strict(schema: Any) -> None:
    """In every schema within, but for parts of one that is put together with `allOf`, and for maps of any names."""
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["required"] = list(properties)
        if not isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema:
            schema["additionalProperties"] = False
    for keyword in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        if isinstance(parts := schema.get(keyword), dict):
            for part in parts.values():
                _make_strict(part)
    for keyword in ("items", "contains", "additionalProperties", "unevaluatedItems"):
        _make_strict(schema.get(keyword))
    for keyword in ("prefixItems", *(() if isinstance(properties, dict) else ("anyOf", "oneOf"))):
        if isinstance(branches := schema.get(keyword), list):
            for branch in branches:
                _make_strict(branch)


@lru_cache(maxsize=1024)
def _validator(schema: str, conform: bool) -> JsonSchema:
    return json_schema(strict_schema(schema, conform))
