"""NVARC: which lines of digits are the answer."""

import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.nvarc.env import NVARC
from gym_llm.errors import DataError
from gym_llm.grading.grids import grid_of_lines_as_nemo_gym, last_grid_of_lines

GRID = [[1, 2], [3, 4]]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("nvarc")) >= 3


def test_the_expected_grid_is_worth_one():
    reward, info = scored("gym_llm/NVARC-v0", "\\boxed{1 2\n3 4}", expected_output=GRID)
    assert (reward, info["predicted_output"], info["extraction_successful"]) == (1.0, GRID, True)
    assert (info["exact_match"], info["agent_mode"]) == (True, "transductive")
    reward, info = scored("gym_llm/NVARC-v0", "\\boxed{1 2\n3 5}", expected_output=GRID)
    assert (reward, info["predicted_output"], info["exact_match"]) == (0.0, [[1, 2], [3, 5]], False)


@pytest.mark.parametrize(
    ("text", "here", "nemo"),
    [
        ("1 2\n3 4", GRID, GRID),
        ("\n 1 2 \n\n\t3  4\n", GRID, GRID),
        ("\\boxed{\n1 2\n3 4\n}", GRID, GRID),
        ("\\boxed{1 2\n3 4}", GRID, GRID),
        ("1, 2\n3, 4", GRID, GRID),
        ("1,2\n3,4", GRID, None),
        ("[[1,2],[3,4]]", GRID, None),
        ("[[1, 2], [3, 4]]", GRID, [[1, 2, 3, 4]]),
        ("[1, 2]\n[3, 4]", GRID, GRID),
        ("| 1 | 2 |\n| 3 | 4 |", GRID, GRID),
        ("Step 1 of 2:\n1 2\n3 4", GRID, [[1, 2], [1, 2], [3, 4]]),
        ("9 9\n9 9\nbecomes\n1 2\n3 4", GRID, [[9, 9], [9, 9], [1, 2], [3, 4]]),
        ("1 2\n3 4\nThat is it.", GRID, GRID),
        ("9\n\\boxed{1 2\n3 4}", GRID, GRID),
        ("\\boxed{9} no: \\boxed{1 2\n3 4}", GRID, [[9, 2], [3, 4]]),
        ("1 2\n3", None, None),
        ("12\n34", None, None),
        ("", None, None),
        ("no digits", None, None),
        ("x1 y2", None, None),
        (r"5 \boxed{}", None, [[5]]),
    ],
)
def test_the_last_lines_of_digits_count_and_in_nemo_gym_all_digits(text, here, nemo):
    assert last_grid_of_lines(text) == here
    assert grid_of_lines_as_nemo_gym(text) == nemo


@pytest.mark.parametrize("conform", [None, "nemo"])
def test_thinking_is_left_out(conform):
    text = "<think>\n9 9\n</think>1 2\n3 4"
    assert scored("gym_llm/NVARC-v0", text, {"conform": conform}, expected_output=GRID)[0] == 1.0


def test_nemo_gym_leaves_out_pairs_of_tags_only():
    text = "5\n</think>\n1"
    play = [scored("gym_llm/NVARC-v0", text, {"conform": conform}, expected_output=[[1]]) for conform in (None, "nemo")]
    assert [info["predicted_output"] for _, info in play] == [[[1]], [[5], [1]]]


def test_rows_that_want_a_program_are_read_but_not_played():
    assert NVARC([row(expected_output=GRID, agent_mode="transductive"), row(expected_output=GRID, agent_mode=None)])
    env = NVARC([row(expected_output=GRID, agent_mode="inductive")])
    with pytest.raises(DataError, match="wants a program"):
        env.reset()
    with pytest.raises(DataError, match="agent_mode"):
        NVARC([row(expected_output=GRID, agent_mode="deductive")])
    with pytest.raises(ValueError, match="agent_mode is 'transductive'"):
        NVARC([row(expected_output=GRID)], agent_mode="inductive")


@pytest.mark.parametrize(
    "unit", ["1\n", "1 2\n", "a\n", "1 a\n", "\\boxed{", "[[1],", "1", " ", "1 ", "\n", "| ", "😀"]
)
def test_a_hostile_megabyte_costs_little(unit):
    text = unit * (1_000_000 // len(unit))
    assert cpu_seconds(last_grid_of_lines, text) < 0.5
    assert cpu_seconds(grid_of_lines_as_nemo_gym, text) < 0.5
