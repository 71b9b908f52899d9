"""Blackjack: one hand."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row
from verifier_vectors import agree, all_vectors_of, vector_id

from gym_llm.errors import DataError

HIT, STAND = "<action>hit</action>", "<action>stand</action>"


def play(cards: list[str], *texts: str, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    env = gym.make("gym_llm/Blackjack-v0", **kwargs)
    env.reset(options={"task": row("Deal.", cards=cards, seed=1)})
    for text in texts:
        _, reward, terminated, truncated, info = env.step(message(text))
    assert terminated or truncated
    return float(reward), info


@pytest.mark.parametrize(
    ("cards", "texts", "reward", "result"),
    [
        (["10", "9", "10", "8"], [STAND], 1.0, "win"),
        (["10", "8", "10", "8"], [STAND], 0.0, "draw"),
        (["10", "7", "10", "8"], [STAND], -1.0, "loss"),
        (["10", "6", "10", "6", "10"], [STAND], 1.0, "win"),
        (["10", "6", "10", "8", "5"], [HIT, STAND], 1.0, "win"),
        (["10", "6", "10", "8", "6"], [HIT], -1.0, "bust"),
        (["A", "K", "A", "5", "10", "10"], [STAND], 1.0, "win"),
        (["A", "A", "10", "8", "9"], [HIT, STAND], 1.0, "win"),
        (["10", "9", "10", "8"], ["<ACTION> Stand </action> or " + HIT], 1.0, "win"),
        (["10", "9", "10", "8"], ["I hit."], -1.0, "forfeit"),
        (["10", "9", "10", "8"], [""], -1.0, "forfeit"),
    ],
)
def test_a_hand(cards: list[str], texts: list[str], reward: float, result: str) -> None:
    got, info = play(cards, *texts)
    assert (got, info["result"]) == (reward, result)
    assert info["success"] is (result == "win")


def test_without_an_action_the_hand_stands_in_nemo_gym_and_can_be_asked_for_again() -> None:
    assert play(["10", "9", "10", "8"], "I hit.", conform="nemo")[0] == 1.0
    assert play(["10", "9", "10", "8"], "I hit.", STAND, no_move="ask")[0] == 1.0


def test_the_player_sees_one_of_the_dealers_cards() -> None:
    env = gym.make("gym_llm/Blackjack-v0")
    observation, _ = env.reset(options={"task": row("Deal.", cards=["K", "7", "9", "A", "2"])})
    ask = "Respond with <action>hit</action> or <action>stand</action>."
    assert observation["input"][-1]["content"] == f"Your hand: [K, 7] = 17\nDealer shows: 9\n{ask}"
    observation, reward, *_ = env.step(message(HIT))
    assert observation["input"][-1]["content"] == f"Your hand: [K, 7, 2] = 19\nDealer shows: 9\n{ask}" and reward == 0.0


def test_a_seed_deals_the_same_cards_and_none_others_each_time() -> None:
    env = gym.make("gym_llm/Blackjack-v0")
    deals = [env.reset(options={"task": row("Deal.", seed=5)})[0]["input"][-1] for _ in range(3)]
    assert deals[0] == deals[1] == deals[2]
    env.reset(seed=3)
    deals = [env.reset(options={"task": row("Deal.")})[0]["input"][-1]["content"] for _ in range(10)]
    assert len(set(deals)) > 1


def test_turns_that_run_out_are_worth_nothing() -> None:
    reward, _ = play(["2", "2", "10", "8", "2", "2"], HIT, HIT, max_turns=2)
    assert reward == 0.0


def test_wrong_cards_and_options_are_refused() -> None:
    with pytest.raises(DataError, match="cards"):
        play(["1"], STAND)
    for kwargs in ({"no_move": "stop"}, {"conform": "gym"}):
        with pytest.raises(ValueError):
            gym.make("gym_llm/Blackjack-v0", **kwargs)
    env = gym.make("gym_llm/Blackjack-v0")
    env.reset(seed=1)
    assert cpu_seconds(env.step, message("<action>" + " " * 500_000 + "<action>" * 50_000)) < 1.0


@pytest.mark.parametrize("vector", all_vectors_of("blackjack"), ids=vector_id)
def test_recorded_hands_with_their_cards_score_as_recorded(vector: dict[str, Any]) -> None:
    shown = vector["recorded_input"][-1]["content"]
    info = vector["info"]["info"]
    mine, theirs = (re.findall(r"[\dJQKA]+", info.get(name) or "") for name in ("player", "dealer"))
    theirs = theirs or [re.findall(r"shows: (\w+)", shown)[0], "2"]
    cards = [*mine[:2], *theirs[:2], *mine[2:], *theirs[2:]]
    details = {"info": info, "check": "reproduced"}
    agree(vector | details | {"task": vector["task"] | {"cards": cards}})
