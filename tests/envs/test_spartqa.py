"""SpartQA: one of two objects, both or none."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.spartqa.grading import choose, extract_answer, labels_of, without_thoughts
from gym_llm.errors import DataError

ENV = "gym_llm/SpartQA-v0"
OPTIONS = ["a small cup", "the cup", "the blue jug"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Final answer: the cup", "the cup"),
        ("Final answer: the cup\nFinal answer: the jug\nFinal answer:", "the jug"),
        ("Final answer: the cup\nFinal answer: <candidate answer>", "the cup"),
        ("> **FINAL ANSWER is**: `the cup`", "the cup"),
        ("- Final answer - the cup", "the cup"),
        ("Answer: the jug\nSelected answer: the bowl\nFinal answer: the cup", "the cup"),
        ("Selected answer: the bowl\nAnswer: the jug", "the bowl"),
        ("So the final answer is the cup.\n### Answer: the jug", "the jug"),
        ("I say the answer would be: the jug, and the answer should be the cup.\nDone.",
         "the jug, and the answer should be the cup."),
        ("The selected option is 'the cup'\nDone.", "the cup"),
        ("The answer is\nSelected option would be the cup", "Selected option would be the cup"),
        ("The jug is near.\n**Final answer:**\n\nthe cup", "the cup"),
        ("- the jug\nThe answer is\n  the cup", "the cup"),
        ("Final answer: <the cup>_", "<the cup>_"),
        ("Final answer: the cup\u2028or the jug", "the cup"),
        ("* the cup\nand more", "the cup"),
        ("Final answer\nthe cup", "the cup"),
        ("We need the object below.\nIt is near.\n- the cup", "the cup"),
        ("We need the cup", "We need the cup"),
        ("", ""),
        ("**", ""),
    ],
)  # fmt: skip
def test_the_line_that_names_the_choice(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


def test_what_is_below_a_bold_heading_is_the_choice_but_for_nemo_gym() -> None:
    fields: dict[str, Any] = {"target": "the cup", "options": ["the cup", "the jug"]}
    text = "The jug is near.\n**Final answer:**\n\nthe cup"
    assert scored(ENV, text, **fields)[0] == 1.0
    reward, info = scored(ENV, text, {"conform": "nemo"}, **fields)
    assert (reward, info["extracted"], info["parsed"]) == (0.0, "", False)
    assert scored(ENV, "The jug is near.\nFinal answer:\n\nthe cup", {"conform": "nemo"}, **fields)[0] == 1.0


def test_thoughts_are_left_out() -> None:
    text = "<THINK>Final answer: a</Think><|channel>thought Final answer: b<channel|> Final answer: c <think>d"
    assert without_thoughts(text) == "Final answer: c <think>d"
    assert (
        scored(ENV, "<think>Final answer: the cup</think> Answer: jug", target="jug", options=["cup", "jug"])[0] == 1.0
    )


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("A small cup!", "a small cup"),
        ("cup", "the cup"),
        ("the small cup on the board", "a small cup"),
        ("it is the Blue, jug", "the blue jug"),
        ("both", "both of them"),
        ("Both of these.", "both of them"),
        ("neither", "none of them"),
        ("Don't know", "none of them"),
        ("None of the objects", "none of them"),
        ("I say both of them", "both of them"),
        ("neither of them but the blue jug", "the blue jug"),
        ("the cup and the blue jug", None),
        ("the bowl", None),
        ("", None),
    ],
)
def test_the_label_chosen(answer: str, label: str | None) -> None:
    chosen = choose(answer, labels_of(OPTIONS))
    assert (chosen.text if chosen else None) == label


def test_not_the_cup_is_the_cup_for_nemo_gym_only() -> None:
    fields: dict[str, Any] = {"target": "the cup", "options": ["the cup", "the jug"]}
    for answer in ("It is not the cup", "surely not a cup", "not cup"):
        assert scored(ENV, answer, **fields) == (0.0, scored(ENV, answer, **fields)[1])
        assert scored(ENV, answer, {"conform": "nemo"}, **fields)[0] == 1.0
    assert scored(ENV, "not the jug but the cup", **fields)[0] == 1.0
    assert scored(ENV, "not the jug but the cup", {"conform": "nemo"}, **fields)[0] == 0.0


def test_what_is_reported() -> None:
    fields: dict[str, Any] = {"target": "none of them", "options": ["the cup", "the jug"]}
    reward, info = scored(ENV, "Final answer: neither", **fields)
    assert reward == 1.0 and not info["exact"] and info["parsed"]
    assert (info["extracted"], info["predicted_label"]) == ("neither", "none of them")
    reward, info = scored(ENV, "x" * 300, **fields)
    assert (reward, info["parsed"], info["extracted"], info["predicted_label"]) == (0.0, True, "x" * 200, "")
    assert scored(ENV, "None of them.", **fields)[1]["exact"] is True
    assert scored(ENV, "a bowl", target="a bowl", options=["the cup", "the jug"])[1]["exact"] is False
    assert scored(ENV, "A", target="a", options=["a", "an"])[0] == 1.0


def test_the_metadata_is_read_where_the_fields_are_empty() -> None:
    metadata = {"target": "the jug", "options": ["the cup", "the jug"]}
    assert scored(ENV, "jug", verifier_metadata=metadata)[0] == 1.0
    assert scored(ENV, "jug", target="", options=[], verifier_metadata=metadata)[0] == 1.0
    assert scored(ENV, "jug", target="the cup", verifier_metadata=metadata)[0] == 0.0
    assert scored(ENV, "the cup it is", target="the cup")[0] == 1.0
    with pytest.raises(DataError, match="there is no target"):
        gym.make(ENV, tasks=[row(verifier_metadata={"options": ["a", "b"]})])


@pytest.mark.parametrize(
    "piece",
    ["answer\n", "Final answer: ", "Final answer:\n", "answer is ", "<think>", "* ", "not the cup ", "\n", "final "],
)
def test_a_megabyte_costs_little(piece: str) -> None:
    env = gym.make(ENV).unwrapped
    env.reset(options={"task": row(target="the cup", options=["the cup", "the jug"])})
    assert cpu_seconds(env.step, message(piece * (1_000_000 // len(piece)))) < 1.0


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("spartqa")
