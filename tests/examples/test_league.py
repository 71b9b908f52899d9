"""A league's results, ratings and draws."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT

from gym_llm import collect
from gym_llm.errors import DataError

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "examples")
    from league import League

KUHN = "gym_llm/KuhnPoker-v0"


def game(first: float | None, players: tuple[str, str] = ("policy", "policy")) -> Any:
    """A record of a zero-sum game in which the first seat got this reward."""
    seats = {
        name: {"player": player, "reward": sign * (first or 0.0)}
        for name, player, sign in zip("xo", players, (1, -1), strict=True)
    }
    return {"reward": first, "seats": seats}


def test_a_league_rates_draws_and_is_saved(tmp_path: Path) -> None:
    league = League({"weak": "constant:a", "even": "constant:b", "strong": "constant:c"})
    for spec, share in (("constant:a", 0.95), ("constant:b", 0.5), ("constant:c", 0.05)):
        wins = round(100 * share)
        league.report([game(1.0, ("policy", spec))] * wins + [game(1.0, (spec, "policy"))] * (100 - wins))
    league.report([game(None, ("policy", "constant:a")), game(1.0), game(1.0, ("policy", "another"))])
    assert len(league.results) == 300
    assert [rating.name for rating in league.ratings()][0::3] == ["strong", "weak"]
    close = Counter(league.draw("close", share=0.0) for _ in range(2000))
    strong = Counter(league.draw("strong", share=0.0) for _ in range(2000))
    assert close.most_common(1)[0][0] == "even" and close["even"] > 1300
    assert strong.most_common(1)[0][0] == "strong" and strong["weak"] < 20
    assert len(Counter(league.draw("uniform") for _ in range(500))) == 3
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
        League().draw()
    with pytest.raises(ValueError, match="a member 'a' already"):
        League({"a": "pocket"}).add("a", "random")
    with pytest.raises(ValueError, match="by is"):
        League({"a": "pocket"}).draw("best")  # type: ignore[arg-type]


def test_real_games_against_a_member_are_counted() -> None:
    league = League({"bettor": "constant:bet", "passer": "constant:pass"})
    for spec in league.members.values():
        options = {"seat": "random", "opponents": spec}
        league.report(collect(KUHN, "constant:bet", env_kwargs=options, episodes=30))
    assert Counter(result[2] for result in league.results if "passer" in result[:2]).keys() <= {0.0, 1.0}
    ratings = {rating.name: rating.value for rating in league.ratings()}
    assert ratings["policy"] > ratings["passer"] and len(league.results) == 60
