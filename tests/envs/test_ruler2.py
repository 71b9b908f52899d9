"""Ruler2: soft matching of references, or a letter."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row, scored
from verifier_vectors import replay_all

from gym_llm.errors import DataError

ENV = "gym_llm/Ruler2-v0"


@pytest.mark.parametrize(
    ("text", "reference", "reward"),
    [
        ("It is the RED Fox.", "red fox", 1.0),
        ("redfoxes", "red", 1.0),
        ("the red box", "a red fox", 1 / 3),
        ("a red", "a red fox jumps", 0.5),
        ("one two three four five six", "a red fox", 0.0),
        ("", "fox", 0.0),
        ("fox", " \n ", 0.0),
    ],
)
def test_a_reference_is_there_or_its_words_nearly(text: str, reference: str, reward: float) -> None:
    assert scored(ENV, text, expected_answer=[reference])[0] == pytest.approx(reward)
    assert scored(ENV, text, expected_answer=reference)[0] == pytest.approx(reward)


@pytest.mark.parametrize(
    ("match_type", "text", "reward"),
    [
        ("all", "fox\n\nhen", 2 / 3),
        ("2steps", "fox\n\nhen", 1 / 3),
        ("2steps", "fox hen", 2 / 3),
        ("part", "hen", 1.0),
        ("part", "Document 12: fox\nhen\n\nnone", 0.0),
        ("part", "Document 1: fox\n\nDocument 2: cat\n\nthe hen", 1.0),
        ("part", "Document 1: fox", 1.0),
    ],
)
def test_match_types(match_type: str, text: str, reward: float) -> None:
    fields: dict[str, Any] = {"expected_answer": ["fox", "hen", "dog"], "match_type": match_type}
    assert scored(ENV, text, **fields)[0] == pytest.approx(reward)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The final answer is B", "B"),
        ("The final answer is b", "B"),
        ("The final answer is A\nThe final answer is (C).", "C"),
        ("The final answer is A or B", None),
        (r"The final answer is A \boxed{B}", "B"),
        ("The final answer is A\n\\boxed{B}", "B"),
        (r"\boxed{A} \boxed{ D }", "D"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{A} or \boxed{B", "A"),
        ("\\boxed {A}\nAnswer: C", "C"),
        ("The final answer is B. The final answer is not A B", "B"),
        ("The final answer is C. The final answer is d", "D"),
        ("\\boxed{A} or \\boxed{B\nAnswer: C", "C"),
        ("\\boxed{none}\nAnswer: C", "C"),
        ("The final answer is none\n**Answer:** d", "D"),
        ("Answer: A, no, answer : b.", "B"),
        ("Answer: All", None),
        (r"The final answer is \boxed{\textbf{(B)}}", "B"),
        ("The final answer is (B) as the text says.", "B"),
        ("The final answer is not (B).", None),
        ("The final answer is one of A, B, C and D", None),
        (r"\boxed{DNA}", None),
        ("The final answer is د", "D"),
        (r"\boxed{ড}", "C"),
        (r"\boxed{Ａ}", "A"),
        ("B", None),
    ],
)
def test_the_letter_chosen(text: str, letter: str | None) -> None:
    reward, info = scored(ENV, text, expected_answer="b", eval_type="multichoice")
    assert (reward, info["extracted_answer"]) == (float(letter == "B"), letter)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The final answer is A or B.", "B"),
        ("The final answer is (C). Answer: 0", "C"),
        ("<think>The final answer is (C).</think>", "C"),
        (r"\boxed{B} \boxed", None),
        (r"\boxed {B} Answer: c", "C"),
        (r"\boxed{ب}", "B"),
        ("", None),
    ],
)
def test_nemo_gym_takes_the_last_capital(text: str, letter: str | None) -> None:
    fields = {"expected_answer": "C", "eval_type": "multichoice"}
    env = gym.make(ENV, conform="nemo")
    env.reset(options={"task": row("Which?", **fields)})
    assert env.step(message(text))[4]["extracted_answer"] == letter


def test_the_answer_is_shown_without_control_characters() -> None:
    info = scored(ENV, " a\x00b\tc\x7f \x01", expected_answer=["a"])[1]
    assert info["predicted_answer"] == "a\nb\nc\x7f" and "extracted_answer" not in info


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"expected_answer": []}, "expected_answer is empty"),
        ({"expected_answer": ["A"], "eval_type": "multichoice"}, "a letter, not a list"),
        ({"expected_answer": ["a"], "match_type": "some"}, "match_type"),
        ({"expected_answer": ["a"], "eval_type": "x"}, "eval_type"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        gym.make(ENV, tasks=[row(**fields)])


@pytest.mark.parametrize("piece", ["a ", "Document 1: ", "answer: ", "\\boxed{", "The final answer is A", "\n\n"])
@pytest.mark.parametrize("fields", [{"match_type": "part"}, {"match_type": "2steps"}, {"eval_type": "multichoice"}])
def test_a_megabyte_costs_little(piece: str, fields: dict[str, Any]) -> None:
    env = gym.make(ENV).unwrapped
    env.reset(options={"task": row(expected_answer="B " * 500, **fields)})
    assert cpu_seconds(env.step, message(piece * (1_000_000 // len(piece)))) < 1.0


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("ruler2")
