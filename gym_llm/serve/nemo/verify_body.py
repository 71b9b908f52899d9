"""What /verify answers beside what it was sent."""

from __future__ import annotations

from typing import Any

from gym_llm.data.files.jsonl import dumps
from gym_llm.types import FailureKind
from gym_llm.utils.secrets import redact

_LONGEST_REASON = 2_000
_NOT_SAID = {"task_index", "trajectory", "reward"}


def scored(reward: float, truncated: bool, info: dict[str, Any]) -> dict[str, Any]:
    """The fields of an episode that has a reward: the verifier's own ones follow the wire's."""
    fields = {"reward": reward, "mask_sample": False, "truncated": truncated}
    return {**fields, **{name: value for name, value in info.items() if name not in _NOT_SAID and name not in fields}}


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
