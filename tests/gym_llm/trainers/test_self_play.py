"""Self-play: advantages by seat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from testing import message_item, response

from gym_llm import collect
from gym_llm.engines.engine import Engine
from gym_llm.records.seats import seat_records
from gym_llm.trainers.prime_rl import sample_fields
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.seat_advantages import RoleAdvantages, seat_group_advantages, seat_groups
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.wrappers import TokenIdTracking

KUHN = "gym_llm/KuhnPoker-v0"


def game(first: float | None, players: tuple[str, str] = ("policy", "policy")) -> Any:
    """A record of a zero-sum game in which the first seat got this reward."""
    seats = {
        name: {"player": player, "trained": player == "policy", "reward": sign * (first or 0.0), "turns": 1, "info": {}}
        for name, player, sign in zip("xo", players, (1, -1), strict=True)
    }
    return {"env_id": "game", "reward": first, "info": {"turn": 1}, "seats": seats}


def test_a_seat_is_compared_with_itself_alone() -> None:
    group = [game(1.0), game(1.0), game(-1.0), game(None)]
    advantages = seat_group_advantages(group, scale="none")
    for seat, sign in (("x", 1), ("o", -1)):
        assert advantages[seat] == group_advantages([sign, sign, -sign, None], 4, scale="none").tolist()
    by_seat = seat_groups([group, [{"reward": 0.5}]])  # type: ignore[list-item]
    assert [[one["reward"] for one in each] for each in by_seat] == [[1, 1, -1, None], [-1, -1, 1, None], [0.5]]


def test_a_seat_that_is_not_trained_has_no_part() -> None:
    group = [game(1.0, ("policy", "random")), game(-1.0, ("random", "policy"))]
    assert seat_group_advantages(group) == {"x": [0.0, 0.0], "o": [0.0, 0.0]}
    assert [list(seat_records(one)) for one in group] == [["x"], ["o"]]


def test_a_trainer_gets_a_row_for_each_trained_seat_with_its_own_advantage() -> None:
    options: dict[str, Any] = {"tasks": [{"responses_create_params": {"input": "Play."}, "cards": [1, 3]}], "seed": 1}
    options |= {"env_kwargs": {"max_illegal_moves": 0}, "wrappers": [TokenIdTracking]}
    group = collect(KUHN, Coin(), repeats=8, **options)
    made = seat_groups([group])
    assert [len(each) for each in made] == [8, 8]
    for seat, each in zip(("player_0", "player_1"), made, strict=True):
        fields = sample_fields(each, 8)
        expected = seat_group_advantages(group, scale="none")[seat]
        sampled = [sum(row.loss_mask) for record in each for row in token_rows(record)]
        values = [sum(one["advantages"]) for one in fields]
        rows = [advantage for record, advantage in zip(each, expected, strict=True) for _ in token_rows(record)]
        assert values == pytest.approx([count * value for count, value in zip(sampled, rows, strict=True)])
        assert any(values)


class Coin(Engine):
    """Passes or bets at random, with token ids."""

    model = "coin"

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        tokens = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.7]}
        return response({**message_item(["pass", "bet"][self.random.integers(2)]), **tokens})


def test_role_advantages_are_spirals() -> None:
    role = RoleAdvantages(decay=0.9)
    averages = {"x": 0.0, "o": 0.0}
    for reward in np.random.default_rng(0).choice([-1.0, 0.0, 1.0], 50).tolist():
        expected = {"x": reward - averages["x"], "o": -reward - averages["o"]}
        assert role(game(reward)) == pytest.approx(expected)
        averages = {"x": 0.9 * averages["x"] + 0.1 * reward, "o": 0.9 * averages["o"] - 0.1 * reward}
    before = {name: dict(seats) for name, seats in role.baselines.items()}
    assert role(game(None)) == {} and role.baselines == before
    with pytest.raises(ValueError, match="decay"):
        RoleAdvantages(1.0)
