"""Constraint: what a request makes of the model's next turn, whichever engine enforces it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gym_llm.engines.sampling import text_format
from gym_llm.errors import EngineError
from gym_llm.types import CONSTRAINED, TOKEN_FIELDS, Request, ResponseDict
from gym_llm.utils.text import did_you_mean, excerpt

MOST_VALUES = 5_000
"""JSON values in a schema: what bounds the time of compiling it."""
MOST_BYTES = 1 << 17
"""Characters of all strings in a schema."""
MOST_DEPTH = 60
"""Levels of JSON in a schema."""
MOST_PROPERTIES = 300
"""Properties of one object: each of them may be left out, and the time grows with the square of their number."""
MOST_PATTERN = 500
"""Characters of a regular expression."""
MOST_PATTERN_PROPERTIES = 30
"""Patterns for the names of one object's properties: each has to be told from all others."""
MOST_TOOLS = 128
"""Tools of which one has to be called: OpenAI's limit."""
MOST_TOOLS_BYTES = 1 << 19
"""Characters of all their schemas, as JSON."""

_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Constraint:
    """The form that a turn has, after its thinking: calls, a text that is JSON, or one of both.

    Attributes:
        tools: Name and JSON schema of each tool that may be called; none if no call may be made.
        several: Whether a turn may have more than one call.
        answer: The JSON schema of the text; None if the turn has to be calls.
    """

    tools: tuple[tuple[str, str], ...]
    several: bool
    answer: str | None


def constraint_of(request: Request) -> Constraint | None:
    """Return what a request's `tool_choice` and `text.format` demand; None if any turn will do.

    `"required"` and `allowed_tools` demand one call or more, a function's name exactly one. With a `text.format` the
    model may call tools, too, unless its `tool_choice` says otherwise. A tool's schema is followed as far as possible,
    since the environment checks the arguments. With `strict`, and in `text.format`, all of it has to be followed.

    Raises:
        EngineError: If a tool or a format is invalid, or its schema is too large.

    >>> tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    >>> constraint_of({"input": [], "tools": [tool], "tool_choice": "required"}).several
    True
    >>> constraint_of({"input": [], "tools": [tool]})
    """
    choice: Any = request.get("tool_choice") or "auto"
    tools = [tool for tool in request.get("tools") or () if tool.get("type") == "function"]
    several = request.get("parallel_tool_calls") is not False
    form = text_format(request)
    if choice == "auto" or choice == "none":
        if form is None:
            return None
        callable_tools = tools if choice == "auto" else []
        return Constraint(_schemas(callable_tools), several, _answer(form))
    names = _names(choice)
    if names is not None:
        known = [str(tool.get("name")) for tool in tools]
        if unknown := [name for name in names if name not in known]:
            raise EngineError(f"tool_choice names {excerpt(unknown[0], 60)}.{did_you_mean(str(unknown[0]), known)}")
        tools = [tool for tool in tools if tool.get("name") in names]
    if not tools:
        raise EngineError("tool_choice forces a call, but the request has no function among its tools.")
    return Constraint(_schemas(tools), several and not _is_named(choice), None)


def as_shown(request: Request) -> Request:
    """Return the request for its prompt, which shows all tools: a choice that forces calls is not shown."""
    return request if request.get("tool_choice") in (None, "auto", "none") else {**request, "tool_choice": "auto"}


def mark_constrained(response: ResponseDict, request: Request) -> ResponseDict:
    """Say on a server's answer that its tokens were sampled under a constraint, if the request has one."""
    output: list[Any] = response["output"]
    is_free = request.get("tool_choice") in (None, "auto", "none") and text_format(request) is None
    if not is_free and output and output[-1].get(TOKEN_FIELDS[1]) is not None:
        output[-1] = {**output[-1], CONSTRAINED: True}
    return response


def _names(choice: Any) -> list[Any] | None:
    """The names of the tools of which one has to be called; None for any."""
    if choice == "required":
        return None
    if _is_named(choice):
        return [choice["name"]]
    match choice:
        case {"type": "allowed_tools", "mode": "required", "tools": [*tools]}:
            return [tool.get("name") if isinstance(tool, dict) else tool for tool in tools]
    raise EngineError(f"tool_choice is auto, none, required, a function or allowed_tools, got {excerpt(choice, 60)}.")


def _is_named(choice: Any) -> bool:
    return isinstance(choice, dict) and choice.get("type") == "function" and isinstance(choice.get("name"), str)


def _answer(form: dict[str, Any]) -> str:
    match form:
        case {"type": "json_object"}:
            return _checked({"type": "object"}, "text.format", strict=True)
        case {"type": "json_schema", "schema": dict(schema)}:
            return _checked(schema, "text.format", strict=True)
    raise EngineError(f"text.format is text, json_object or json_schema with a schema, got {excerpt(form, 80)}.")


def _schemas(tools: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    if len(tools) > MOST_TOOLS:
        raise EngineError(f"A call can be forced among {MOST_TOOLS} tools, got {len(tools):,}: use allowed_tools.")
    if sum(len(str(tool.get("name"))) for tool in tools) > MOST_BYTES:
        raise EngineError(f"The names of the tools that can be forced have more than {MOST_BYTES:,} characters.")
    schemas = []
    for tool in tools:
        name, schema = tool.get("name"), tool.get("parameters") or {}
        if not isinstance(name, str) or not name or not isinstance(schema, dict):
            raise EngineError(f"A function has a name and a JSON schema as `parameters`, got {excerpt(tool, 60)}.")
        whole = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
        schemas.append((name, _checked(whole, f"the tool {excerpt(name, 40)}", strict=tool.get("strict") is True)))
    if (size := sum(len(schema) for _, schema in schemas)) > MOST_TOOLS_BYTES:
        raise EngineError(f"The tools' schemas have {size:,} characters: force a call among fewer (allowed_tools).")
    return tuple(schemas)


def _checked(schema: dict[str, Any], what: str, *, strict: bool) -> str:
    """Return a schema as JSON, with the options of its compiler; without recursion, since a client wrote it."""
    values = size = 0
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    problem = ""
    while waiting and not problem:
        value, depth = waiting.pop()
        values += 1
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, int) and abs(value) > _LARGEST:
            problem = "a number of more than 64 bits"
        elif isinstance(value, dict):
            size += sum(map(len, value))
            properties, pattern = value.get("properties"), value.get("pattern")
            if isinstance(properties, dict) and len(properties) > MOST_PROPERTIES:
                problem = f"an object with {len(properties):,} properties; {MOST_PROPERTIES} is the limit"
            named = value.get("patternProperties")
            patterns = list(named) if isinstance(named, dict) else []
            longest = max(map(len, [*patterns, pattern if isinstance(pattern, str) else ""]))
            if longest > MOST_PATTERN:
                problem = f"a pattern of {longest:,} characters; {MOST_PATTERN} is the limit"
            if len(patterns) > MOST_PATTERN_PROPERTIES:
                problem = f"{len(patterns):,} pattern properties; {MOST_PATTERN_PROPERTIES} is the limit"
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]
        if values + len(waiting) > MOST_VALUES or size > MOST_BYTES:
            problem = f"more than {MOST_VALUES:,} values or {MOST_BYTES:,} characters"
        if depth > MOST_DEPTH:
            problem = f"more than {MOST_DEPTH} levels"
    if problem:
        raise EngineError(f"The schema of {what} has {problem}.")
    # The spacing that models write: none, a space, or a line with its indentation.
    options = {"whitespace_pattern": r"(\n[ \t]{0,32}| )?", "lenient": not strict}
    try:
        return json.dumps({**schema, "x-guidance": options}, allow_nan=False)
    except ValueError:
        raise EngineError(f"The schema of {what} has a number that JSON does not know.") from None
