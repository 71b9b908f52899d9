"""Tetris: a small board, and the first full line."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row
from verifier_vectors import agree, all_vectors_of, vector_id

from gym_llm.author.conform import replay_vector
from gym_llm.errors import DataError


def tags(*moves: str) -> str:
    return " then ".join(f"<action>{move}</action>" for move in moves)


def start(pieces: list[Any], **kwargs: Any) -> tuple[Any, str]:
    """An environment, and its first board."""
    fields = {name: kwargs.pop(name) for name in ("dim_board", "box_type", "seed") if name in kwargs}
    env = gym.make("gym_llm/Tetris-v0", **kwargs)
    observation, _ = env.reset(options={"task": row("Play.", pieces=pieces, **{"seed": 1} | fields)})
    return env, board(observation)


def board(observation: Any) -> str:
    return observation["input"][-1]["content"].split("\n\n")[0].removeprefix("Tetris board:\n")


def test_pieces_fall_move_and_land() -> None:
    env, first = start([["-", 1], ["O", 3], ["I", 0]])
    assert first == "XX__\n____\n____\n____"
    observation, reward, *_ = env.step(message(tags("Right", "left", "0", "DOWN")))
    assert (board(observation), reward) == ("____\nXX__\n____\n____", 0.0)
    observation, *_ = env.step(message(tags("Down", "Down")))
    assert board(observation) == "__XX\n____\n____\n##__"
    observation, *_ = env.step(message(tags("1")))
    assert board(observation) == "__XX\n____\n____\n##__"
    observation, reward, terminated, _, info = env.step(message(tags("2", "2", "2", "2")))
    assert terminated and reward == pytest.approx(10 - 10 * 0.1)
    assert (info["success"], info["dropped"], info["num_actions_applied"]) == (True, True, 3)
    assert info["total_reward"] == reward


def test_the_top_row_ends_the_game() -> None:
    env, _ = start([["I", 0]] * 9)
    for _ in range(2):
        _, reward, terminated, _, info = env.step(message(tags("Down", "Down", "Down")))
    assert terminated and not info["success"] and reward == pytest.approx(-0.4)


def test_a_piece_lands_beside_too_and_two_lines_may_be_full() -> None:
    env, _ = start([["-", 2], ["-", 3]], dim_board=[4, 2])
    observation, *_ = env.step(message(tags("Down")))
    assert board(observation) == "__XX\n_##_"
    _, _, terminated, _, info = env.step(message(tags("Left")))  # and lies on the other piece
    assert terminated and info["action_is_effective"] and info["dropped"] and not info["success"]
    env, _ = start([["O", 1], ["O", 3]], dim_board=[4, 3])
    env.step(message(tags("Down", "Down")))
    _, reward, terminated, _, info = env.step(message(tags("Down", "Down")))
    assert terminated and info["success"] and reward == pytest.approx(20 - 0.4)


def test_a_seed_gives_the_same_pieces_and_the_size_is_the_rows_but_for_nemo_gym() -> None:
    boards = [start([], seed=seed, dim_board=[6, 5])[1] for seed in (*range(8), *range(8))]
    assert boards[:8] == boards[8:] and len(set(boards)) > 2
    assert {len(b.splitlines()) for b in boards} == {5} and {len(b.splitlines()[0]) for b in boards} == {6}
    assert len(start([], dim_board=[6, 5], conform="nemo")[1].splitlines()) == 4
    assert start([], box_type=1)[1].count("X") == 1


def test_an_answer_without_a_move_ends_the_game_or_is_asked_again() -> None:
    env, first = start([["O", 1]])
    env.step(message(tags("Down")))
    _, reward, terminated, _, _ = env.step(message("Down"))
    assert terminated and reward == pytest.approx(-0.1)
    env, first = start([["O", 1]], no_move="ask")
    observation, _, terminated, _, _ = env.step(message("<action>Up</action>"))
    assert not terminated and board(observation) == first


def test_what_cannot_be_played_is_refused_and_what_is_endless_bounded() -> None:
    for pieces, fields in (([["O", 0]], {}), ([["I", 4]], {}), ([["T", 1]], {}), ([], {"dim_board": [1, 4]})):
        with pytest.raises(DataError):
            start(pieces, **fields)
    env, _ = start([])
    assert cpu_seconds(env.step, message(tags("Left") * 40_000)) < 1.0


@pytest.mark.parametrize("vector", all_vectors_of("grl_tetris"), ids=vector_id)
def test_recorded_games_with_their_pieces_score_as_recorded(vector: dict[str, Any]) -> None:
    kinds = [["I", column] for column in range(4)] + [[kind, column] for kind in "-O" for column in range(1, 4)]

    def with_pieces(pieces: list[Any]) -> dict[str, Any]:
        return vector | {"check": "reproduced", "task": vector["task"] | {"pieces": pieces, "dim_board": [4, 4]}}

    def differences(pieces: list[Any]) -> int:
        return len(replay_vector(with_pieces(pieces)).disagreements)

    pieces: list[Any] = []  # they were drawn with a generator that nobody had seeded: found one by one
    while differences(pieces) and len(pieces) < 12:
        pieces.append(min(kinds, key=lambda piece: differences([*pieces, piece])))
    agree(with_pieces(pieces))
