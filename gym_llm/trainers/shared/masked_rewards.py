"""Rewards for masked episodes, for trainers whose baselines have no mask and want a number for everyone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import fmean


def with_masked_rewards(rewards: Sequence[float | None], groups: Sequence[Hashable]) -> list[float]:
    """Return the rewards; each None is replaced by the mean of the others of its group.

    The group's mean does not change; the masked member only counts in its standard deviation and its size. If a whole
    group is masked, the mean of all rewards is used, or 0.0 if all are masked. A record's group is its
    `gym_llm.trainers.shared.trainer_tasks.task_of`.

    >>> with_masked_rewards([1.0, None, 0.5, None], ["a", "a", "a", "b"])
    [1.0, 0.75, 0.5, 0.75]
    """
    known: defaultdict[Hashable, list[float]] = defaultdict(list)
    for reward, group in zip(rewards, groups, strict=True):
        if reward is not None:
            known[group].append(reward)
    everyone = _mean([reward for reward in rewards if reward is not None])
    means = {group: _mean(members) for group, members in known.items()}
    return [
        means.get(group, everyone) if reward is None else reward for reward, group in zip(rewards, groups, strict=True)
    ]


def _mean(rewards: list[float]) -> float:
    """The mean; exactly the one value of rewards that are all the same, so that their variance stays zero."""
    return min(max(fmean(rewards), min(rewards)), max(rewards)) if rewards else 0.0
