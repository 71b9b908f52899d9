"""Rewards for masked episodes, for trainers whose baselines have no mask and want a number for everyone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import fmean


def with_masked_rewards(rewards: Sequence[float | None], groups: Sequence[Hashable]) -> list[float]:
    """The rewards, with the mean of its group's others for each that is None.

    So the group's mean is that of the others, and the masked member is in its standard deviation and its size alone.
    Where none of a group is left it is the mean of all; 0.0 where there is none at all. A record's group is its
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
