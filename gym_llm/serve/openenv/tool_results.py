"""Tools as OpenEnv's tool clients know them: the list of tools, and the result of a call."""

from __future__ import annotations

from typing import Any

from gym_llm.serve.episode_session import EpisodeSession, Step
from gym_llm.serve.openenv.action_messages import ToolCall
from gym_llm.serve.served_env import ServedEnv


def tools_of(env: ServedEnv, session: EpisodeSession | None) -> list[dict[str, Any]]:
    """The function tools: of the episode, which may have others than its class, if one has begun."""
    tools: Any = env.tools if session is None or session.last is None else session.last.request.get("tools") or []
    return [tool for tool in tools if tool.get("type") == "function" and isinstance(tool.get("name"), str)]


def listed(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of the action `list_tools`."""
    described = [
        {
            "name": tool["name"],
            "description": tool.get("description") or "",
            "input_schema": tool.get("parameters") or {"type": "object", "properties": {}},
        }
        for tool in tools
    ]
    return {"observation": {"metadata": {}, "tools": described}, "reward": None, "done": False}


def called(call: ToolCall, step: Step, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of the action `call_tool`: what a tool has to say of the arguments is a result, not an error."""
    output = output_of(step)
    error = None
    if call.name not in {tool["name"] for tool in tools}:
        error, output = {"error_type": "tool_not_found", "message": str(output)}, None
    metadata = {**step.info, "truncated": step.truncated}
    return {
        "observation": {"metadata": metadata, "tool_name": call.name, "result": output, "error": error},
        "reward": step.reward,
        "done": step.done,
        "metadata": metadata,
    }


def output_of(step: Step) -> Any:
    """Return the output of a turn's only call; None if calls are graded instead of made."""
    for item in step.new_items:
        if item.get("type") == "function_call_output":
            return item.get("output")
    return None
