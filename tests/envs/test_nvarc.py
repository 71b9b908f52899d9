"""NVARC: which lines of digits are the answer."""

import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.nvarc.env import NVARC
from gym_llm.errors import DataError, SandboxUnavailable
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


def solve(answer, kwargs=None, **fields):
    """(reward, info) of a program for a puzzle: turn the grid upside down."""
    fields = {"test_input": GRID, "expected_output": GRID[::-1], "agent_mode": "inductive", **fields}
    try:
        return scored("gym_llm/NVARC-v0", answer, kwargs, **fields)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    "answer",
    [
        "```python\ndef transform(grid):\n    return grid[::-1]\n```",
        "<think>```python\nno\n```</think>So:\n```\nimport numpy\ntransform = lambda g: numpy.array(g)[::-1]\n```",
        "```python\nraise ValueError\n```\nno:\n```py\ndef transform(g): return tuple([*map(tuple, g)][::-1])\n```",
        "import numpy as np\ndef transform(grid):\n    return np.flipud(grid).astype(float)",
        "```python\nimport sys\ndef transform(grid):\n    print('so', grid)\n    return grid[::-1]\nsys.exit()\n```",
    ],
)
def test_a_program_that_makes_the_grid_is_worth_one(answer):
    reward, info = solve(answer)
    assert (reward, info["predicted_output"], info["agent_mode"]) == (1.0, GRID[::-1], "inductive")
    assert "error" not in info


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return grid", None),
        ("return [[1, 2], [3]]", "it returns no grid"),
        ("return [[0.5]]", "it returns no grid"),
        ("return 'x'", "it returns no grid"),
        ("return None", "it returns no grid"),
        ("return [[]]", "it returns no grid"),
        ("return 1 / 0", "ZeroDivisionError('division by zero')"),
        ("while True: pass", "too much processor time"),
        ("import os; os._exit(0)", "it ended with exit code 0"),
        ("x = [0]; x.append(x); return x", "Circular reference"),
        ("return [[10 ** 9] * 1000] * 1000", "too long"),
    ],
)
def test_a_program_that_makes_no_such_grid_is_worth_nothing_and_told_why(body, error):
    code = f"```python\ndef transform(grid):\n    {body}\n```"
    reward, info = solve(code, {"python_timeout_seconds": 1.0})
    assert reward == 0.0 and not info["exact_match"]
    assert info.get("error") is None if error is None else error in info["error"]


def test_an_answer_without_a_program_needs_no_sandbox(monkeypatch):
    monkeypatch.setattr("gym_llm.envs.nvarc.env.sandbox_for", None)
    for text in ("", "3 4\n1 2", "I would define transform."):
        reward, info = scored("gym_llm/NVARC-v0", text, {"agent_mode": "inductive"}, expected_output=GRID)
        assert (reward, info["error"], info["agent_mode"]) == (0.0, "there is no program", "inductive")
    assert solve("```python\ndef transform(grid): return grid[::-1]\n```", agent_mode="transductive")[0] == 0.0


def test_a_program_without_the_function_or_that_is_none_says_so():
    assert "transform" in solve("```python\ndef transfrom(grid): return grid\n```")[1]["error"]
    assert "SyntaxError" in solve("```python\ndef transform(grid) return grid\n```")[1]["error"]


def test_what_is_expected_is_nowhere_in_the_sandbox():
    search = """
import gc
SECRET = [[int(digit) for digit in row] for row in ("65", "87")]
def transform(grid):
    grids = [each for each in gc.get_objects() if isinstance(each, list) and each is not SECRET]
    return SECRET if SECRET in grids or "65" in str(globals().keys()) else [[0]]
"""
    _, info = solve(f"```python\n{search}```", expected_output=[[6, 5], [8, 7]])
    assert info["predicted_output"] == [[0]]


def test_modes_are_known():
    assert NVARC([row(expected_output=GRID, agent_mode=mode) for mode in ("transductive", "inductive", None)])
    with pytest.raises(DataError, match="agent_mode"):
        NVARC([row(expected_output=GRID, agent_mode="deductive")])
    for kwargs in ({"agent_mode": "deductive"}, {"python_timeout_seconds": 0}, {"sandbox": "none"}):
        with pytest.raises(ValueError, match=next(iter(kwargs))):
            NVARC([row(expected_output=GRID)], **kwargs)


@pytest.mark.parametrize(
    "unit", ["1\n", "1 2\n", "a\n", "1 a\n", "\\boxed{", "[[1],", "1", " ", "1 ", "\n", "| ", "😀"]
)
def test_a_hostile_megabyte_costs_little(unit):
    text = unit * (1_000_000 // len(unit))
    assert cpu_seconds(last_grid_of_lines, text) < 0.5
    assert cpu_seconds(grid_of_lines_as_nemo_gym, text) < 0.5
