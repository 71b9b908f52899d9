"""Compares a call with an expected one, by the rules of BFCL's checker (`ast_eval`, Python categories)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "number": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "object": dict,
    "any": str,
}
_IGNORED = re.compile(r"[ ,./\-_*^]")


def tool_name(name: str) -> str:
    """Return a function's name as a tool may be called.

    >>> tool_name("math.sum_of")
    'math_sum_of'
    """
    return re.sub(r"[^\w-]", "_", name)


def matches(arguments: Any, accepted: Mapping[str, Sequence[Any]], parameters: Mapping[str, Any]) -> bool:
    """Whether a call's arguments are accepted.

    Args:
        arguments: The model's.
        accepted: The accepted values of each parameter; "" among them says that it may be left out.
        parameters: The function's documented parameters.
    """
    if not isinstance(arguments, dict):
        return False
    properties = parameters.get("properties") or {}
    if any(name not in arguments for name in parameters.get("required") or ()):
        return False
    if any("" not in values for name, values in accepted.items() if name not in arguments):
        return False
    return all(
        name in properties and name in accepted and _value_matches(value, accepted[name], properties[name])
        for name, value in arguments.items()
    )


def _value_matches(value: Any, accepted: Sequence[Any], parameter: Mapping[str, Any]) -> bool:
    if value is None:
        return None in accepted
    kind = str(parameter.get("type", "string"))
    expected: Any = _TYPES.get(kind, str)
    if expected is list and value == [] and "" in accepted:  # as good as left out
        return True
    if expected is float and type(value) is int:
        value = float(value)
    inner = _TYPES.get(str((parameter.get("items") or {}).get("type"))) if expected is list else None
    answer = _type_of(accepted)
    is_variable = answer is not None and answer is not expected  # a name in the place of a value: a text
    if type(value) is not expected or (inner and not any(_items_fit(value, each, inner) for each in accepted)):
        if type(value) is not answer or type(value) is expected:
            return False
        is_variable = True
    if is_variable:
        return value in accepted
    rule = _LISTS_OF_DICTS if inner is dict else _RULES.get(expected)
    return rule(value, accepted) if rule else value in accepted


def _type_of(accepted: Sequence[Any]) -> type | None:
    return next((type(each) for each in accepted if each != ""), None)


def _items_fit(value: list[Any], accepted: Any, inner: type) -> bool:
    if not isinstance(accepted, list):
        return accepted != ""
    answer = _type_of(accepted)
    return all(type(item) in (inner, answer) or (item is None and None in accepted) for item in value)


def _plain(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _text(value: str, accepted: Sequence[Any]) -> bool:
    return _plain(value) in [_plain(each) for each in accepted if isinstance(each, str)]


def _list(value: list[Any], accepted: Sequence[Any]) -> bool:
    plain = [_plain(item) for item in value]
    return any(plain == [_plain(item) for item in each] for each in accepted if isinstance(each, list))


def _dict(value: dict[str, Any], accepted: Sequence[Any]) -> bool:
    return any(isinstance(each, dict) and _same_dict(value, each) for each in accepted)


def _same_dict(value: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]]) -> bool:
    if any(name not in value and "" not in values for name, values in accepted.items()):
        return False
    return all(
        name in accepted and _plain(item) in [_plain(each) for each in accepted[name]] for name, item in value.items()
    )


def _list_of_dicts(value: list[Any], accepted: Sequence[Any]) -> bool:
    return any(
        isinstance(each, list)
        and len(value) == len(each)
        and all(isinstance(item, dict) and _same_dict(item, one) for item, one in zip(value, each, strict=True))
        for each in accepted
    )


_LISTS_OF_DICTS = _list_of_dicts
_RULES: dict[type, Callable[[Any, Sequence[Any]], bool]] = {str: _text, list: _list, dict: _dict}


def example_arguments(accepted: Mapping[str, Sequence[Any]], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return accepted arguments as a model would write them, without those that may be left out.

    >>> example_arguments({"km": [5, 6], "unit": ["km", ""], "at": [{"x": [1], "y": ["", 2]}]}, {})
    {'km': 5, 'at': {'x': 1}}
    """
    required = parameters.get("required") or ()
    return {name: _example(values) for name, values in accepted.items() if name in required or "" not in values}


def _example(accepted: Sequence[Any]) -> Any:
    first = _first(accepted)
    if isinstance(first, dict):
        return _example_dict(first)
    if isinstance(first, list) and first and all(isinstance(each, dict) for each in first):
        return [_example_dict(each) for each in first]
    return first


def _example_dict(accepted: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _first(values) if isinstance(values, list) else values
        for name, values in accepted.items()
        if not (isinstance(values, list) and "" in values)
    }


def _first(accepted: Sequence[Any]) -> Any:
    return next((each for each in accepted if each != ""), None)
