"""Advantages of groups of episodes. Masked episodes are left out of every baseline."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gym_llm.types import Rollout

EPSILON = 1e-4
"""Added to a standard deviation before dividing by it, as in TRL."""


Rewards = Sequence[float | None]


def group_advantages(
    rewards: Rewards, group_size: int, *, scale: Literal["group", "batch", "none"] = "group", epsilon: float = EPSILON
) -> NDArray[np.float64]:
    """GRPO's advantages: each reward less the mean of its group, over a standard deviation.

    From Shao et al. 2024, "DeepSeekMath" (arXiv 2402.03300), equation 3, with the sample deviation, as TRL has it;
    without the division it is Dr. GRPO's (Liu et al. 2025, arXiv 2503.20783).

    Args:
        rewards: One per episode, shape `(groups * group_size,)`, a group's one after the other; None (or NaN) for a
            masked episode.
        group_size: Episodes per group.
        scale: Divide by the deviation of the `"group"`, of the whole `"batch"`, or by `"none"`.
        epsilon: Added to the deviation.

    Returns:
        Advantages, float64, in the shape of `rewards`. Masked episodes have 0.0 and do not change the others. The only
        scored episode of a group has 0.0, too.

    Raises:
        ValueError: If the rewards are not whole groups, one is infinite, or an argument is invalid.

    >>> group_advantages([1.0, None, 0.0], 3, scale="none").tolist()
    [0.5, 0.0, -0.5]
    """
    if scale not in ("group", "batch", "none"):
        raise ValueError(f'scale is "group", "batch" or "none", got {scale!r}.')
    values = _grouped(rewards, group_size)
    advantages = _centred(values)
    if scale == "group":
        advantages /= _deviations(advantages) + epsilon
    elif scale == "batch":
        advantages /= _deviation(values) + epsilon
    return np.nan_to_num(advantages).ravel()


def rloo_advantages(
    rewards: Rewards, group_size: int, *, normalize: bool = False, epsilon: float = EPSILON
) -> NDArray[np.float64]:
    """REINFORCE leave-one-out: each reward less the mean of its group's other ones.

    From Ahmadian et al. 2024, "Back to Basics" (arXiv 2402.14740), with masked episodes left out as TRL does.

    Args:
        rewards: As in `group_advantages`.
        group_size: Likewise.
        normalize: Then less the mean of all scored advantages, over their sample deviation: TRL's
            `normalize_advantages`.
        epsilon: Added to that deviation.

    Returns:
        Advantages, as from `group_advantages`. The only scored one of a group has nothing to be compared with: 0.0.

    Raises:
        ValueError: As `group_advantages`.

    >>> rloo_advantages([1.0, None, 0.0], 3).tolist()
    [1.0, 0.0, -1.0]
    """
    values = _grouped(rewards, group_size)
    counts = _counts(values)
    advantages = np.where(counts > 1, _centred(values) * counts / np.maximum(counts - 1, 1), np.nan)
    return np.nan_to_num(_whitened(advantages, epsilon) if normalize else advantages).ravel()


def reinforce_advantages(
    rewards: Rewards, group_size: int = 1, *, baseline: bool | None = None, epsilon: float = EPSILON
) -> NDArray[np.float64]:
    """REINFORCE++'s advantages: rewards, or with a baseline what a group differs by, whitened over the whole batch.

    From Hu 2025, "REINFORCE++" (arXiv 2501.03262), without the penalty for tokens, which is the loss's. A batch, not a
    group, says what is much: hard and easy tasks count alike.

    Args:
        rewards: As in `group_advantages`.
        group_size: Likewise; 1 for episodes that are in no groups.
        baseline: Take the mean of its group off each reward first ("REINFORCE++-baseline"); None for where there are
            groups.
        epsilon: Added to the deviation.

    Returns:
        Advantages, as from `group_advantages`; if nothing is scored, or one episode alone, they are 0.0.

    Raises:
        ValueError: As `group_advantages`, and for a baseline without groups, after which nothing is left.

    >>> reinforce_advantages([1.0, None, 0.0], epsilon=0.0).round(3).tolist()
    [0.707, 0.0, -0.707]
    """
    values = _grouped(rewards, group_size)
    if baseline and group_size == 1:
        raise ValueError("A baseline is the mean of a group: group_size is 2 or more.")
    if baseline is None:
        baseline = group_size > 1
    return np.nan_to_num(_whitened(_centred(values) if baseline else values, epsilon)).ravel()


def turn_advantages(
    rewards: Sequence[Sequence[float] | None],
    states: Sequence[Sequence[Hashable]],
    group_size: int,
    *,
    discount: float = 0.95,
    weight: float = 1.0,
    scale: Literal["group", "none"] = "group",
    epsilon: float = EPSILON,
) -> list[NDArray[np.float64]]:
    """Return GiGPO's advantages, one per turn: the episode's advantage plus the turn's among turns of the same state.

    From Feng et al. 2025, "Group-in-Group Policy Optimization" (arXiv 2505.10978), equations 3 to 8. Turns of a group's
    episodes that share a state are compared by their return: the discounted sum of the rewards from that turn on. If
    every state occurs once, only GRPO's advantage is left, the same for all turns of an episode.

    Args:
        rewards: Each turn's reward, for each episode, a group's one after the other; None for a masked episode. Of
            records: `[rewards_of_turns(record) for record in group]`.
        states: A hashable state for each turn, for instance the request's last items as JSON. Each episode has as many
            as rewards; those of a masked episode are ignored.
        group_size: Episodes per group.
        discount: Factor of a reward one turn later, in [0, 1].
        weight: Factor of the turns' advantages.
        scale: Divide by the sample deviation of the `"group"` of episodes or turns, or by `"none"`.
        epsilon: Added to the deviation.

    Returns:
        For each episode an array, float64, shape `(turns,)`; empty for a masked episode. A turn with a unique state
        gets the episode's advantage alone.

    Raises:
        ValueError: As `group_advantages`; also for other numbers of states than of rewards.

    >>> [turns.tolist() for turns in turn_advantages([[0.0, 1.0], [0.0]], [["a", "b"], ["a"]], 2, scale="none")]
    [[0.975, 0.5], [-0.975]]
    """
    if not 0 <= discount <= 1:
        raise ValueError(f"discount is a number from 0 to 1; got {discount!r}.")
    if scale not in ("group", "none"):
        raise ValueError(f'scale is "group" or "none", got {scale!r}.')
    if len(states) != len(rewards):
        raise ValueError(f"There are states of {len(states)} episodes, and rewards of {len(rewards)}.")
    totals = [None if turns is None else float(sum(turns)) for turns in rewards]
    episodes = group_advantages(totals, group_size, scale=scale, epsilon=epsilon)
    advantages = [np.full(len(turns or ()), episodes[number]) for number, turns in enumerate(rewards)]
    same: dict[tuple[int, Hashable], list[tuple[int, int, float]]] = {}
    for number, turns in enumerate(rewards):
        if turns is None:
            continue
        if len(states[number]) != len(turns):
            raise ValueError(f"Episode {number} has {len(states[number])} states and {len(turns)} rewards.")
        later = 0.0
        for turn in reversed(range(len(turns))):
            later = turns[turn] + discount * later
            same.setdefault((number // group_size, states[number][turn]), []).append((number, turn, later))
    for turns_alike in same.values():
        parts = group_advantages([later for _, _, later in turns_alike], len(turns_alike), scale=scale, epsilon=epsilon)
        for (number, turn, _), part in zip(turns_alike, parts, strict=True):
            advantages[number][turn] += weight * part
    return advantages


def rewards_of_turns(record: Rollout) -> list[float] | None:
    """Return the reward of each turn of a recorded episode; None for a masked one.

    If no turn before the last was rewarded, the last has the episode's reward.

    >>> rewards_of_turns({"reward": 1.0, "info": {"turn": 3}})
    [0.0, 0.0, 1.0]
    """
    if record["reward"] is None:
        return None
    return record.get("turn_rewards") or [0.0] * (record["info"]["turn"] - 1) + [record["reward"]]


def _grouped(rewards: Rewards, group_size: int) -> NDArray[np.float64]:
    """Shape `(groups, group_size)`, NaN where an episode is masked."""
    values = np.array([np.nan if reward is None else reward for reward in rewards], dtype=np.float64)
    if group_size < 1 or len(values) % group_size:
        raise ValueError(f"{len(values)} rewards do not divide into groups of {group_size}.")
    if np.isinf(values).any():
        raise ValueError("A reward is a finite number, or None for a masked episode; got an infinite one.")
    return values.reshape(-1, group_size)


def _counts(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return (~np.isnan(values)).sum(axis=1, keepdims=True)


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    means = np.nansum(values, axis=1, keepdims=True) / np.maximum(_counts(values), 1)
    centred: NDArray[np.float64] = values - means
    return centred


def _deviations(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sample deviation of each group, shape `(groups, 1)`; 0 for fewer than two."""
    squares = np.nansum(centred**2, axis=1, keepdims=True)
    deviations: NDArray[np.float64] = np.sqrt(squares / np.maximum(_counts(centred) - 1, 1))
    return deviations


def _deviation(values: NDArray[np.float64]) -> float:
    """That of everything; 1 for fewer than two."""
    scored = values[~np.isnan(values)]
    return float(scored.std(ddof=1)) if len(scored) > 1 else 1.0


def _whitened(values: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    scored = values[~np.isnan(values)]
    mean = scored.mean() if len(scored) else 0.0
    whitened: NDArray[np.float64] = (values - mean) / (_deviation(values) + epsilon)
    return whitened
