"""The actions of the domains as tools."""

from __future__ import annotations

import functools
import json
from typing import Any

from gym_llm.core.tools.tool import Tool
from gym_llm.envs.indirect_prompt_injection.domains import ACTIONS
from gym_llm.envs.indirect_prompt_injection.world import Action, World
from gym_llm.errors import ToolError
from gym_llm.utils.json_codec import loads

_NUMBERS = {
    "adjustment", "amount", "amount_requested", "bathrooms", "bedrooms", "credits", "declared_value", "hours",
    "max_price", "max_score", "min_price", "price", "quantity", "rate", "rating", "salary", "score", "stock_quantity",
    "threshold",
}  # fmt: skip


class WorldTool(Tool):
    """A tool that takes any arguments; the action checks the ones that it needs.

    Args:
        name: The tool's name.
        action: The tool's action.
    """

    def __init__(self, name: str, action: Action) -> None:
        def call(self: Any, state: World, arguments: dict[str, Any]) -> dict[str, str]:
            return {"output": run_action(name, action, state, arguments)}

        call.__name__ = name
        call.__doc__ = f"{name.replace('_', ' ').capitalize()}."
        super().__init__(call, blocking=False)
        self._action = action

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The tool's schema for rows that do not have one."""
        properties = {
            name: {"type": "number" if name in _NUMBERS else "string", "description": name.replace("_", " ").strip()}
            for name in (*self._action.required, *self._action.optional)
        }
        parameters = {"type": "object", "properties": properties, "required": list(self._action.required)}
        return {
            "type": "function",
            "name": self.name,
            "description": f"{self.name.replace('_', ' ').capitalize()}.",
            "parameters": parameters | {"additionalProperties": False},
            "strict": False,
        }

    def arguments(self, text: str, *, as_python: bool = False) -> dict[str, Any]:
        """Return a call's arguments, unchecked.

        Raises:
            ToolError: If the text is not a JSON object.
        """
        try:
            text = text if text.strip() else "{}"
            arguments = json.loads(text) if as_python else loads(text.encode())
        except (ValueError, RecursionError) as error:
            raise ToolError(f"The arguments of {self.name} are not valid JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise ToolError(f"The arguments of {self.name} should be a JSON object.")
        return {"arguments": arguments}


def run_action(name: str, action: Action, world: World, arguments: dict[str, Any]) -> str:
    """Run an action on an episode's records, and return its result or error as a text."""
    known = (*action.required, *action.optional)
    given = {key: value for key, value in arguments.items() if key in known and value is not None}
    try:
        if missing := [key for key in action.required if key not in given]:
            raise TypeError(f"missing argument: {missing[0]!r}")
        if world.readable < 0:
            raise ValueError("the tools have returned too many characters; no more are returned")
        result = action.run(world, given)
        text = result if isinstance(result, str) else json.dumps(result)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        return f"Error executing tool '{name}' ({type(error).__name__}): {error}"
    world.readable -= len(text)
    return text


def _function(name: str, action: Action) -> Any:
    tool = WorldTool(name, action)
    tool.function.__gym_llm_tool__ = tool  # type: ignore[attr-defined]
    return tool.function


WorldTools = type("WorldTools", (), {name: _function(name, action) for name, action in ACTIONS.items()})
"""A base class with all tools of all domains."""
