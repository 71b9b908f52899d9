"""Records that NeMo Gym wrote, read as ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gym_llm.records.failures import FAILURE_KINDS

UNNUMBERED = -1
"""The task index of a record without one."""

_SHARED = {"rollout_id", "responses_create_params", "response", "reward", "failure_kind"}
_OF_VERIFIERS = ("verifier_error", "judge_failed", "judge_unparseable")
"""NeMo Gym's names of failures at an episode's very end."""


def is_nemo_record(value: Mapping[str, Any]) -> bool:
    """Whether NeMo Gym wrote a record. Those of its example files have no numbers."""
    if "rollout_id" in value:
        return False
    is_ours = not {"env_id", "outcome"}.isdisjoint(value)
    return "_ng_task_index" in value or ({"responses_create_params", "response"} <= value.keys() and not is_ours)


def rename_nemo_fields(
    value: dict[str, Any], checks: Mapping[str, Callable[[Any], bool]], version: int
) -> dict[str, Any]:
    """Give a record of NeMo Gym our names, in place, and return the task's fields that have names of ours.

    `checks` has a check for each of our fields. A value that fails it is a task's. Aviary's agent returns the whole
    conversation after each step; the last one is kept.
    """
    numbers = value.pop("_ng_task_index", UNNUMBERED), value.pop("_ng_rollout_index", 0)
    value["rollout_id"] = dict(zip(("task_index", "repeat_index"), numbers, strict=True))
    names = [name for name, is_valid in checks.items() if name in value.keys() - _SHARED and not is_valid(value[name])]
    fields = {name: value.pop(name) for name in names}
    response = value.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    if isinstance(output, list) and output and all(isinstance(item, list) for item in output):
        value["response"] = {**response, "output": output[-1]}  # type: ignore[dict-item]
    kind, reason = value.pop("failure_kind", None), value.pop("failure_reason", None)
    if value.pop("mask_sample", False) or value.get("reward") is None:
        kind = kind if kind in FAILURE_KINDS else "verifier_error"
        phase = "verify" if kind in _OF_VERIFIERS else None
        value |= {"outcome": "masked", "reward": None, "failure_kind": kind, "error_phase": phase}
        value |= {"error": str(reason or kind), "traceback": None, "schema_version": version}
    return fields


def number_by_line(record: Any, line: int) -> None:
    """Number the task of a record without numbers by its line, from 1."""
    if type(record) is dict and record["rollout_id"]["task_index"] == UNNUMBERED and "env_id" not in record:
        record["rollout_id"]["task_index"] = line - 1
