"""The form of all tools of the office: `{"output": …}` whatever happens, text for numbers, null for nothing."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from gym_llm.core.tools.tool import Tool
from gym_llm.envs.workplace_assistant.tables import Office
from gym_llm.errors import ToolError


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, (int, float)) else value


_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}
_as_str = BeforeValidator(_as_text)
Text: TypeAlias = Annotated[str | None, Field(max_length=20_000), _as_str, WithJsonSchema(_STRING)]
"""What is written into a table; numbers become text."""
Query: TypeAlias = Annotated[str | None, Field(max_length=1_000), _as_str, WithJsonSchema(_STRING)]
"""What is searched for."""
Count: TypeAlias = Annotated[int | None, Field(ge=1, lt=2**31), WithJsonSchema(_INTEGER)]

_DATE_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%m/%d/%Y", "%m/%d/%Y %H:%M", "%B %d, %Y", "%B %d, %Y %H:%M")


class OfficeTool(Tool):
    """A tool of which every argument may be missing or null: it says itself what it needs.

    Args:
        function: The method.
        required: The parameters that its schema calls required.
    """

    def __init__(self, function: Callable[..., Any], required: tuple[str, ...]) -> None:
        super().__init__(function, blocking=False)
        self._required = required

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The tool as a request names it."""
        schema = super().schema
        for parameter in schema["parameters"]["properties"].values():
            parameter.pop("default", None)
        parameters = schema["parameters"] | {"required": list(self._required)}
        return schema | {"parameters": parameters, "strict": False}

    def arguments(self, text: str, *, as_python: bool = False) -> dict[str, Any]:
        """Return a call's arguments without null ones, or `refusal` with the reason if the call is invalid.

        Raises:
            ToolError: If they are not a JSON object.
        """
        try:
            given = json.loads(text)
            known = [parameter.name for parameter in self._parameters]
            if unknown := sorted(given.keys() - set(known)):
                return {"refusal": f"There is no argument {unknown[0][:100]!r}; the arguments are: {', '.join(known)}"}
        except (ValueError, AttributeError, RecursionError):
            pass  # `super` says what is wrong with it
        try:
            arguments = super().arguments(text, as_python=as_python)
        except ToolError as error:
            if "are wrong" not in str(error):
                raise
            return {"refusal": str(error)}
        return {name: value for name, value in arguments.items() if value is not None}


def office_tool(*required: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a method as a tool of the office.

    Args:
        *required: The parameters that its schema calls required.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(self: Any, state: Office, refusal: str = "", **arguments: Any) -> dict[str, Any]:
            try:
                if refusal:
                    raise ValueError(refusal)
                return {"output": function(self, state, **arguments)}
            except ValueError as error:
                return {"output": f"Error executing tool '{function.__name__}': {error}"}

        call.__gym_llm_tool__ = OfficeTool(call, required)  # type: ignore[attr-defined]
        return call

    return mark


def moment(text: Any) -> datetime:
    """Parse a date, with or without a time, ignoring a time zone.

    Raises:
        ValueError: If it is not a date.
    """
    text = str(text).strip()[:40]
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        pass
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not a date")


def is_moment(text: str) -> bool:
    """Whether it is a date."""
    try:
        moment(text)
    except ValueError:
        return False
    return True
