"""Comparison of calls with the expert's: pure functions of JSON that a worker process can run."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from gym_llm.envs.terminal_multi_harness import categories as is_
from gym_llm.envs.terminal_multi_harness.rules import RULES
from gym_llm.grading.call_matching import NOT_JSON, Call, candidates, largest_matching, parse_arguments, read_calls
from gym_llm.grading.json_schema import json_schema
from gym_llm.types import Item


class Settings(NamedTuple):
    """The rules of a comparison."""

    harness: str
    threshold: float
    query_threshold: float
    schemas: dict[str, Any]
    """The `parameters` of the declared tools, by name."""
    as_nemo_gym: bool


class Result(NamedTuple):
    """The result of a comparison."""

    matches: bool
    category: str
    similarity: float | None = None


def tools_schemas(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The `parameters` of tools as a request names them, by name."""
    functions = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools]
    return {
        tool["name"]: tool["parameters"]
        for tool in functions
        if isinstance(tool.get("name"), str) and isinstance(tool.get("parameters"), dict)
    }


def compare_items(argument: tuple[list[Call], list[Item], Settings]) -> Result:
    """`compare` in a worker process, where the calls are read again: what nests deeply cannot be sent."""
    expected, items, settings = argument
    return compare(expected, read_calls(items, as_python=settings.as_nemo_gym), settings)


def compare(expected: list[Call], calls: list[Call], settings: Settings) -> Result:
    """Compare the model's calls with the expected ones."""
    try:
        return _compare(expected, calls, settings)
    except RecursionError:  # the expert's do not nest so deeply
        return Result(False, is_.OTHER_VALUE)


def _compare(expected: list[Call], calls: list[Call], settings: Settings) -> Result:
    if len(expected) != len(calls):
        return Result(False, is_.OTHER_NUMBER)
    if len(calls) == 1:
        return _compare_calls(expected[0], calls[0], settings)
    if settings.as_nemo_gym:
        in_order = zip(_sorted(expected), _sorted(calls), strict=True)
        found = (_compare_calls(one, call, settings) for one, call in in_order)
        return next((result for result in found if not result.matches), Result(True, is_.BATCH))
    edges = candidates(expected, calls, lambda one, call: _compare_calls(one, call, settings).matches)
    pairs = largest_matching(edges)
    unpaired = set(range(len(expected))) - set(pairs.values())
    if unpaired:
        return _nearest(expected[min(unpaired)], calls, settings)
    results = [_compare_calls(expected[one], calls[other], settings) for other, one in sorted(pairs.items())]
    similarities = [result.similarity for result in results if result.similarity is not None]
    return Result(True, is_.BATCH, min(similarities, default=None))


def _nearest(expected: Call, calls: list[Call], settings: Settings) -> Result:
    results = [_compare_calls(expected, call, settings) for call in calls]
    failed = [result for result in results if not result.matches]
    nearest = next((result for result in failed if result.category != is_.OTHER_TOOL), None)
    return Result(False, nearest.category if nearest else is_.OTHER_TOOL)


def _sorted(calls: list[Call]) -> list[Call]:
    return sorted(calls, key=lambda call: (call.name, _canonical(call.arguments)))


def _canonical(arguments: Any) -> str:
    return "" if arguments is NOT_JSON else json.dumps(arguments, sort_keys=True, separators=(",", ":"))


def _compare_calls(expected: Call, actual: Call, settings: Settings) -> Result:
    if actual.arguments is NOT_JSON:
        return Result(False, is_.NOT_JSON)
    if not isinstance(expected.arguments, dict) or not isinstance(actual.arguments, dict):
        return Result(False, is_.NOT_OBJECT)
    if actual.name not in settings.schemas:
        return Result(False, is_.NOT_DECLARED)
    schema = settings.schemas[actual.name]
    arguments = _unquoted(actual.arguments, schema, settings.as_nemo_gym)
    if schema and not json_schema(schema).accepts(arguments):
        return Result(False, is_.NOT_VALID)
    if expected.name != actual.name:
        return Result(False, is_.OTHER_TOOL)
    wanted = expected.arguments if settings.as_nemo_gym else _unquoted(expected.arguments, schema, False)
    if not arguments.keys() <= wanted.keys():
        return Result(False, is_.OTHER_KEYS)
    if not settings.as_nemo_gym and arguments.keys() != wanted.keys():
        return Result(False, is_.MISSING_KEYS)
    rule = RULES.get(settings.harness, {}).get(actual.name)
    if rule is None:
        return Result(True, is_.CALL)
    threshold = settings.query_threshold if actual.name == "web_search" else settings.threshold
    found, similarity = rule(wanted, arguments, threshold)
    return Result(found is None, found or is_.CALL, similarity)


def _unquoted(arguments: dict[str, Any], schema: Any, as_python: bool) -> dict[str, Any]:
    """Lists and objects that were written as JSON in a text, where the tool declares a list or an object."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return arguments
    changed = {}
    for name, value in arguments.items():
        declared = properties.get(name)
        kind = declared.get("type") if isinstance(declared, dict) else None
        if isinstance(value, str) and kind in ("array", "object"):
            parsed = parse_arguments(value, as_python=as_python)
            if isinstance(parsed, list if kind == "array" else dict):
                changed[name] = parsed
    return arguments | changed if changed else arguments


def is_quick(expected: list[Call], calls: list[Call], sizes: tuple[int, int], settings: Settings) -> bool:
    """Whether comparing takes a few milliseconds at most, whatever is in the calls.

    Args:
        expected: The expected calls.
        calls: The model's.
        sizes: How many characters the arguments of each have together.
        settings: Of the comparison.
    """
    if len(expected) != len(calls):
        return True
    if sizes[0] * sizes[1] > 60_000 and [*expected] != [*calls]:
        return False
    if sizes[1] > 5_000 and _count(calls, 300) >= 300:
        return False
    schemas = [settings.schemas.get(name) for name in {call.name for call in calls}]
    return not any(schema and json_schema(schema).may_be_slow for schema in schemas)


def _count(calls: list[Call], most: int) -> int:
    """JSON values in the calls' arguments, counted up to `most`."""
    found, left = 0, [call.arguments for call in calls]
    while left and found < most:
        value = left.pop()
        found += 1
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return found
