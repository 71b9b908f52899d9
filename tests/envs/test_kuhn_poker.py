"""Kuhn poker and tic-tac-toe: rules, rewards, and exact values."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from testing import message

from gym_llm.envs.kuhn_poker import solution
from gym_llm.envs.kuhn_poker.env import Table
from gym_llm.envs.tic_tac_toe.env import EMPTY, marked, mover, value, winner


def played(env_id: str, moves: list[str], **arguments: Any) -> dict[str, Any]:
    row = {"responses_create_params": {"input": "Play."}, **arguments.pop("row", {})}
    env = gym.make(env_id, tasks=[row], disable_env_checker=True, **arguments)
    env.reset(seed=0)
    for move in moves:
        *_, terminated, truncated, info = env.step(message(move))
    assert terminated or truncated
    return info


@pytest.mark.parametrize(
    ("moves", "chips"),
    [
        (["pass", "pass"], [-1.0, 1.0]),
        (["bet", "bet"], [-2.0, 2.0]),
        (["bet", "pass"], [1.0, -1.0]),
        (["pass", "bet", "pass"], [-1.0, 1.0]),
        (["pass", "bet", "bet"], [-2.0, 2.0]),
    ],
)
def test_every_hand_of_kuhn_poker_pays_what_its_rules_say(moves: list[str], chips: list[float]) -> None:
    info = played("gym_llm/KuhnPoker-v0", [f"I will {move}." for move in moves], row={"cards": [1, 3]})
    assert list(info["rewards"].values()) == chips and info["history"] == moves and info["cards"] == [1, 3]


def test_three_players_agree_with_open_spiels_rules() -> None:
    pyspiel = pytest.importorskip("pyspiel")
    game, rng = pyspiel.load_game("kuhn_poker(players=3)"), random.Random(0)
    for _ in range(500):
        cards = rng.sample(range(4), 3)
        state, table = game.new_initial_state(), Table([card + 1 for card in cards])
        for card in cards:
            state.apply_action(card)
        while not state.is_terminal():
            assert state.current_player() == table.mover
            action = rng.randrange(2)
            state.apply_action(action)
            table.history.append(("pass", "bet")[action])
        assert table.mover is None and table.rewards() == state.returns()


def test_the_value_of_kuhn_poker_and_its_equilibria() -> None:
    for alpha in (0.0, 0.1, 1 / 3):
        strategy = solution.equilibrium(alpha)
        assert solution.value(strategy) == pytest.approx(solution.VALUE)
        assert solution.exploitability(strategy) == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(20):
        noisy = {place: float(rng.random()) for place in solution.equilibrium()}
        assert solution.exploitability(noisy) > 0.0
    with pytest.raises(ValueError, match="alpha"):
        solution.equilibrium(0.5)


def test_wrong_cards_and_boards_are_refused() -> None:
    for cards in ([1], [1, 1], [0, 2], [1, 4]):
        with pytest.raises(ValueError, match="cards are 2 different ones"):
            played("gym_llm/KuhnPoker-v0", ["pass"], row={"cards": cards})
    for board in ("", "x" * 9, "xxx......", "oo.......", "xxxoo....", "abc......"):
        with pytest.raises(ValueError, match="board is nine cells"):
            played("gym_llm/TicTacToe-v0", ["1"], row={"board": board})


def test_best_play_of_tic_tac_toe_is_a_draw_from_every_even_position() -> None:
    rng = random.Random(0)
    for _ in range(200):
        board = EMPTY
        while winner(board) is None and "." in board:
            cells = [cell for cell in range(9) if board[cell] == "."]
            sign = 1 if mover(board) == "x" else -1
            best = max(sign * value(marked(board, cell)) for cell in cells)
            assert best == sign * value(board)
            board = marked(board, rng.choice([cell for cell in cells if sign * value(marked(board, cell)) == best]))
        assert winner(board) is None


def test_a_game_of_tic_tac_toe_that_is_cut_off_is_a_draw() -> None:
    info = played("gym_llm/TicTacToe-v0", ["1", "2"], max_turns=1)
    assert info["rewards"] == {"x": 0.0, "o": 0.0}
