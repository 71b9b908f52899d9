"""Read resets and actions in the forms that OpenEnv's clients send."""

from __future__ import annotations

from typing import Any, NamedTuple

from gym_llm.serve.openenv.reply_messages import Invalid
from gym_llm.utils.json_codec import dumps, loads

_LONGEST_EPISODE_ID = 255  # OpenEnv's own limit


class ToolCall(NamedTuple):
    """The action `{"type": "call_tool", "tool_name": …, "arguments": {…}}` of OpenEnv's tool environments."""

    name: str
    arguments: str

    def item(self, number: int) -> dict[str, Any]:
        """Return the call as a model's turn."""
        call_id = f"call_{number}"
        return {"type": "function_call", "call_id": call_id, "name": self.name, "arguments": self.arguments}


class ListTools:
    """The action `{"type": "list_tools"}` of OpenEnv's tool environments, which is not a turn of the episode."""


LIST_TOOLS = ListTools()


class ResetRequest(NamedTuple):
    """A request to begin an episode."""

    seed: int | None
    options: dict[str, Any] | None
    episode_id: str | None


def read_action(data: Any) -> Any:
    """Return an action as `EpisodeSession.step` takes it, a `ToolCall`, or `LIST_TOOLS`.

    `{"output": …}` is a text, output items or, with other fields, a whole Responses answer. `{"action": "text"}` is
    how OpenEnv's tool client sends a text.

    Raises:
        Invalid: If the action is anything else.
    """
    if data.__class__ is not dict:
        raise Invalid("data", "Input should be a valid dictionary", "dict_type" if data is not None else "missing")
    output = data.get("output")
    if output.__class__ is str:
        return output
    if output.__class__ is list:
        return output if len(data) == 1 else data
    if output is not None:
        raise Invalid("output", "Input should be a text or a list of output items", "list_type")
    kind = data.get("type")
    if kind == "list_tools":
        return LIST_TOOLS
    if kind == "call_tool":
        return read_tool_call(data.get("tool_name"), data.get("arguments"), "tool_name")
    if isinstance(data.get("action"), str):
        return data["action"]
    raise Invalid("output", 'Field required: a text or output items, {"output": "Four."}', "missing")


def read_tool_call(name: Any, arguments: Any, place: str) -> ToolCall:
    """Return a tool call; its arguments are an object, or JSON text of one.

    Raises:
        Invalid: If the name or the arguments are invalid.
    """
    if not isinstance(name, str) or not name:
        raise Invalid(place, "Field required: the tool's name", "missing" if name is None else "string_type")
    if arguments is None:
        arguments = {}
    if isinstance(arguments, str):
        try:
            arguments = loads(arguments.encode())
        except ValueError:
            arguments = None
    if not isinstance(arguments, dict):
        raise Invalid("arguments", "Input should be a valid dictionary", "dict_type")
    return ToolCall(name, dumps(arguments)[:-1].decode())


def read_reset(data: dict[str, Any], split: str) -> ResetRequest:
    """Read `seed`, `episode_id`, `task_index` (or the Task API's `split` and `index`) and `task`.

    Other fields are ignored, as OpenEnv's server does: trainers send whole rows.

    Raises:
        Invalid: If a field has the wrong type, or the split is unknown.
    """
    seed, episode_id = data.get("seed"), data.get("episode_id")
    if seed is not None and (seed.__class__ is not int or seed < 0):
        raise Invalid("seed", "Input should be a whole number of 0 or more", "int_type")
    if episode_id is not None and not (isinstance(episode_id, str) and len(episode_id) <= _LONGEST_EPISODE_ID):
        raise Invalid("episode_id", f"Input should be a text of at most {_LONGEST_EPISODE_ID} characters")
    options: dict[str, Any] = {}
    index = data.get("task_index")
    if index is None and (index := data.get("index")) is not None and data.get("split", split) != split:
        raise Invalid("split", f"Unknown split; the split is {split!r}")
    if index is not None:
        if index.__class__ is not int:
            raise Invalid("task_index", "Input should be a valid integer", "int_type")
        options["task_index"] = index
    if (task := data.get("task")) is not None:
        if not isinstance(task, dict):
            raise Invalid("task", "Input should be a row, a valid dictionary", "dict_type")
        options["task"] = task
    return ResetRequest(seed, options or None, episode_id)
