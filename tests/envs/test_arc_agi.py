"""ArcAGI: which grid of a text is the answer."""

import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.arc_agi.env import ArcAGI
from gym_llm.errors import DataError
from gym_llm.grading.grids import first_json_grid_as_nemo_gym, last_json_grid

GRID = [[1, 2], [3, 4]]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("arc_agi")) >= 3


def test_the_expected_grid_is_worth_one():
    assert scored("gym_llm/ArcAGI-v0", r"So \boxed{[[1,2],[3,4]]}.", expected_output=GRID) == (
        1.0,
        {"task_index": -1, "turn": 1, "tool_errors": 0, "predicted_output": GRID, "extraction_successful": True},
    )
    reward, info = scored("gym_llm/ArcAGI-v0", "I do not know.", expected_output=GRID)
    assert (reward, info["predicted_output"], info["extraction_successful"]) == (0.0, None, False)


@pytest.mark.parametrize(
    ("text", "here", "nemo"),
    [
        (r"\boxed{[[1,2],[3,4]]}", GRID, GRID),
        ("\\boxed{[[1, 2],\n [3, 4]]}", GRID, GRID),
        (r"\boxed{[[9]]} \boxed{[[1,2],[3,4]]}", GRID, [[9]]),
        (r"[[9]] \boxed{[[1,2],[3,4]]} [[8]]", GRID, GRID),
        (r"\boxed{[[]]} \boxed{[[1],[2]]} \boxed{[[]]}", [[1], [2]], [[1], [2]]),
        ("Of [[9]] comes [[1,2],[3,4]].", GRID, [[9]]),
        ("[[9]]\n[[1,2],[3,4]]", GRID, None),
        ("[[9]],[[1,2],[3,4]]", GRID, None),
        ("[[1 2], [3 4]]", None, [[12], [34]]),
        (r"\boxed{ [[1]] }", [[1]], [[1]]),
        (r"\boxed {[[1]]} [[2]]", [[1]], [[1]]),
        (r"\boxed{[ [1], [2] ]}", [[1], [2]], [[1], [2]]),
        ("[[1],[2,3]]", [[1], [2, 3]], [[1], [2, 3]]),
        ("[[1,2],[3,4]", None, None),
        (r"[[7]] so \boxed{[[]]}", [[7]], [[7]]),
        ("[[[1]]]", [[1]], None),
        ("[[01]]", None, None),
        ("[[1.5]] [[-1]] [[a]]", None, None),
        ("[]", None, None),
        ("[[1,2],[3,99999999999999999999999]]", None, None),
        ("", None, None),
    ],
)
def test_the_last_grid_counts_and_in_nemo_gym_the_first(text, here, nemo):
    assert last_json_grid(text) == here
    assert first_json_grid_as_nemo_gym(text) == nemo


def test_conform_reads_the_first():
    text = r"\boxed{[[9]]} \boxed{[[1,2],[3,4]]}"
    assert scored("gym_llm/ArcAGI-v0", text, expected_output=GRID)[0] == 1.0
    assert scored("gym_llm/ArcAGI-v0", text, {"conform": "nemo"}, expected_output=GRID)[0] == 0.0


@pytest.mark.parametrize(
    "fields", [{}, {"expected_output": []}, {"expected_output": [[]]}, {"expected_output": [["a"]]}]
)
def test_a_row_without_a_grid_to_expect_is_refused(fields):
    with pytest.raises(DataError, match="expected_output"):
        ArcAGI([row(**fields)])


@pytest.mark.parametrize(
    "unit",
    ["[", "]", "[[", "[[1],", "[[1]] ", "\\boxed{[[1]]}", "\\boxed{[[", "[ ", "1,", "[[]] a ", "\\boxed", "[[1]]a"],
)
def test_a_hostile_megabyte_costs_little(unit):
    text = unit * (1_000_000 // len(unit))
    assert cpu_seconds(last_json_grid, text) < 0.5
    assert cpu_seconds(first_json_grid_as_nemo_gym, text) < 0.5
    assert cpu_seconds(last_json_grid, "[[1," + text) < 0.5


def test_upstream_lets_space_stand_between_the_brackets() -> None:
    assert first_json_grid_as_nemo_gym("\\boxed{[\n [1, 2],\n [3, 4]\n]}") == [[1, 2], [3, 4]]
    assert first_json_grid_as_nemo_gym("So [ [1, 2] ] it is.") == [[1, 2]]
    assert first_json_grid_as_nemo_gym("[[1]]\n[[2]]") is None
    assert first_json_grid_as_nemo_gym("[" * 500_000 + "] " * 250_000) is None
