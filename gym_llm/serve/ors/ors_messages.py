"""Responses items as the messages and blocks of the Open Reward Standard."""

from __future__ import annotations

from typing import Any

from gym_llm.serve.episode_session import Step
from gym_llm.types import Item
from gym_llm.utils.json_codec import dumps, loads

Block = dict[str, Any]
_ANSWER = "answer"
_ROLES = {"user": "user", "assistant": "assistant"}


def messages(items: list[Item]) -> list[dict[str, Any]]:
    """Return a prompt as role-tagged messages; calls and their outputs are blocks of assistant and user."""
    found: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            role, said = "assistant", [_call(item)]
        elif kind == "function_call_output":
            role, call_id = "user", item.get("call_id")
            said = [{"type": "tool_result", "tool_call_id": call_id, "blocks": blocks_of(item.get("output"))}]
        elif kind == "message":
            role, said = _ROLES.get(item.get("role", ""), "system"), blocks_of(item.get("content"))
        else:
            continue
        found.append({"role": role, "blocks": said})
    return found


def prompt(items: list[Item]) -> list[Block]:
    """Return a prompt as blocks; where it is more than one user's message, the role stands before each."""
    said = messages(items)
    if len(said) == 1 and said[0]["role"] == "user" and all(each["type"] in _PLAIN for each in said[0]["blocks"]):
        plain: list[Block] = said[0]["blocks"]
        return plain
    blocks: list[Block] = []
    for message in said:
        blocks.append({**_text(f"[{message['role']}]"), "detail": {"role": message["role"]}})
        for block in message["blocks"]:
            if block["type"] == "tool_call":
                blocks.append(_text(f"[tool_call {block['name']}] {dumps(block['input']).decode().strip()}"))
            elif block["type"] == "tool_result":
                blocks += [_text("[tool_result]"), *block["blocks"]]
            else:
                blocks.append(block)
    return blocks


def blocks_of(content: Any) -> list[Block]:
    """Return the text and picture blocks of a message's content, or of an output; other parts are left out."""
    if isinstance(content, str):
        return [_text(content)]
    return [block for part in content or [] if isinstance(part, dict) and (block := _block(part)) is not None]


def tools(functions: list[dict[str, Any]], answer: str) -> dict[str, Any]:
    """Return a listing of tools.

    Args:
        functions: Function tools, as in a Responses request.
        answer: The name of the terminal tool, which takes the model's text.
    """
    listed = [
        {
            "name": tool["name"],
            "description": tool.get("description") or "",
            "input_schema": tool.get("parameters") or {"type": "object", "properties": {}},
        }
        for tool in functions
        if tool.get("type") == "function"
    ]
    final = {"name": answer, "arg": _ANSWER, "description": "Give the answer, which is scored."}
    kinds = [*_PLAIN, "tool_call", "tool_result"]
    return {"tools": listed, "terminal_tool": final, "supports_score_group": False, "message_block_types": kinds}


def answer_in(given: dict[str, Any]) -> str | None:
    """Return the text that the terminal tool was called with; None if it is missing."""
    text = given.get(_ANSWER)
    return text if isinstance(text, str) else None


def output(step: Step) -> dict[str, Any]:
    """Return the result of a tool call: what it says, and what comes with it of the environment."""
    blocks: list[Block] = []
    for item in step.new_items:
        blocks += blocks_of(item.get("output" if item.get("type") == "function_call_output" else "content"))
    metadata = {"truncated": step.truncated, "info": step.info}
    done = {"reward": step.reward, "finished": step.done}
    return {"ok": True, "output": {"blocks": blocks, "metadata": metadata, **done}}


def refused(error: str, reason: str) -> dict[str, Any]:
    """Return a call that was not carried out; the reason is one of the standard's words."""
    return {"ok": False, "error": error, "reason": reason}


_PLAIN = ("text", "image")


def _call(item: Item) -> Block:
    try:
        given = loads(str(item.get("arguments")).encode())
    except ValueError:
        given = None
    usable = given if isinstance(given, dict) else {"arguments": item.get("arguments")}
    return {"type": "tool_call", "id": str(item.get("call_id")), "name": item.get("name"), "input": usable}


def _block(part: dict[str, Any]) -> Block | None:
    if isinstance(text := part.get("text"), str):
        return _text(text)
    url = part.get("image_url")
    if not isinstance(url, str):
        return None
    kind, comma, data = url.partition(",")
    if not comma or not kind.startswith("data:"):
        return _text(f"[image: {url}]")
    return {"type": "image", "data": data, "mimeType": kind.removeprefix("data:").partition(";")[0]}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
