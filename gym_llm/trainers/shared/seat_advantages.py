"""Advantages where an episode has several seats: a baseline for each seat, never one over all of them.

In a zero-sum game the mean reward of all seats is 0 whatever the policy learns. The seat that moves first may win more
often, however it plays. So a seat is compared with itself: with the same seat in other episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gym_llm.records.seats import seat_records
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.types import Rollout


def seat_groups(groups: Iterable[Sequence[Rollout]]) -> list[list[Rollout]]:
    """Return the groups of a trainer with a record for each trained seat: a group has one seat of one task.

    Records without seats are returned unchanged, so that a trainer can pass every group through it.

    >>> seat = {"trained": True, "turns": 1, "info": {}}
    >>> game = {"reward": 1.0, "info": {}, "seats": {"x": {**seat, "reward": 1.0}, "o": {**seat, "reward": -1.0}}}
    >>> [[record["reward"] for record in group] for group in seat_groups([[game, game], [{"reward": 0.5}]])]
    [[1.0, 1.0], [-1.0, -1.0], [0.5]]
    """
    made: list[list[Rollout]] = []
    for group in groups:
        by_seat: dict[str, list[Rollout]] = {}
        for record in group:
            for seat, alone in seat_records(record).items():
                by_seat.setdefault(seat, []).append(alone)
        made += by_seat.values()
    return made


def seat_group_advantages(group: Sequence[Rollout], *, scale: Any = "group") -> dict[str, list[float]]:
    """Return GRPO's advantages of a group of episodes of one task, for each trained seat apart.

    Args:
        group: Records of one task's episodes.
        scale: See `group_advantages`.

    Returns:
        By seat, one advantage for each record of the group; 0.0 for a masked one, or where the seat is not trained.
    """
    alone = [seat_records(record) for record in group]
    seats = list(dict.fromkeys(seat for each in alone for seat in each))
    rewards = {seat: [each[seat]["reward"] if seat in each else None for each in alone] for seat in seats}
    return {seat: group_advantages(rewards[seat], len(group), scale=scale).tolist() for seat in seats}


class RoleAdvantages:
    """Role-conditioned advantages (RAE): a seat's reward less the moving average of this seat's rewards in this game.

    From Liu et al. 2025, "SPIRAL: Self-Play on Zero-Sum Games Incentivizes Reasoning" (arXiv 2506.24119), section 3.3.
    An episode's baseline is the average before that episode.

    Args:
        decay: The weight of the average so far, from 0 to less than 1; SPIRAL's is 0.95.

    Attributes:
        baselines: The averages, by environment and seat. JSON values: save them with a checkpoint, and set them again.
    """

    def __init__(self, decay: float = 0.95) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay is a number from 0 to less than 1; got {decay!r}.")
        self.decay = decay
        self.baselines: dict[str, dict[str, float]] = {}

    def __call__(self, record: Rollout) -> dict[str, float]:
        """Return the advantage of each trained seat of an episode, and take note of its rewards.

        A masked episode has none, and changes no average.

        >>> advantages = RoleAdvantages(decay=0.5)
        >>> seat = {"trained": True, "turns": 1, "info": {}}
        >>> game = {"env_id": "g", "reward": 1.0, "info": {}, "seats": {"x": {**seat, "reward": 1.0}}}
        >>> [advantages(game)["x"] for _ in range(3)]
        [1.0, 0.5, 0.25]
        """
        if record["reward"] is None:
            return {}
        averages = self.baselines.setdefault(record["env_id"], {})
        made = {}
        for seat, alone in seat_records(record).items():
            reward, average = float(alone["reward"] or 0.0), averages.get(seat, 0.0)
            made[seat] = reward - average
            averages[seat] = self.decay * average + (1 - self.decay) * reward
        return made
