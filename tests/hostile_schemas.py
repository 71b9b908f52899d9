"""Schemas that take a compiler without limits minutes or gigabytes, by name."""

from __future__ import annotations

import functools
from typing import Any


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def _doubled(keyword: str, times: int) -> dict[str, Any]:
    return functools.reduce(lambda inner, _: {keyword: [inner, inner]}, range(times), {"type": "integer"})


def _pattern(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


HOSTILE_SCHEMAS: dict[str, dict[str, Any]] = {
    "deep": _nested(20_000),
    "nested": _nested(25),
    "wide": {"type": "object", "properties": {f"p{index}": {"type": "string"} for index in range(50_000)}},
    "many optional": {"type": "object", "properties": {f"p{index}": {"type": "string"} for index in range(300)}},
    "long enum": {"enum": [f"value {index}" for index in range(100_000)]},
    "large enum": {"enum": ["x" * 30 + str(index) for index in range(3_000)]},
    "long text": {"const": "x" * 10_000_000},
    "doubled allOf": _doubled("allOf", 11),
    "doubled anyOf": _doubled("anyOf", 11),
    "product": {
        "allOf": [
            {"anyOf": [{"type": "object", "properties": {f"k{place}": {"const": value}}} for value in range(30)]}
            for place in range(6)
        ]
    },
    "references": {
        "$ref": "#/$defs/a0",
        "$defs": {
            **{f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]} for i in range(30)},
            "a30": {"type": "integer"},
        },
    },
    "circle": {"$ref": "#"},
    "circles": {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    "elsewhere": {"$ref": "http://127.0.0.1:1/schema"},
    "a file": {"$ref": "file:///etc/passwd"},
    "backtracking": _pattern("^(a+)+$"),
    "alternation": _pattern("^(a|a|aa)+$"),
    "repetitions": _pattern("^((a{0,1000}){0,1000}){0,1000}$"),
    "states": _pattern("^(a|b)*a(a|b){400}$"),
    "words": _pattern("^(([a-z]{1,50}[0-9]{1,50}){1,50}){1,50}$"),
    "no regex": _pattern("(((("),
    "look ahead": _pattern("^(?=a)b"),
    "long pattern": _pattern("(a|b)" * 100_000),
    "named pattern": {"type": "object", "patternProperties": {"(a|b)" * 20_000: {"type": "string"}}},
    "named patterns": {
        "type": "object",
        "patternProperties": {f"^(a|b)*a(a|b){{20}}{i}$": {"type": "string"} for i in range(300)},
        "additionalProperties": False,
    },
    "long string": {"type": "string", "minLength": 10**9},
    "long list": {"type": "array", "items": {"type": "string"}, "minItems": 10**7},
    "multiples": {"type": "integer", "multipleOf": 999_983, "minimum": 1},
    "digits": {"type": "integer", "minimum": 10**300, "maximum": 10**301},
    "wrong types": {"type": ["object", 3], "properties": [1], "required": "x"},
    "no number": {"type": "number", "maximum": float("nan")},
}
