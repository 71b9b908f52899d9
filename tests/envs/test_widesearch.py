"""WideSearch: tables, cell by cell, with a judge for names and meanings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from judging import judged

from gym_llm.errors import DataError, JudgeError

ENV_ID = "gym_llm/WideSearch-v0"
GOLD = [{"City": "Oslo", " Size (km2)": "480"}, {"City": "Rome", " Size (km2)": 1285}]
NUMBER = {"preprocess": ["extract_number"], "metric": ["number_near"], "criterion": 0.05}
NAME = {"preprocess": ["norm_str"], "metric": ["exact_match"]}
HEAD, OSLO, ROME = "| City | Size (km2) |\n|---|---|\n", "| Oslo | 480 |\n", "| Rome | about 1,290 |\n"
RIGHT = HEAD + OSLO + ROME


def task(size: dict[str, Any] = NUMBER, city: dict[str, Any] = NAME, gold: Any = GOLD) -> dict[str, Any]:
    columns = ["city", "size(km2)"]
    pipeline = {"city": city, "size(km2)": size}
    return {
        "evaluation": {"required": columns, "unique_columns": ["city"], "eval_pipeline": pipeline},
        "gold_answer": gold,
    }


def fenced(table: str, name: str = "markdown") -> str:
    return f"```{name}\n{table}```"


@pytest.mark.parametrize(
    ("text", "reward", "f1_by_item"),
    [
        (fenced(RIGHT), 1.0, 1.0),
        (RIGHT, 1.0, 1.0),
        (RIGHT.replace("\n", "\n\n"), 1.0, 1.0),
        (fenced(HEAD + ROME + OSLO), 1.0, 1.0),
        (fenced("| SIZE (km2) | city |\n|---|---|\n| 480 | **oslo** |\n| 1285 | ROME |\n"), 1.0, 1.0),
        (fenced(RIGHT + ROME), 1.0, 1.0),  # a row counts once
        (fenced(HEAD + OSLO) + fenced(RIGHT), 1.0, 1.0),
        (fenced(RIGHT) + fenced(HEAD + OSLO), 0.0, 2 / 3),
        (fenced(HEAD + OSLO), 0.0, 2 / 3),
        (fenced(RIGHT + "| Bonn | 141 |\n"), 0.0, 0.8),
        (fenced(HEAD + OSLO + "| Rome | 1,400 |\n"), 0.0, 0.75),
        (fenced(HEAD + "| Oslo | 480 |\n| Rome | |\n"), 0.0, 0.75),
        ("Oslo has 480 km2.", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_every_cell_has_to_be_right(text: str, reward: float, f1_by_item: float) -> None:
    for kwargs in ({}, {"conform": "nemo"}):
        got, info = judged(ENV_ID, task(city={**NAME, "metric": []}), text, **kwargs)
        assert (got, info["f1_by_item"]) == (reward, pytest.approx(f1_by_item))


@pytest.mark.parametrize("unit", ["| a |\n", "|", "```markdown\n", "| a |\n\n"])
def test_a_text_of_bars_has_no_table(unit: str) -> None:
    assert judged(ENV_ID, task(), unit * 50_000)[0] == 0.0


@pytest.mark.parametrize(
    ("metric", "criterion", "expected", "cell", "is_right"),
    [
        ("exact_match", None, "Blue", "blue", True),
        ("exact_match", None, "Blue", "blues", False),
        ("url_match", None, "https://a.org/x", "See http://a.org/y", True),
        ("url_match", None, "https://a.org", "https://b.org", False),
        ("url_match", None, "https://a.org", "https://[bad", False),
        ("number_near", 0.1, "50%", "0.46", True),
        ("number_near", 0.1, "100", "89", False),
        ("number_near", 0.1, "many", "many", True),
        ("number_near", None, "100", "nan%", False),
        ("date_near", None, "2020-01-01", "January 20, 2020", True),
        ("date_near", None, "2020-01-01", "March 2021", False),
        ("date_near", None, "2020-01-01", "9" * 5000, False),
    ],
)
def test_a_cell_is_compared_by_its_columns_metric(
    metric: str, criterion: Any, expected: str, cell: str, is_right: bool
) -> None:
    row = task({"metric": [metric], "criterion": criterion}, gold=[{"City": "Oslo", "Size (km2)": expected}])
    for kwargs in ({}, {"conform": "nemo"}):
        assert judged(ENV_ID, row, fenced(f"{HEAD}| Oslo | {cell} |\n"), **kwargs)[0] == float(is_right)


def test_dates_are_compared_by_their_day() -> None:
    row = task(
        {"preprocess": ["norm_date"], "metric": ["exact_match"]}, gold=[{"City": "Oslo", "Size (km2)": "2020-05"}]
    )
    for cell, reward in (("May 2020", 1.0), ("1 May 2020", 1.0), ("2020年5月1日", 1.0), ("June 2020", 0.0)):
        assert judged(ENV_ID, row, fenced(f"{HEAD}| Oslo | {cell} |\n"))[0] == reward


def test_the_judge_matches_names_and_grades_cells() -> None:
    row = task({"metric": ["llm_judge"], "criterion": "The same size."})
    table = fenced("| Town | Size (km2) |\n|---|---|\n| Roma | large |\n| Oslo | small |\n")
    columns, cities = json.dumps({"town": "city"}), json.dumps({"Roma": "Rome"})
    for grades, reward in (({"idx_0": 1, "idx_1": 1}, 1.0), ({"idx_0": 1, "idx_1": 0}, 0.0)):
        replies = [f"```json\n{text}\n```" for text in (columns, cities, json.dumps(grades))]
        for kwargs in ({}, {"conform": "nemo"}):
            got, info = judged(ENV_ID, row, table, *replies, **kwargs)
            assert got == reward and "The same size." in str(info["judge_evaluations"][2])
    assert judged(ENV_ID, row, table, '{"town": "place"}')[0] == 0.0
    for replies in (["Hm."], [columns, "no"], [columns, cities, "yes"], [columns, cities, '{"idx_0": 1}']):
        with pytest.raises(JudgeError):
            judged(ENV_ID, row, table, *replies)
    replies = [f"```json\n{text}\n```" for text in (columns, cities)]
    assert judged(ENV_ID, row, table, *replies, "yes", conform="nemo")[0] == 0.0


@pytest.mark.parametrize(
    ("text", "gold", "here", "theirs"),
    [
        (fenced(HEAD + "| Oslo | N/A |\n"), "N/A", 1.0, 0.0),
        (fenced(HEAD + "| Oslo | a \\| b |\n"), "a | b", 1.0, 0.0),
        (fenced(HEAD + "| Oslo | a | b |\n"), "a", 1.0, 0.0),
        (fenced("City | Size (km2)\n---|---\nOslo | a\n", "md"), "a", 1.0, 0.0),
        (f"<think>{fenced(HEAD + '| Oslo | a |' + chr(10))}</think>Sorry.", "a", 0.0, 1.0),
    ],
)
def test_where_it_differs_from_upstream(text: str, gold: str, here: float, theirs: float) -> None:
    row = task(NAME, gold=[{"City": "Oslo", "Size (km2)": gold}])
    assert judged(ENV_ID, row, text)[0] == here
    assert judged(ENV_ID, row, text, conform="nemo")[0] == theirs


@pytest.mark.parametrize(
    "wrong",
    [
        {"gold_answer": []},
        {"gold_answer": [{"City": "Oslo"}]},
        {"evaluation": {"required": ["city"], "unique_columns": ["town"], "eval_pipeline": {}}},
        {"evaluation": {"required": ["city", "size(km2)"], "unique_columns": ["city"], "eval_pipeline": {}}},
        {"evaluation": {**task()["evaluation"], "eval_pipeline": {"size(km2)": {"metric": ["same"]}}}},
    ],
)
def test_a_row_has_to_be_whole(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        judged(ENV_ID, {**task(), **wrong}, RIGHT)
