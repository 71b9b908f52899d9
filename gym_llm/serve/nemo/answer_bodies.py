"""The bodies of NeMo Gym's answers: of /reset and /step, and of /verify."""

from __future__ import annotations

from typing import Any

from gym_llm.data.files.jsonl import dumps
from gym_llm.serve.episode_session import BadRequest, Step
from gym_llm.types import FailureKind, Item
from gym_llm.utils.secrets import redact

_PROMISES = {"supports_explicit_close": True, "supports_step_idempotency": True}
_OMITTED_IN_STEPS = {"trajectory", "reward"}


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
    info = {name: value for name, value in step.info.items() if name not in _OMITTED_IN_STEPS}
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


_LONGEST_REASON = 2_000
_OMITTED = {"task_index", "trajectory", "reward"}


def scored(reward: float, truncated: bool, info: dict[str, Any]) -> dict[str, Any]:
    """The fields of an episode that has a reward: the verifier's own ones follow the wire's."""
    fields = {"reward": reward, "mask_sample": False, "truncated": truncated}
    return {**fields, **{name: value for name, value in info.items() if name not in _OMITTED and name not in fields}}


def masked(kind: FailureKind, reason: str) -> dict[str, Any]:
    """The fields of an episode that has none.

    NeMo Gym has a number there; this 0.0 says nothing, and `/aggregate_metrics` counts it nowhere.
    """
    return {
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": kind,
        "failure_reason": redact(reason)[:_LONGEST_REASON],
    }


def answer(payload: bytes, body: dict[str, Any], fields: dict[str, Any]) -> bytes:
    """A body with further fields, which replace those that it has; a verifier's own field replaces none.

    Args:
        payload: The body as it came, written once: it may have megabytes of token ids.
        body: The same, read.
        fields: What `scored` or `masked` says.
    """
    if body.keys().isdisjoint(fields):
        return payload.rstrip()[:-1] + b"," + dumps(fields)[1:]
    wires = masked("cancelled", "").keys() | {"reward_components", "truncated"}
    own = {name: value for name, value in fields.items() if name in wires or name not in body}
    stale = wires - fields.keys()  # of an earlier answer, which was sent as a row
    return dumps({**{name: value for name, value in body.items() if name not in stale}, **own})
