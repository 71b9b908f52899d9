"""Wordle: feedback, what a win is worth, and what carelessness costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message, response, row

from gym_llm.envs.wordle.env import own_words
from gym_llm.envs.wordle.game import feedback
from gym_llm.errors import DataError

ENV_ID = "gym_llm/Wordle-v0"


def played(target: str, *guesses: Any, **kwargs: Any) -> tuple[float, dict[str, Any], list[str]]:
    """(reward, info, outputs) of a game with these guesses, one a turn, and then a message."""
    env = gym.make(ENV_ID, disable_env_checker=True, **kwargs)
    env.reset(options={"task": row(custom_target=target)})
    for guess in guesses:
        call = guess if isinstance(guess, dict) else function_call("submit_guess", {"guess": guess})
        observation, *_ = env.step(response(call))
    _, reward, terminated, _, info = env.step(message("Done."))
    outputs = [item["output"] for item in observation["input"] if item.get("type") == "function_call_output"]
    assert terminated
    return float(reward), info, outputs


@pytest.mark.parametrize(
    ("guess", "target", "marks"),
    [
        ("canoe", "canoe", "GGGGG"),
        ("ocean", "canoe", "YYYYY"),
        ("plaza", "llama", "_GG_G"),
        ("eerie", "three", "Y_G_G"),
        ("geese", "eerie", "_GY_G"),
        ("sassy", "glass", "YY_G_"),
        ("zzzzz", "canoe", "_____"),
    ],
)
def test_a_letter_is_marked_as_often_as_the_word_has_it(guess: str, target: str, marks: str) -> None:
    assert feedback(guess, target) == marks


@pytest.mark.parametrize(
    ("guesses", "reward"),
    [
        (["canoe"], 1.6),
        (["birth", "canoe"], 1.8),
        (["birth", " CANOE "], 1.8),
        (["birth", "dusky", "fglmp", "canoe"], 1.4),
        (["birth", "birth", "canoe"], 1.6 - 0.2 - 5 * 0.02),
        (["canal", "birth", "canoe"], 1.6 - 3 * 0.05),
        (["ocean", "birth", "canoe"], 1.6 - 0.03),
        (["toolong", "canoe"], 1.8 - 0.02),
        (["", "canoe"], 1.8 - 0.02),
        (["n0isy", "canoe"], 1.8 - 0.02),
        (["çanoe", "canoe"], 1.8 - 0.02),
        (["canal"] * 5 + ["canoe"], 1.0 - 4 * 0.2 - 4 * 0.02),
        (["birth"] * 5 + ["canoe"], 0.1),
        (["birth"] * 6, 0.0),
        (["birth"] * 6 + ["canoe"], 0.0),
        (["canoe", "canoe", "birth"], 1.6),
        (["birth"], 0.0),
    ],
)
def test_a_win_is_worth_less_for_each_guess_and_each_carelessness(guesses: list[str], reward: float) -> None:
    got, info, _ = played("canoe", *guesses)
    assert got == pytest.approx(reward)
    assert info["won"] == (reward > 0) and info["turns_used"] <= 6


def test_only_listed_words_may_be_guessed_with_a_list(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("# a list\nbirth\nDUSKY\n")
    reward, _, outputs = played("canoe", "aeiou", "dusky", "canoe", words=str(words))
    assert reward == pytest.approx(1.6 - 0.02) and "not a valid English word" in outputs[0]
    assert played("canoe", "aeiou", "dusky", "canoe")[0] == pytest.approx(1.6 - 0.05 - 0.03 - 0.02)
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(DataError, match="words"):
        gym.make(ENV_ID, words=str(tmp_path / "empty.txt"))


def test_the_target_is_told_only_when_the_game_is_over() -> None:
    state, check = function_call("get_game_state", {}), function_call("check_word_validity", {"word": "Birth"})
    _, info, outputs = played("canoe", "birth", state, check, function_call("guess", {}), "cabin")
    assert info["game_outcome"] == "incomplete" and "CANOE" not in "".join(outputs)
    assert '"eliminated_letters"' in outputs[1] and '"valid":true' in outputs[2].replace(" ", "")
    assert "CANOE" in played("canoe", *["birth"] * 6)[2][-1]


@pytest.mark.parametrize(
    "wrong", [{"custom_target": "cat"}, {"custom_target": "c4noe"}, {}, {"custom_target": "çanoe"}]
)
def test_a_target_has_to_be_a_word(wrong: dict[str, Any]) -> None:
    env = gym.make(ENV_ID, disable_env_checker=True)
    with pytest.raises(DataError):
        env.reset(options={"task": row(**wrong)})


def test_drawn_words_are_on_the_list() -> None:
    env = gym.make(ENV_ID, tasks=None, disable_env_checker=True).unwrapped
    assert len(own_words()) == len(set(own_words())) and all(len(word) == 5 for word in own_words())
    assert env.generate(env.np_random)["custom_target"] in own_words()
