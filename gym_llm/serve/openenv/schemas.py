"""The JSON Schemas of actions, observations and states: `GET /schema`."""

from __future__ import annotations

from typing import Any

_ITEMS = {"type": "array", "items": {"type": "object"}, "description": "Output items of OpenAI's Responses API."}
_TEXT = {"type": "string", "description": "What the model says: a message."}
ACTION: dict[str, Any] = {
    "title": "ResponsesAction",
    "description": "A model's turn: a text, or output items of a Responses answer, with function calls among them.",
    "type": "object",
    "properties": {"output": {"title": "Output", "anyOf": [_TEXT, _ITEMS]}},
    "required": ["output"],
}
CALL_TOOL: dict[str, Any] = {
    "title": "CallToolAction",
    "description": "A turn that is the call of one tool.",
    "type": "object",
    "properties": {
        "type": {"const": "call_tool", "default": "call_tool"},
        "tool_name": {"type": "string", "description": "Name of the tool to call"},
        "arguments": {"type": "object", "additionalProperties": True},
    },
    "required": ["type", "tool_name"],
}
LIST_TOOLS: dict[str, Any] = {
    "title": "ListToolsAction",
    "description": "Asks which tools there are; no turn.",
    "type": "object",
    "properties": {"type": {"const": "list_tools", "default": "list_tools"}},
    "required": ["type"],
}
OBSERVATION: dict[str, Any] = {
    "title": "RequestObservation",
    "description": "What to ask the model next, and what is known of the episode.",
    "type": "object",
    "properties": {
        "done": {"type": "boolean", "default": False, "description": "Whether the episode has ended"},
        "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        "request": {
            "type": "object",
            "additionalProperties": True,
            "description": "A request of the Responses API, whole: `input`, `tools` and sampling parameters.",
        },
        "info": {
            "type": "object",
            "additionalProperties": True,
            "description": "`task_index`, `turn`, `tool_errors`; at the end the verifier's details.",
        },
        "truncated": {"type": "boolean", "description": "Whether the episode was cut short, e.g. by its turns."},
    },
    "required": ["request", "info", "truncated"],
}
STATE: dict[str, Any] = {
    "title": "SessionState",
    "type": "object",
    "additionalProperties": True,
    "properties": {
        "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "step_count": {"type": "integer", "minimum": 0, "default": 0},
        "session_id": {"type": "string", "description": "What /ws?session_id= takes to go on after a lost connection."},
        "env_id": {"type": "string"},
        "task_index": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "outcome": {"enum": ["scored", "truncated", "masked", None]},
        "total_reward": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "failure_kind": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "last": {"description": "The last answer to reset or step, which a client may have missed."},
    },
}
RESET: dict[str, Any] = {
    "title": "ResetRequest",
    "type": "object",
    "additionalProperties": True,
    "properties": {
        "seed": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None},
        "episode_id": {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}], "default": None},
        "task_index": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None},
        "session_id": {
            "type": "string",
            "description": "A session made over /mcp; without it a new one, for this call.",
        },
    },
}
RESULT: dict[str, Any] = {
    "title": "StepResponse",
    "type": "object",
    "properties": {
        "observation": OBSERVATION,
        "reward": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "done": {"type": "boolean"},
    },
    "required": ["observation", "reward", "done"],
}


def action_schema(has_tools: bool) -> dict[str, Any]:
    """Return the schema of actions; an environment with tools has those of OpenEnv's tool environments, too."""
    return {"title": "ResponsesAction", "anyOf": [ACTION, CALL_TOOL, LIST_TOOLS]} if has_tools else ACTION


def step_request(has_tools: bool) -> dict[str, Any]:
    """The body of `POST /step`."""
    properties = {"action": action_schema(has_tools), "session_id": RESET["properties"]["session_id"]}
    return {"title": "StepRequest", "type": "object", "properties": properties, "required": ["action"]}
