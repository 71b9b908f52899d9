"""Sokoban: boxes onto targets."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row
from verifier_vectors import agree, all_vectors_of, vector_id

from gym_llm.envs.sokoban.room import MOVES, Room, make_board
from gym_llm.errors import DataError

BOARD = "######\n#P_XO#\n#____#\n######"


def start(board: str | None = BOARD, **kwargs: Any) -> tuple[Any, str]:
    fields = {name: kwargs.pop(name) for name in ("max_steps", "dim_room", "num_boxes", "seed") if name in kwargs}
    env = gym.make("gym_llm/Sokoban-v0", **kwargs)
    observation, _ = env.reset(options={"task": row("Play.", **{"board": board, "seed": 1} | fields)})
    return env, shown(observation)


def shown(observation: Any) -> str:
    return observation["input"][-1]["content"].split("\n\n")[0].removeprefix("Sokoban board:\n")


def play(*texts: str, board: str = BOARD, **kwargs: Any) -> tuple[float, bool, dict[str, Any]]:
    env, _ = start(board, **kwargs)
    for text in texts:
        _, reward, terminated, _, info = env.step(message(text))
        if terminated:
            break
    return float(reward), terminated, info


def solvable(board: str) -> bool:
    room = Room(board)
    seen, queue = {(room.player, room.boxes)}, deque([(room.player, room.boxes)])
    while queue:
        player, boxes = queue.popleft()
        for direction in MOVES:
            room.player, room.boxes = player, boxes
            room.move(direction)
            if room.boxes == room.targets:
                return True
            if (room.player, room.boxes) not in seen:
                seen.add((room.player, room.boxes))
                queue.append((room.player, room.boxes))
    return False


def test_pushing_the_box_onto_the_target_wins() -> None:
    env, first = start()
    assert first == BOARD
    observation, reward, terminated, _, _ = env.step(message("<action>Right</action>"))
    assert (shown(observation), reward, terminated) == ("######\n#_PXO#\n#____#\n######", 0.0, False)
    _, reward, terminated, _, info = env.step(message("<action> right </action> <action>Left</action>"))
    assert terminated and reward == pytest.approx(-0.2 + 1 + 10)
    assert info | {"success": True, "action_id": 4, "action_label": "Right", "action_is_effective": True} == info


def test_a_box_off_its_target_costs_what_it_gave() -> None:
    board = "#######\n#P√__O#\n#_X___#\n#######"
    reward, _, info = play("<action>4</action>", "<action>4</action>", board=board, max_steps=2)
    assert reward == pytest.approx(-0.2 - 1) and not info["success"]


def test_walls_and_boxes_stop_but_the_move_costs() -> None:
    board = "######\n#PXX_#\n#OO__#\n######"
    env, _ = start(board)
    for move in ("Right", "Up", "Left"):
        observation, *_ = env.step(message(f"<action>{move}</action>"))
        assert shown(observation) == board
    observation, *_ = env.step(message("<action>Down</action>"))
    assert "S" in shown(observation)
    assert env.unwrapped.episode.state.total == pytest.approx(-0.4)


def test_max_steps_end_the_game() -> None:
    reward, terminated, info = play(*["<action>Up</action>"] * 3, max_steps=3)
    assert terminated and reward == pytest.approx(-0.3) and info["action_is_effective"] is False


@pytest.mark.parametrize(
    ("text", "ours", "nemo"),
    [
        ("Right.", "Right", "Right"),
        ("4", "Right", "Right"),
        ("**right**\n", "Right", "Right"),
        ("the box up there, so right", None, "Up"),
        ("upwards", None, None),
        ("<action>up</action> right", "Up", "Up"),
        ("", None, None),
    ],
)
def test_what_is_a_move(text: str, ours: str | None, nemo: str | None) -> None:
    for conform, expected in ((None, ours), ("nemo", nemo)):
        _, terminated, info = play(text, conform=conform, no_move="end", max_steps=1)
        assert terminated and info.get("action_label") == expected


def test_an_answer_without_a_move_may_be_asked_again() -> None:
    env, first = start(no_move="ask")
    observation, _, terminated, _, _ = env.step(message("Hm."))
    assert not terminated and shown(observation) == first


@pytest.mark.parametrize("size", [(5, 5, 1), (6, 7, 1), (7, 7, 2), (8, 6, 3)])
def test_levels_can_be_solved_and_are_not_yet(size: tuple[int, int, int]) -> None:
    rows, columns, boxes = size
    boards = {make_board(seed, *size) for seed in range(8)}
    assert len(boards) == 8
    for board in boards:
        lines = board.splitlines()
        assert len(lines) == rows and {len(line) for line in lines} == {columns}
        assert board.count("X") >= 1 and board.count("X") + board.count("√") == boxes
        assert set(lines[0] + lines[-1]) == {"#"} and {line[0] + line[-1] for line in lines} == {"##"}
        if boxes < 3:
            assert solvable(board)


def test_the_seed_decides_the_level_and_making_it_is_quick() -> None:
    boards = [start(None, seed=seed, dim_room=[7, 6])[1] for seed in (1, 2, 1)]
    assert boards[0] == boards[2] != boards[1]
    assert cpu_seconds(make_board, 7, 20, 20, 6) < 3.0


def test_wrong_boards_are_refused() -> None:
    for board in ("", "#P#", "PXX\nO__", "PXO?", "PPXO"):
        with pytest.raises(DataError, match="board"):
            start(board)
    for fields in ({"dim_room": [3, 6]}, {"num_boxes": 0}, {"dim_room": [4, 4], "num_boxes": 5}):
        with pytest.raises(DataError):
            start(None, **fields)
    env, _ = start()
    assert cpu_seconds(env.step, message("<action>" + " " * 400_000 + "up" * 200_000)) < 1.0


@pytest.mark.parametrize("vector", all_vectors_of("grl_sokoban"), ids=vector_id)
def test_recorded_games_on_their_boards_score_as_recorded(vector: dict[str, Any]) -> None:
    board = vector["recorded_input"][-1]["content"].split("\n\n")[0].removeprefix("Sokoban board:\n")
    agree(vector | {"check": "reproduced", "task": vector["task"] | {"board": board}})
