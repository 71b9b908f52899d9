"""Checking JSON against JSON Schema (draft 2020-12, as OpenAPI 3.1 uses it), with the jsonschema library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import orjson
from gymnasium.error import DependencyNotInstalled

from gym_llm.utils.extras import install

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members' names are not keywords."""
_DATA = frozenset({"const", "default", "enum", "example", "examples"})
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
_PLAIN = frozenset(
    {
        *("$schema", "title", "description", "default", "examples", "format"),
        *("type", "enum", "properties", "required", "additionalProperties", "items"),
    }
)
_Check = Callable[[Any], bool]


class JsonSchema:
    """A schema, ready for any number of values; made by `json_schema`.

    Attributes:
        may_be_slow: Whether it has regular expressions, or compares a list's items with each other: no one knows how
            long a value takes then.
    """

    def __init__(self, schema: Any) -> None:
        try:
            from jsonschema import Draft202012Validator
            from jsonschema.exceptions import SchemaError
            from referencing import Registry
        except ImportError:
            raise DependencyNotInstalled(
                f"To check JSON Schema takes the jsonschema library, which is not installed: {install('schema')}"
            ) from None

        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            place = ".".join(map(str, error.absolute_path))
            where = f", in {place}" if place else ""
            raise ValueError(f"it is not a JSON Schema{where}: {error.message[:200]}") from None
        keywords = list(_keywords(schema))
        for name, value in keywords:
            if name in ("$ref", "$dynamicRef") and not str(value).startswith("#"):
                raise ValueError(f"it refers to {str(value)[:200]!r}, and nothing outside of it is read")
        self.may_be_slow = any(name in ("pattern", "patternProperties", "uniqueItems") for name, _ in keywords)
        self._validator = Draft202012Validator(schema, registry=Registry())  # the default one would go to the network
        self._plain = _plain_check(schema)

    def first_error(self, value: Any) -> str | None:
        """Return the first error of a JSON value; None if it is valid.

        Raises:
            RecursionError: If it nests too deeply.
            referencing.exceptions.Unresolvable: If a reference leads nowhere.
        """
        if self._plain(value):
            return None
        error = next(self._validator.iter_errors(value), None)
        return None if error is None else error.message

    def best_error(self, value: Any) -> str | None:
        """Return jsonschema's `best_match` error of a JSON value, with the schema and the value; None if valid.

        Raises:
            RecursionError: If it nests too deeply.
            referencing.exceptions.Unresolvable: If a reference leads nowhere.
        """
        from jsonschema.exceptions import best_match

        if self._plain(value):
            return None
        error = best_match(self._validator.iter_errors(value))
        return None if error is None else f"{type(error).__name__}: {error}"

    def accepts(self, value: Any) -> bool:
        """Whether a JSON value is valid; one nested too deeply is not, nor any where a reference leads nowhere."""
        if self._plain(value):
            return True
        from referencing.exceptions import Unresolvable

        try:
            return bool(self._validator.is_valid(value))
        except (RecursionError, Unresolvable):
            return False


@lru_cache(maxsize=4096)
def _compiled(schema: bytes) -> JsonSchema:
    return JsonSchema(orjson.loads(schema))


def json_schema(schema: Any) -> JsonSchema:
    """The schema, made ready once for all rows that have it.

    Raises:
        DependencyNotInstalled: Without the jsonschema library.
        ValueError: If it is not a JSON Schema, or refers to something outside of itself; the message starts with "it".

    >>> schema = json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    >>> schema.accepts({"a": 1}), schema.accepts({"a": "1"}), schema.accepts({})
    (True, False, False)
    """
    return _compiled(orjson.dumps(schema))


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """All keywords in a schema, those of its parts included."""
    if isinstance(schema, dict):
        for name, value in schema.items():
            yield name, value
            if name in _NAMED and isinstance(value, dict):
                for part in value.values():
                    yield from _keywords(part)
            elif name not in _DATA:
                yield from _keywords(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from _keywords(part)


def _plain_check(schema: Any) -> _Check:
    """Return a check that accepts valid values without the library, which takes twenty times as long.

    Where a schema says more than types, names and choices of texts, no value is; what the check does not accept may
    yet be valid (1.0 is an integer, say).
    """
    if not isinstance(schema, dict) or not schema.keys() <= _PLAIN or "type" not in schema:
        return _never
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    types = frozenset(kind for name in kinds for kind in _TYPES[name])
    parts = {name: _plain_check(part) for name, part in schema.get("properties", {}).items()}
    items = _plain_check(schema["items"]) if "items" in schema else None
    choices = schema.get("enum")
    if choices is not None and not all(choice.__class__ is str for choice in choices):
        return _never
    required = frozenset(schema.get("required", ()))

    def check(value: Any) -> bool:
        kind = value.__class__
        if kind not in types or (choices is not None and value not in choices):
            return False
        if kind is dict:
            for name, member in value.items():
                if not parts.get(name, _never)(member):
                    return False
            return required <= value.keys()
        return kind is not list or items is None or all(map(items, value))

    return check


def _never(_: Any) -> bool:
    return False
