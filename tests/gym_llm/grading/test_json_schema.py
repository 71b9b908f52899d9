"""A schema says the same with and without the shortcut; what it cannot be used for is said once."""

import itertools
import sys

import pytest
from gymnasium.error import DependencyNotInstalled
from testing import cpu_seconds

from gym_llm.grading.json_schema import JsonSchema, json_schema

PLAIN = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "A text."},
        "count": {"type": "integer", "default": 3},
        "size": {"type": "number"},
        "all": {"type": "boolean"},
        "any": {"title": "Any"},
    },
    "required": ["text"],
    "additionalProperties": False,
}
VALUES = ["x", 1, 1.0, 1.5, True, None, [], {}]


def test_the_shortcut_agrees_with_the_library():
    schema = JsonSchema(PLAIN)
    tried = 0
    for name, value in itertools.product([*PLAIN["properties"], "other"], VALUES):
        for arguments in ({"text": "x", name: value}, {name: value}):
            assert schema.accepts(arguments) == schema._validator.is_valid(arguments), arguments
            tried += schema.accepts(arguments)
    assert tried > 10
    assert not any(schema.accepts(value) for value in VALUES)


NESTED = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["a", "b"]},
        "list": {"type": "array", "items": {"type": ["integer", "null"]}},
        "part": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "boolean"}}}},
        "free": {"type": "array"},
        "size": {"type": "integer", "minimum": 0},
        "code": {"enum": [1, "1"]},
    },
    "required": ["kind"],
}


def test_nested_values_are_judged_as_the_library_does():
    schema = JsonSchema(NESTED)
    parts = [
        *VALUES,
        "a",
        "1",
        [1, None],
        [1, "x"],
        [[]],
        {"x": 1},
        {"x": "1"},
        {"y": True},
        [{"y": True}],
        [{"y": 1}, {}],
    ]
    seen = 0
    for name, value in itertools.product([*NESTED["properties"], "other"], parts):
        for given in ({"kind": "a", name: value}, {name: value}):
            valid = schema._validator.is_valid(given)
            assert schema.accepts(given) == (schema.first_error(given) is None) == valid, given
            assert valid or not schema._plain(given)
            seen += schema._plain(given)
    assert seen > 10


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"enum": ["a", "b"]}, "a", True),
        ({"enum": ["a", "b"]}, "c", False),
        ({"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}}, {"a": "abc"}, False),
        ({"type": "array", "items": {"type": "object", "required": ["x"]}}, [{"x": 1}, {}], False),
        ({"type": ["string", "null"]}, None, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, 3, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, "3", False),
        ({"$ref": "#/nowhere"}, 3, False),
        ({"type": "string", "format": "date"}, "tomorrow", True),
        (True, [1], True),
        (False, [1], False),
        ({}, None, True),
    ],
)
def test_values_are_checked_as_draft_2020_12_says(schema, value, valid):
    assert json_schema(schema).accepts(value) is valid


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "any"}, "it is not a JSON Schema, in type"),
        ({"properties": {"a": {"type": "text"}}}, "in properties.a.type"),
        ({"properties": [1]}, "it is not a JSON Schema"),
        ([], "it is not a JSON Schema"),
        ({"pattern": "("}, "it is not a JSON Schema"),
        ({"$ref": "https://example.com/schema.json"}, "it refers to 'https://example.com/schema.json'"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "it refers to 'file:///etc/passwd'"),
    ],
)
def test_what_is_no_schema_is_refused(schema, problem):
    with pytest.raises(ValueError, match=problem.replace(".", r"\.")):
        json_schema(schema)


def test_equal_schemas_are_made_ready_once():
    assert json_schema(dict(PLAIN)) is json_schema({**PLAIN})


@pytest.mark.parametrize(
    ("schema", "slow"),
    [
        (PLAIN, False),
        ({"type": "object", "properties": {"pattern": {"type": "string"}}}, False),
        ({"default": {"pattern": "x"}}, False),
        ({"type": "object", "properties": {"a": {"pattern": "x"}}}, True),
        ({"anyOf": [{"type": "null"}, {"items": {"uniqueItems": True}}]}, True),
    ],
)
def test_a_schema_says_whether_it_may_be_slow(schema, slow):
    assert json_schema(schema).may_be_slow is slow


def test_a_deep_value_is_not_valid_where_every_level_is_checked():
    value = []
    for _ in range(5_000):
        value = [value]
    schema = json_schema(
        {"$ref": "#/$defs/list", "$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/list"}}}}
    )
    assert not schema.accepts(value) and schema.accepts([[[]]])


def test_usual_arguments_are_checked_quickly():
    schema = json_schema(PLAIN)

    def check():
        for _ in range(10_000):
            assert schema.accepts({"text": "x", "count": 3})

    assert cpu_seconds(check) < 1.0


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(DependencyNotInstalled, match=r"pip install -e '.*\[schema\]'"):
        JsonSchema(PLAIN)
