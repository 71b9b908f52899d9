"""Rollout records: what is written down of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gym_llm.types import Episode, Phase, Rollout, RolloutId

if TYPE_CHECKING:
    from gym_llm.env import VerifierEnv


def make_record(
    env: Any,
    *,
    rollout_id: RolloutId,
    reward: float,
    terminated: bool,
    truncated: bool,
    error: str | None,
    error_phase: Phase | None = None,
    info: dict[str, Any],
    timing: dict[str, float],
    sampling: dict[str, Any] | None = None,
) -> Rollout:
    """The record of the episode that an environment has just played (or failed to).

    Args:
        env: The environment, wrapped or not; its `unwrapped` is a `VerifierEnv`.
        rollout_id: Which episode of the run this is.
        reward: The sum of the rewards of its steps.
        terminated: Whether it ended by itself.
        truncated: Whether it was cut short.
        error: Why it failed, else None.
        error_phase: Where the error arose.
        info: The last step's info.
        timing: Seconds by name.
        sampling: Request fields that the driver set over the task's own.

    Returns:
        A record that shares the episode's items: write it, or copy it, before changing anything.
    """
    verifier: VerifierEnv = env.unwrapped
    episode = verifier.episode
    record: dict[str, Any] = {}
    if episode is not None:
        record.update(episode.row)
        record["responses_create_params"] = {**episode.request, **(sampling or {})}
        record["response"] = _response(episode)
    record.update(
        rollout_id=rollout_id,
        env_id=verifier.env_id,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        error=error,
        error_phase=error_phase,
        info={name: value for name, value in info.items() if name != "trajectory"},
        trajectory=info.get("trajectory"),
        timing=timing,
    )
    return record  # type: ignore[return-value]


def failed_record(env_id: str, rollout_id: tuple[int, int], error: str) -> Rollout:
    """The record of an episode of which nothing is left but why.

    Args:
        env_id: Which environment it was of.
        rollout_id: Task index and repeat index.
        error: Why.
    """
    task_index, repeat_index = rollout_id
    return {
        "rollout_id": {"task_index": task_index, "repeat_index": repeat_index},
        "env_id": env_id,
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "error": error,
        "error_phase": None,
        "info": {"task_index": task_index},
        "trajectory": None,
        "timing": {},
    }


def _response(episode: Episode) -> dict[str, Any]:
    last = episode.last_response
    response: dict[str, Any] = {
        "id": f"resp_{episode.task_index}",
        "object": "response",
        "created_at": 0.0,
        "model": "",
        "status": "completed",
        "incomplete_details": None,
    }
    response.update(last)
    response["output"] = episode.items
    response["usage"] = episode.usage
    return response
