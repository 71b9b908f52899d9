"""NeMo Gym's Gymnasium form: what a reset or a step comes to, as its agent reads it."""

from __future__ import annotations

from typing import Any

from gym_llm.serve.episode_session import BadRequest, Step
from gym_llm.types import Item

_PROMISES = {"supports_explicit_close": True, "supports_step_idempotency": True}
_NOT_SAID = {"trajectory", "reward"}


def reset_answer(step: Step) -> dict[str, Any]:
    """`{"observation", "info"}`: the agent asks the row's own input, and then the observation, as the user.

    Raises:
        BadRequest: If what the user says is more than text.
    """
    return {"observation": _text(step.new_items), "info": {**step.info, **_PROMISES}}


def step_answer(step: Step) -> dict[str, Any]:
    """`{"observation", "reward", "terminated", "truncated", "info"}`: outputs of tools are in `info.tool_outputs`.

    Raises:
        BadRequest: If what the user says is more than text.
    """
    outputs = [
        {"call_id": item["call_id"], "output": item["output"]}
        for item in step.new_items
        if item.get("type") == "function_call_output"
    ]
    info = {name: value for name, value in step.info.items() if name not in _NOT_SAID}
    return {
        "observation": _text(step.new_items),
        "reward": step.reward,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "info": {**info, "tool_outputs": outputs} if outputs else info,
    }


def _text(items: list[Item]) -> str | None:
    """What the user says, messages apart by an empty line; None for nothing."""
    texts = []
    for item in items:
        if item.get("type") == "function_call_output":
            continue
        content = item.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []
        if any(part.get("type") not in ("input_text", "output_text", "text") for part in parts):
            raise BadRequest("NeMo Gym's /reset and /step say texts only, and this environment's user shows more.")
        texts.append("".join(part["text"] for part in parts))
    return "\n\n".join(texts) if texts else None
