"""Self-play: a league's results and draws, and advantages by seat."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from testing import message_item, response

from gym_llm import collect
from gym_llm.engines.engine import Engine
from gym_llm.errors import DataError
from gym_llm.records.seats import seat_records
from gym_llm.trainers.prime_rl import sample_fields
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.league import League
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


def test_a_league_rates_draws_and_is_saved(tmp_path: Path) -> None:
    league = League({"weak": "constant:a", "even": "constant:b", "strong": "constant:c"})
    for spec, share in (("constant:a", 0.95), ("constant:b", 0.5), ("constant:c", 0.05)):
        wins = round(100 * share)
        league.report([game(1.0, ("policy", spec))] * wins + [game(1.0, (spec, "policy"))] * (100 - wins))
    league.report([game(None, ("policy", "constant:a")), game(1.0), game(1.0, ("policy", "another"))])
    assert len(league.results) == 300
    assert [rating.name for rating in league.ratings()][0::3] == ["strong", "weak"]
    rng = np.random.default_rng(0)
    close = Counter(league.draw(rng, "close", share=0.0) for _ in range(2000))
    strong = Counter(league.draw(rng, "strong", share=0.0) for _ in range(2000))
    assert close.most_common(1)[0][0] == "even" and close["even"] > 1300
    assert strong.most_common(1)[0][0] == "strong" and strong["weak"] < 20
    assert len(Counter(league.draw(rng, "uniform") for _ in range(500))) == 3
    league.save(tmp_path / "league.json")
    again = League.load(tmp_path / "league.json")
    assert (again.members, again.results) == (league.members, league.results)
    assert League.load(tmp_path / "none.json").members == {}


def test_a_saved_league_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    league = League({str(number): f"constant:{number}" for number in range(50)}, memory=7, seed=3)
    league.report([game(1.0, ("policy", "constant:4"))] * 9)
    before = [league.draw() for _ in range(5)]
    league.save(tmp_path / "league.json")
    again = League.load(tmp_path / "league.json")
    again.add("4", "constant:4")  # by a trainer whose checkpoint is older than the league
    for side in (league, again):
        side.report([game(-1.0, ("policy", "constant:5"))] * 3)
    after = [league.draw() for _ in range(20)]
    assert [again.draw() for _ in range(20)] == after and after[:5] != before
    assert (again.members, again.results, again.ratings()) == (league.members, league.results, league.ratings())


def test_a_league_forgets_the_policys_old_games_only() -> None:
    league = League({"a": "constant:a", "b": "constant:b"}, memory=10)
    league.report([game(1.0, ("constant:a", "constant:b"))] * 20)
    league.report([game(1.0, ("policy", "constant:a"))] * 15 + [game(-1.0, ("policy", "constant:b"))] * 4)
    assert Counter(result[:2] for result in league.results) == {("a", "b"): 20, ("policy", "a"): 6, ("policy", "b"): 4}


ODD_DRAWS = '{"members": {}, "memory": 1, "results": [], "draws": {"bit_generator": "PCG64", "state": 3}}'


def test_what_is_no_league_is_refused(tmp_path: Path) -> None:
    for text in (
        "{",
        "[]",
        '{"members": {"a": "x"}, "memory": 1, "results": [["a", "a", 1.0]]}',
        '{"members": 3}',
        ODD_DRAWS,
    ):
        (tmp_path / "league.json").write_text(text)
        with pytest.raises(DataError, match="is not a league"):
            League.load(tmp_path / "league.json")
    with pytest.raises(ValueError, match="no members"):
        League().draw(np.random.default_rng(0))
    with pytest.raises(ValueError, match="a member 'a' already"):
        League({"a": "pocket"}).add("a", "random")
    with pytest.raises(ValueError, match="by is"):
        League({"a": "pocket"}).draw(np.random.default_rng(0), "best")  # type: ignore[arg-type]


def test_real_games_against_a_member_are_counted() -> None:
    league = League({"bettor": "constant:bet", "passer": "constant:pass"})
    for spec in league.members.values():
        options = {"seat": "random", "opponents": spec}
        league.report(collect(KUHN, "constant:bet", env_kwargs=options, episodes=30))
    assert Counter(result[2] for result in league.results if "passer" in result[:2]).keys() <= {0.0, 1.0}
    ratings = {rating.name: rating.value for rating in league.ratings()}
    assert ratings["policy"] > ratings["passer"] and len(league.results) == 60
