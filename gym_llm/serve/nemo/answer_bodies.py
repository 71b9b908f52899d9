"""Bodies of answers to NeMo Gym's clients: of /reset and /step, and of /verify."""

from __future__ import annotations

from typing import Any

from gym_llm.serve.episode_session import BadRequest, Step
from gym_llm.types import FailureKind, Item
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redact

_PROMISES = {"supports_explicit_close": True, "supports_step_idempotency": True}
_OMITTED_IN_STEPS = {"trajectory", "reward"}


def reset_answer(step: Step) -> dict[str, Any]:
    """Return `{"observation", "info"}`: the agent asks the row's own input, then the observation as the user's message.

    Raises:
        BadRequest: If the user's message has more than text.
    """
    return {"observation": _text(step.new_items), "info": {**step.info, **_PROMISES}}


def step_answer(step: Step) -> dict[str, Any]:
    """Return `{"observation", "reward", "terminated", "truncated", "info"}`; tool outputs are in `info.tool_outputs`.

    Raises:
        BadRequest: If the user's message has more than text.
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
    texts = []
    for item in items:
        if item.get("type") == "function_call_output":
            continue
        content = item.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []
        if any(part.get("type") not in ("input_text", "output_text", "text") for part in parts):
            raise BadRequest("NeMo Gym's /reset and /step carry text only, and this user's message has more.")
        texts.append("".join(part["text"] for part in parts))
    return "\n\n".join(texts) if texts else None


_LONGEST_REASON = 2_000
_OMITTED = {"task_index", "trajectory", "reward"}


def scored(reward: float, truncated: bool, info: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a scored episode: the protocol's, then the verifier's own."""
    fields = {"reward": reward, "mask_sample": False, "truncated": truncated}
    return {**fields, **{name: value for name, value in info.items() if name not in _OMITTED and name not in fields}}


def masked(kind: FailureKind, reason: str) -> dict[str, Any]:
    """Return the fields of a masked episode.

    NeMo Gym needs a number as the reward. This 0.0 has no meaning, and `/aggregate_metrics` does not count it.
    """
    return {
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": kind,
        "failure_reason": redact(reason)[:_LONGEST_REASON],
    }


def answer(payload: bytes, body: dict[str, Any], fields: dict[str, Any]) -> bytes:
    """Return a body with further fields, which replace its own; a verifier's own field replaces none.

    Args:
        payload: The body's bytes, which are written once: they may have megabytes of token ids.
        body: The parsed body.
        fields: The fields from `scored` or `masked`.
    """
    if body.keys().isdisjoint(fields):
        return payload.rstrip()[:-1] + b"," + dumps(fields)[1:]
    protocols = masked("cancelled", "").keys() | {"reward_components", "truncated"}
    own = {name: value for name, value in fields.items() if name in protocols or name not in body}
    stale = protocols - fields.keys()  # of an earlier answer, which was sent as a row
    return dumps({**{name: value for name, value in body.items() if name not in stale}, **own})
