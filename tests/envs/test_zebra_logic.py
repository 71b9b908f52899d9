"""ZebraLogic: which JSON is the answer, when a cell is right, and the recipe's tasks."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, row, scored

from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.envs.zebra_logic.env import ZebraLogic, last_solution
from gym_llm.errors import DataError

ENV_ID = "gym_llm/ZebraLogic-v0"
SOLUTION = {"header": ["House", "Name", "Drink"], "rows": [["1", "Ben", "tea"], ["2", "Ada", "root beer"]]}
RIGHT = {"House 1": {"Name": "Ben", "Drink": "tea"}, "House 2": {"Name": "Ada", "Drink": "root beer"}}


def answered(solution: Any, **more: Any) -> str:
    return json.dumps({**more, "solution": solution})


def with_cell(value: Any) -> dict[str, Any]:
    return {**RIGHT, "House 2": {"Name": "Ada", "Drink": value}}


@pytest.mark.parametrize(
    "text",
    [
        answered(RIGHT),
        answered(RIGHT, reasoning="Clue 1."),
        f"So it is:\n```json\n{json.dumps({'solution': RIGHT}, indent=4)}\n```\nDone.",
        f"{answered({})} No: {answered(RIGHT)} {{}}",
        f"<think>{answered({})}</think>{answered(RIGHT)}",
        answered(with_cell(" Root BEER\n")),
        answered({**RIGHT, "House 3": {"Name": "Eve"}}),
        answered(RIGHT, reasoning="first").replace("first", "a line\nand\tanother"),
    ],
)
def test_a_whole_grid_is_worth_one(text: str) -> None:
    reward, info = scored(ENV_ID, text, solution=SOLUTION)
    assert (reward, info["cell_accuracy"], info["parsed"]) == (1.0, 1.0, True)


@pytest.mark.parametrize(
    ("text", "accuracy"),
    [
        (answered(with_cell("tea")), 0.75),
        (answered(with_cell("")), 0.75),
        (answered(with_cell(None)), 0.75),
        (answered(with_cell(["root beer"])), 0.75),
        (answered(with_cell({"a": 1})), 0.75),
        (answered(with_cell(7)), 0.75),
        (answered({"House 1": RIGHT["House 1"]}), 0.5),
        (answered({"House 1": ["Ben", "tea"], "House 2": "Ada"}), 0.0),
        (answered({"House 1": RIGHT["House 2"], "House 2": RIGHT["House 1"]}), 0.0),
        (answered({}), 0.0),
        (f"{answered(RIGHT)} {answered(with_cell('tea'))}", 0.75),
    ],
)
def test_a_wrong_or_missing_cell_is_worth_nothing(text: str, accuracy: float) -> None:
    reward, info = scored(ENV_ID, text, solution=SOLUTION)
    assert (reward, info["cell_accuracy"], info["parsed"]) == (0.0, accuracy, True)


@pytest.mark.parametrize(
    "text",
    ["", "I do not know.", json.dumps(RIGHT), answered(None), answered("House 1"), answered(RIGHT)[:-1], "[1]", "{}"],
)
def test_an_answer_without_a_solution_is_not_parsed(text: str) -> None:
    reward, info = scored(ENV_ID, text, solution=SOLUTION)
    assert (reward, info["cell_accuracy"], info["parsed"]) == (0.0, 0.0, False)


def test_easy_and_hard_puzzles_are_reported_apart() -> None:
    _, info = scored(ENV_ID, answered(RIGHT), solution=SOLUTION)
    assert (info["size"], info["solved_easy"]) == ("2*2", 1.0) and "solved_hard" not in info
    _, info = scored(ENV_ID, "?", solution=SOLUTION, size="3*4")
    assert (info["size"], info["solved_hard"]) == ("3*4", 0.0) and "solved_easy" not in info


@pytest.mark.parametrize(
    "solution",
    [
        {"header": ["House"], "rows": [["1"]]},
        {"header": ["Name", "House"], "rows": [["Ben", "1"]]},
        {"header": ["House", "Name", "Name"], "rows": [["1", "Ben", "Ben"]]},
        {"header": ["House", "Name"], "rows": []},
        {"header": ["House", "Name"], "rows": [["1"]]},
        {"header": ["House", "Name"], "rows": [["1", "Ben"], ["1", "Ada"]]},
        {"rows": [["1", "Ben"]]},
    ],
)
def test_a_solution_that_is_not_a_grid_is_refused(solution: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="solution"):
        ZebraLogic([row(solution=solution)])


@pytest.mark.parametrize(
    "unit",
    ["{", "}", '{"', '{"a":', '{"solution":', '{"solution":{"House 1":', "[", '{"a":[', '"', "\\", "{}", "\x00", "9"],
)
def test_a_hostile_megabyte_costs_little(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    for hostile in (text, '{"solution": {"House 1": ' + text, '{"solution": ' + text + answered(RIGHT)):
        assert cpu_seconds(last_solution, hostile) < 1.0


def test_hostile_json_is_not_an_error() -> None:
    for solution in ("9" * 5_000, "1e999", "NaN", '"\\ud800"', '{"House 1": {"Name": "\ud800"}}'):
        assert scored(ENV_ID, f'{{"solution": {solution}}}', solution=SOLUTION)[0] == 0.0


def test_the_recipe_s_tasks_are_taken_and_do_not_show_the_solution() -> None:
    recipe = find_benchmark("zebralogic")
    raw = {"id": "lgp-1", "size": "2*2", "puzzle": "There are 2 houses.", "solution": SOLUTION, "created_at": "2024"}
    (task,) = recipe.tasks_of([(recipe.sources[0], [raw])])
    env = gym.make(ENV_ID, tasks=[task], disable_env_checker=True)
    observation, _ = env.reset(seed=0)
    asked = observation["input"][0]["content"]
    assert "There are 2 houses." in asked and '"House 2"' in asked and "Ada" not in asked
    said = {"type": "message", "role": "assistant", "content": answered(RIGHT)}
    assert env.step([said])[1] == 1.0
    assert scored(ENV_ID, asked, solution=SOLUTION)[0] == 0.0


def test_a_puzzle_with_a_blanked_solution_is_refused() -> None:
    recipe = find_benchmark("zebralogic")
    solution = {"header": ["House", "Name"], "rows": [["___", "___"]]}
    with pytest.raises(DataError, match="blank"):
        list(recipe.tasks_of([(recipe.sources[0], [{"id": "1", "size": "1*1", "puzzle": "", "solution": solution}])]))
