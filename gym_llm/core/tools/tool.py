"""Tools: methods of an environment that the model may call.

The schema that the model sees comes from the method's signature and docstring, and pydantic checks the arguments. If
they are wrong, the model receives an error message; nothing is raised. A tool that refuses a call raises `ToolError`.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any, NotRequired, Required, TypeVar, overload

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from gym_llm.errors import ToolError

F = TypeVar("F", bound=Callable[..., Any])
_MAX_ERROR_CHARACTERS = 2_000


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, blocking: bool = False) -> Callable[[F], F]: ...
def tool(function: Any = None, /, *, blocking: bool = False) -> Any:
    """Mark a method of a `VerifierEnv` as a tool of the model.

    The method's parameters become the tool's. A parameter named `state` receives the episode's state and is hidden from
    the model. The docstring's first paragraph describes the tool, and its `Args:` section the parameters. The method
    returns a str, which is sent unchanged, or a JSON value. It may be async: async calls of one turn run at once.

    Args:
        function: The method, when the decorator is used without arguments.
        blocking: Whether the tool blocks (files, CPU, a synchronous client). It then runs in a thread while other
            episodes go on, and must not use objects of other threads.

    Raises:
        TypeError: If a parameter has no type or cannot be passed by name.
    """
    if function is None:
        return functools.partial(tool, blocking=blocking)
    if blocking and inspect.iscoroutinefunction(function):
        raise TypeError(f"Tool {function.__name__!r} is async, so it cannot be blocking=True; choose one.")
    function.__gym_llm_tool__ = Tool(function, blocking)
    return function


def tools_of(cls: type) -> dict[str, Tool]:
    """The tools of an environment class by name, in the order they were defined, inherited ones first."""
    tools: dict[str, Tool] = {}
    for base in reversed(cls.__mro__):
        for name, member in vars(base).items():
            if isinstance(own := getattr(member, "__gym_llm_tool__", None), Tool):
                tools[name] = own
            else:
                tools.pop(name, None)  # a subclass took the tool back
    return tools


class Tool:
    """A tool: its schema and its function.

    Attributes:
        name: The method's name.
        blocking: Whether it has to run in a thread.
        is_async: Whether it is a coroutine function.
        wants_state: Whether it gets the episode's state.
    """

    def __init__(self, function: Callable[..., Any], blocking: bool) -> None:
        self.function = function
        self.name = function.__name__
        self.blocking = blocking
        parameters = dict(list(inspect.signature(function).parameters.items())[1:])
        self.is_async = inspect.iscoroutinefunction(function)
        self.wants_state = "state" in parameters
        self._parameters = [parameter for name, parameter in parameters.items() if name != "state"]
        for parameter in parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"Parameter {parameter.name!r} of tool {self.name!r} cannot be passed by name.")
            if parameter.name != "state" and parameter.annotation is parameter.empty:
                raise TypeError(f"Parameter {parameter.name!r} of tool {self.name!r} needs a type annotation.")

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[dict[str, Any]]:
        # Not at decoration time: annotations may name classes that are defined further down.
        hints = typing.get_type_hints(self.function, include_extras=True)
        descriptions = _argument_descriptions(inspect.getdoc(self.function) or "")
        fields: dict[str, Any] = {}
        for parameter in self._parameters:
            extra: dict[str, Any] = {}
            required = parameter.default is parameter.empty
            if not required:
                extra["default"] = to_jsonable_python(parameter.default)
            field = Field(description=descriptions.get(parameter.name, ""), json_schema_extra=extra)
            annotated = typing.cast(Any, Annotated)[hints[parameter.name], field]
            fields[parameter.name] = Required[annotated] if required else NotRequired[annotated]
        arguments: Any = typing.cast(Any, TypedDict)("Arguments", fields)
        return TypeAdapter(arguments)

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The tool as a request names it: `type`, `name`, `description`, `parameters` (JSON Schema), `strict`.

        `strict` is true where every parameter is required, as OpenAI's strict mode demands
        (https://platform.openai.com/docs/guides/function-calling#strict-mode).
        """
        schema = self._adapter.json_schema()
        properties, required = schema.get("properties", {}), schema.get("required", [])
        for property_schema in properties.values():
            property_schema.pop("title", None)
        definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
        return {
            "type": "function",
            "name": self.name,
            "description": (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " "),
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
                **definitions,
            },
            "strict": len(required) == len(properties),
        }

    def arguments(self, text: str, *, as_python: bool = False) -> dict[str, Any]:
        """Parse and check a call's arguments.

        Args:
            text: What the model wrote: a JSON object, or nothing at all for a tool without parameters.
            as_python: Whether `NaN` and `Infinity` count as JSON, as for Python's `json`.

        Returns:
            Keyword arguments for the method, converted to its types. Others than the tool's are left out, as in NeMo
            Gym.

        Raises:
            ToolError: With the sentence to show the model.
        """
        try:
            constant = None if as_python else _refuse_constant
            arguments = json.loads(text, parse_constant=constant) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise ToolError(f"The arguments of {self.name} are not valid JSON: {error}") from None
        if not isinstance(arguments, dict):
            kind = type(arguments).__name__
            raise ToolError(f"The arguments of {self.name} should be a JSON object, got {kind}.")
        try:
            return self._adapter.validate_python(arguments)
        except (ValidationError, RecursionError) as error:
            raise ToolError(f"The arguments of {self.name} are wrong: {_explain(error)}") from None


def tool_output(value: Any) -> str:
    """Return a tool's result as the text of a `function_call_output`: a str unchanged, other values as JSON.

    The JSON is compact and not escaped, byte for byte what NeMo Gym 0.7 sends.

    >>> tool_output({"city": "Zürich", "count": 42})
    '{"city":"Zürich","count":42}'
    """
    return value if isinstance(value, str) else _compact_json(value)


def _compact_json(value: Any) -> str:
    return json.dumps(value, default=to_jsonable_python, ensure_ascii=False, separators=(",", ":"))


def error_output(message: str) -> str:
    """A failed call's `function_call_output` text.

    >>> error_output("No tool named verify.")
    '{"error":"No tool named verify."}'
    """
    return _compact_json({"error": message[:_MAX_ERROR_CHARACTERS]})


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _explain(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}" for problem in problems)


def _argument_descriptions(docstring: str) -> dict[str, str]:
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", docstring, re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^ {4}(\w+)[^:\n]*: (.*(?:\n {5,}.*)*)", section[1], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
