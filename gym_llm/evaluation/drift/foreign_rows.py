"""Rows of tokens in the formats of verifiers and TRL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gym_llm.errors import DataError
from gym_llm.evaluation.drift.drift_row import DriftRow

_TRL_MASKS = ("env_mask", "tool_mask", "completion_mask")
_TRL_LOG_PROBS = ("logprobs", "sampling_per_token_logps", "old_per_token_logps")


def foreign_rows(value: dict[str, Any]) -> list[DriftRow] | None:
    """Return the rows of a line of another package; None if its format is another.

    Formats are:

    - TRL: `prompt_ids`, `completion_ids`, `logprobs` and perhaps `env_mask`, as `rollout_func` returns them. Of one
        completion, or lists of several.
    - verifiers 0.4: an episode with `traces` of `nodes` (`token_ids`, `mask`, `logprobs`), or such a trace. Each path
        from the root to a leaf is a row.
    - verifiers before 0.4: a rollout with a `trajectory` of steps, of which `tokens` has `prompt_ids`,
        `completion_ids`, `completion_mask` and `completion_logprobs`.

    Raises:
        DataError: If a line of these lacks a column.
    """
    try:
        if "prompt_ids" in value and "completion_ids" in value:
            return list(_trl(value))
        if isinstance(traces := value.get("traces"), list):
            return [row for trace in traces for row in _paths(trace["nodes"], _sampling(trace) or _sampling(value))]
        if isinstance(nodes := value.get("nodes"), list):
            return list(_paths(nodes, _sampling(value)))
        steps = value.get("trajectory")
        if isinstance(steps, list) and any(isinstance(step, dict) and "tokens" in step for step in steps):
            return list(_steps(steps, _sampling(value)))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"a column is missing or invalid ({error!r:.60})") from None
    return None


def _row(ids: list[int], mask: list[int], log_probs: list[float], sampling: dict[str, Any]) -> DriftRow:
    used = [int(bool(each)) for each in mask]
    known = [float(value) if each else 0.0 for value, each in zip(log_probs, used, strict=False)]
    temperature, top_p = sampling.get("temperature"), sampling.get("top_p")
    return DriftRow(
        ids,
        used,
        known if len(log_probs) == len(used) else log_probs,
        temperature=float(temperature) if temperature and temperature >= 0.01 else 1.0,
        top_p=float(top_p) if top_p else 1.0,
    )


def _sampling(value: dict[str, Any]) -> dict[str, Any]:
    """The sampling arguments, which each version keeps elsewhere."""
    for name in ("sampling", "sampling_args"):
        if isinstance(found := value.get(name), dict):
            return found
    for name in ("agent", "config", "metadata", "run"):
        if isinstance(inner := value.get(name), dict) and (found := _sampling(inner)):
            return found
    return {}


def _trl(value: dict[str, Any]) -> Iterator[DriftRow]:
    prompts, completions = value["prompt_ids"], value["completion_ids"]
    log_probs = next((value[name] for name in _TRL_LOG_PROBS if value.get(name) is not None), None)
    if log_probs is None:
        raise DataError("there are no `logprobs`")
    masks = next((value[name] for name in _TRL_MASKS if value.get(name) is not None), None)
    if not completions or not isinstance(completions[0], list):
        prompts, completions, log_probs, masks = [prompts], [completions], [log_probs], masks and [masks]
    for number, (prompt, completion, values) in enumerate(zip(prompts, completions, log_probs, strict=True)):
        mask = masks[number] if masks else [1] * len(completion)
        if values and isinstance(values[0], list):  # the likeliest first, as vLLM's `logprobs` are in TRL
            values = [each[0] for each in values]
        yield _row([*prompt, *completion], [0] * len(prompt) + mask, [0.0] * len(prompt) + values, value)


def _paths(nodes: list[dict[str, Any]], sampling: dict[str, Any]) -> Iterator[DriftRow]:
    parents = {node.get("parent") for node in nodes}
    for leaf in range(len(nodes)):
        if leaf in parents:
            continue
        path: list[dict[str, Any]] = []
        place: int | None = leaf
        while place is not None and len(path) <= len(nodes):
            path.insert(0, nodes[place])
            place = nodes[place].get("parent")
        ids: list[int] = []
        mask: list[int] = []
        log_probs: list[float] = []
        for node in path:
            own = node.get("token_ids") or []
            used = node.get("mask") or [int(bool(node.get("sampled")))] * len(own)
            values = node.get("logprobs") or []
            if len(values) == sum(map(bool, used)) != len(own):  # of the sampled ids only
                rest = iter(values)
                values = [next(rest) if each else 0.0 for each in used]
            ids += own
            mask += used
            log_probs += values or [0.0] * len(own)
        yield _row(ids, mask, log_probs, sampling)


def _steps(steps: list[dict[str, Any]], sampling: dict[str, Any]) -> Iterator[DriftRow]:
    for step in steps:
        if (tokens := step.get("tokens")) is None:
            continue
        prompt, completion = tokens["prompt_ids"], tokens["completion_ids"]
        mask = tokens.get("completion_mask") or [1] * len(completion)
        log_probs = tokens["completion_logprobs"]
        yield _row([*prompt, *completion], [0] * len(prompt) + mask, [0.0] * len(prompt) + log_probs, sampling)
