"""Rewards that Harbor's verifiers write to /logs/verifier: `reward.json`, else `reward.txt`."""

from __future__ import annotations

import json
import math

from gym_llm.errors import InfrastructureError
from gym_llm.sandbox.machines.machine import Machine

VERIFIER_LOGS = "/logs/verifier"
_BYTES = 1 << 16
_MOST = 100


class RewardFileError(InfrastructureError):
    """A verifier left no valid reward: the episode is masked, not scored 0."""

    failure_kind = "verifier_error"


async def read_rewards(machine: Machine, said: str) -> dict[str, float]:
    """Return the rewards by name that a verifier left.

    Args:
        machine: The container in which it ran.
        said: The end of its output, for the message.

    Raises:
        RewardFileError: If there is no reward file, it is empty, cannot be read, has no finite numbers, or there are
            two that differ.
    """
    left: list[dict[str, float]] = []
    for name, parse in (("reward.json", _from_json), ("reward.txt", _from_text)):
        data = await machine.download(f"{VERIFIER_LOGS}/{name}", _BYTES)
        if data is None:
            continue
        if not data.strip():
            raise RewardFileError(f"The verifier left an empty {name}.")
        try:
            rewards = parse(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise RewardFileError(f"The verifier's {name} cannot be read: {error}.") from None
        if not rewards or not all(map(math.isfinite, rewards.values())):
            raise RewardFileError(f"The verifier's {name} has no rewards, or one that is not finite.")
        left.append(rewards)
    if len(left) == 2 and not math.isclose(one_reward(left[0]), one_reward(left[1]), rel_tol=1e-4, abs_tol=1e-6):
        raise RewardFileError("The verifier's reward.json and reward.txt differ: one may be the model's own.")
    if left:
        return left[0]
    raise RewardFileError(f"The verifier left neither reward.json nor reward.txt. It ended with: {said[-500:]!r}.")


def one_reward(rewards: dict[str, float]) -> float:
    """Return a single number: the one named `reward`, else the mean.

    >>> one_reward({"reward": 1.0, "style": 0.0}), one_reward({"a": 1.0, "b": 0.0})
    (1.0, 0.5)
    """
    return rewards["reward"] if "reward" in rewards else sum(rewards.values()) / len(rewards)


def _from_json(text: str) -> dict[str, float]:
    content = json.loads(text)
    if not isinstance(content, dict) or len(content) > _MOST:
        raise ValueError("it is not a JSON object of rewards by name")
    for name, value in content.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name[:100]!r} is not a number")
    return {name: _number(value) for name, value in content.items()}


def _from_text(text: str) -> dict[str, float]:
    return {"reward": float(text[:1000])}


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
