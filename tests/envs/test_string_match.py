"""StringMatch: a short answer, equal but for how it is written."""

from __future__ import annotations

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, message_item, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.string_match.extraction import ExtractionMode, extract
from gym_llm.envs.string_match.reading import Reading, similarity

ENV = "gym_llm/StringMatch-v0"


@pytest.mark.parametrize(
    ("mode", "text", "answer"),
    [
        ("boxed", r"\boxed{1} or \boxed{ \text{ \text{a} } }", "a"),
        ("boxed", r"\boxed{1} or \boxed{2", "1"),
        ("boxed", r"\boxed{\text{a} b}", r"\text{a} b"),
        ("boxed", "Answer: 1", None),
        ("final_answer", "Answer: 1\nFINAL ANSWER : 2.. \nSo.", "2"),
        ("final_answer", "Final answer： 2...", "2"),
        ("final_answer", "The answer:\n\n 42", "42"),
        ("final_answer", r"It is \boxed{7}.", "7"),
        ("final_answer", r"\boxed{7} is the answer: see above.", "see above"),
        ("final_answer", "It is 7.", None),
        ("last_line", "one\n two \n\n", "two"),
        ("last_line", " \n", None),
        ("last_line", "one\u2028two", "two"),
        ("full_response", "one\ntwo", "one\ntwo"),
        ("full_response", "", None),
    ],
)
def test_where_the_answer_is(mode: ExtractionMode, text: str, answer: str | None) -> None:
    assert extract(text, mode) == answer
    reward, info = scored(ENV, text, expected_answer="nothing of these", extraction_mode=mode)
    assert (reward, info["extracted_answer"], info["expected_answer"]) == (0.0, answer, "nothing of these")


def test_nemo_gym_counts_every_brace() -> None:
    assert extract(r"\boxed{a\}b}", "boxed", nemo=True) == "a\\"
    assert (extract(r"\boxed {1}", "boxed"), extract(r"\boxed {1}", "boxed", nemo=True)) == ("1", None)
    assert extract(r"\boxed{1} \boxed{\frac{2}{3}} \boxed{4", "boxed", nemo=True) == r"\frac{2}{3}"


def test_every_part_is_a_line_of_its_own() -> None:
    env = gym.make(ENV)
    env.reset(options={"task": row(expected_answer="2", extraction_mode="last_line")})
    item = message_item("1")
    item["content"].append({"type": "output_text", "text": "2"})
    assert env.step([item])[1] == 1.0


ALIKE = [
    ("PARIS", "Paris"),
    ("'Paris!?'", '"Paris."'),
    ("Ｐａｒｉｓ", "paris"),
    ("$1000", "1000.0"),
    (r"5\%", "5"),
    ("1e3", "1000"),
    ("1,234,567 people", "1234567 people"),
    (r"50\% of it", "50% of it"),
    (r"\textbf{New} \mathrm{Delhi}", "new  delhi"),
    (r"\text{a {b} \emph{c}}", "a {b} c"),
    (r"\(x\) and $y$", "x and y"),
    ("red, blue; green", "red blue green"),
    ("red, blue and green, please", "red blue, green, please"),
    ("Austin, Texas", "austin tx"),
    ("Charleston, West Virginia", "Charleston WV"),
    ("Portland, Oregon", "Portland, OR"),
    ("x = 90°", r"x = 90^\circ"),
    ("2√3", r"2\sqrt3"),
]


@pytest.mark.parametrize(("answer", "expected"), ALIKE)
def test_answers_that_are_the_same(answer: str, expected: str) -> None:
    assert similarity(Reading(answer), Reading(expected)) == similarity(Reading(expected), Reading(answer)) == 1.0
    assert scored(ENV, answer, expected_answer=expected, extraction_mode="full_response")[0] == 1.0
    strict = scored(ENV, answer, expected_answer=expected, extraction_mode="full_response", case_sensitive=True)
    assert strict[0] == 0.0


@pytest.mark.parametrize(
    ("answer", "expected", "score"),
    [
        ("99.1", "100", 0.98),
        ("98.9", "100", 0.0),
        ("about 100", "100", 0.0),
        ("$1,001", "1,000 €", 0.98),
        ("10.05 km", "10", 0.98),
        ("10.05 km", "10 km", 0.98),
        ("10 kg", "10 m", 0.0),
        ("10 kg", "10 m^2", 0.0),
        (r"\text{10.05}", "10", 0.98),
        ("0", "1e-12", 0.98),
        ("90°", r"90^\circ", 0.98),
        ("5 m²", "5", 0.98),
        ("area 5 m²", "area 5", 1.0),
        ("area 5 m²", "area 5 kg", 0.0),
        ("nan", "inf", 0.0),
        ("infinity", "inf", 0.0),
        ("or", "and", 0.0),
        ("$", r"\(\)", 0.0),
        ("Oregon", ",", 0.0),
        ("3m+2", "3+2", 0.0),
        ("London", "Paris", 0.0),
    ],
)
def test_numbers_nearly_the_same_and_answers_that_are_not(answer: str, expected: str, score: float) -> None:
    assert similarity(Reading(answer), Reading(expected)) == score


@pytest.mark.parametrize(
    ("answer", "expected", "ours", "nemo"),
    [
        ("a large candle in the house", "a large c le in the house", 0.0, 1.0),
        ("algorithm", "algorith", 0.0, 1.0),
        ("10 m", "10 kg", 0.0, 0.98),
        ("red and blue", "red, blue", 1.0, 0.0),
        ("1,234", "1234", 1.0, 1.0),
        ("1,234,567", "1234567", 1.0, 0.98),
        ("infinity", "inf", 0.0, 1.0),
        (r"\text{a", "a", 0.0, 1.0),
        (r"90^{\circ}", "90", 0.98, 0.98),
        ("−5", "-5", 0.98, 0.0),
        ("$", r"\(\)", 0.0, 1.0),
    ],
)
def test_nemo_gym_reads_otherwise(answer: str, expected: str, ours: float, nemo: float) -> None:
    fields = {"expected_answer": expected, "extraction_mode": "full_response"}
    assert scored(ENV, answer, **fields)[0] == ours
    assert scored(ENV, answer, {"conform": "nemo"}, **fields)[0] == nemo


def test_case_matters_if_the_row_says_so() -> None:
    assert scored(ENV, "Answer: Na ", expected_answer=" Na", case_sensitive=True)[0] == 1.0
    assert scored(ENV, "Answer: NA", expected_answer="Na", case_sensitive=True)[0] == 0.0


def test_an_empty_expected_answer_is_never_right() -> None:
    assert scored(ENV, "", expected_answer="", extraction_mode="full_response")[0] == 0.0
    assert scored(ENV, "\\boxed{}", expected_answer="", extraction_mode="boxed")[0] == 0.0


@pytest.mark.parametrize(
    "piece", ["answer: ", "answer", "answer:\n", "\\boxed{", "\\text{", "\u0301\u0323", "\ufdfa", " ", "1,", "and "]
)
@pytest.mark.parametrize("mode", ["final_answer", "full_response", "last_line"])
def test_a_megabyte_costs_little(piece: str, mode: str) -> None:
    env = gym.make(ENV).unwrapped
    env.reset(options={"task": row(expected_answer="B", extraction_mode=mode)})
    assert cpu_seconds(env.step, message("Answer: " + piece * (1_000_000 // len(piece)))) < 1.0


@pytest.mark.parametrize("piece", ["\\text{", "\u0301\u0323", "1 m ", "new york ", "a and b,", "}", "$"])
@pytest.mark.parametrize("nemo", [False, True])
def test_every_form_costs_little(piece: str, nemo: bool) -> None:
    text = piece * (2_000 // len(piece))
    assert cpu_seconds(lambda: similarity(Reading(text, nemo), Reading("x" + text[:1_000], nemo))) < 0.5


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("string_match")
