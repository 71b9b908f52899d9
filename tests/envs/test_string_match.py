"""StringMatch: a short answer, equal but for how it is written."""

from __future__ import annotations

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, message_item, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.string_match.extraction import ExtractionMode, extract, extract_as_nemo_gym
from gym_llm.envs.string_match.nemo_gym import NemoReading, nemo_similarity
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
        ("final_answer", "Answer: 4, no. Answer: 5", "5"),
        ("final_answer", "**Answer: (A)**", "(A)"),
        ("final_answer", "**Answer:** `Paris`", "Paris"),
        ("final_answer", "### Final Answer\n\n**Paris**", "Paris"),
        ("final_answer", "Answer: $42$.\n\nThe answer is correct since 6 * 7 = 42.", "$42$"),
        ("final_answer", r"Answer: The capital is \boxed{Paris}, not Lyon.", "Paris"),
        ("final_answer", "Answer:\n\\[\n\\boxed{7}\n\\]", "7"),
        ("final_answer", "5 + 6 = 11. So the answer is 11.", "11"),
        ("final_answer", "So the answer is ] ] >.", "] ] >"),
        ("final_answer", "Answer: 7\n(as asked, in the form 'Answer: YOUR ANSWER')", "7"),
        ("final_answer", "The question asks for a town.\nIt is unknown whether the answer is", None),
        ("final_answer", "It is 7.", "It is 7."),
        ("final_answer", "It is\n7.", None),
        ("final_answer", "<think>Answer: 3</think>\nI do not\nknow.", None),
        ("final_answer", "<think>Answer: 3, so", None),
        ("last_line", "one\n two \n\n", "two"),
        ("last_line", " \n", None),
        ("last_line", "one\u2028two", "two"),
        ("full_response", "one\ntwo", "one\ntwo"),
        ("full_response", "", None),
        ("full_response", "<think>Lyon? No.</think>Paris", "Paris"),
        ("full_response", "<think>Lyon? No", None),
    ],
)
def test_where_the_answer_is(mode: ExtractionMode, text: str, answer: str | None) -> None:
    reward, info = scored(ENV, text, expected_answer="nothing of these", extraction_mode=mode)
    assert (reward, info["extracted_answer"], info["expected_answer"]) == (0.0, answer, "nothing of these")


def test_nemo_gym_counts_every_brace() -> None:
    assert extract_as_nemo_gym(r"\boxed{a\}b}", "boxed") == "a\\"
    assert (extract(r"\boxed {1}", "boxed"), extract_as_nemo_gym(r"\boxed {1}", "boxed")) == ("1", None)
    assert extract_as_nemo_gym(r"\boxed{1} \boxed{\frac{2}{3}} \boxed{4", "boxed") == r"\frac{2}{3}"


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
    *((f"{quote}Paris{end}", "paris") for quote, end in ("“”", "„“", "«»", "‘’")),
    ("don’t", "Don't"),
    ("<b>Paris</b>", "paris"),
    ("$1000", "1000.0"),
    (r"5\%", "5%"),
    ("£1,000", "£ 1000"),
    ("1e3", "1000"),
    ("-$5", "−5"),
    ("5 m²", "5"),
    ("90°", r"90^\circ"),
    ("90", r"90^{\circ}"),
    ("12345678901234567890", "12,345,678,901,234,567,890"),
    ("**Paris**", "paris"),
    ("`Paris`.", "Paris"),
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
        ("3.14", "3.1416", 0.98),
        ("3.1416", "3.14", 0.98),
        ("0.33", "0.3333", 0.98),
        ("10.5 cm", "10.52 cm", 0.98),
        (r"\text{2.72}", "2.7183", 0.98),
        ("3.15", "3.1416", 0.0),
        ("2.48", "2.5", 0.0),
        ("0.3", "0.3333", 0.0),
        ("3.1417", "3.1416", 0.0),
        ("99.1", "100", 0.0),
        ("100.4", "100", 0.0),
        ("about 100", "100", 0.0),
        ("~100", "100", 0.0),
        ("5 apples", "5", 1.0),
        ("5 apple", "5 apples", 1.0),
        ("5 oranges", "5 apples", 0.0),
        ("10 kilometers", "10 km", 1.0),
        ("10 miles", "10 km", 0.0),
        ("5 million", "5,000,000", 1.0),
        ("5 million", "5", 0.0),
        ("20 percent", "20%", 1.0),
        ("$25,000/year", "$25,000", 1.0),
        ("60 dollars", "$60", 1.0),
        ("3/5", "6/10", 0.0),
        ("1/2", "0.5", 0.0),
        ("5 if n is odd", "5", 0.0),
        ("2000", "1999", 0.0),
        ("-159", "-160", 0.0),
        ("9007199254740993", "9007199254740992", 0.0),
        ("12", "1,2", 0.0),
        ("1,2", "1.2", 0.0),
        ("1,23", "123", 0.0),
        ("20%", "20", 0.0),
        (r"20\%", "20", 0.0),
        ("20.1%", "20.12%", 0.0),
        ("£60", "$60", 0.0),
        ("$60.10", "$60.12", 0.0),
        ("$1,001", "1,000 €", 0.0),
        ("10.05 km", "10 km", 0.0),
        ("10 kg", "10 m", 0.0),
        ("10 kg", "10 m^2", 0.0),
        ("0", "1e-12", 0.0),
        ("area 5 m²", "area 5", 1.0),
        ("area 5 m²", "area 5 kg", 0.0),
        ("red or blue", "red and blue", 0.0),
        ("A", "(A)", 1.0),
        ("(a)", "A", 1.0),
        ("(A) 12/25/1937", "(A)", 1.0),
        ("Option A", "(A)", 1.0),
        ("(A) 12/1/1937 (B) 12/2/1937", "(A)", 0.0),
        ("A) red B) green", "(A)", 0.0),
        ("(A) … (G)", "(A)", 0.0),
        ("(A) or (B)", "(A)", 0.0),
        ("not (A)", "(A)", 0.0),
        ("A mixture", "A", 0.0),
        ("I do not know", "I", 0.0),
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
        ("red or blue", "red, blue", 0.0, 1.0),
        ("10 m", "10 kg", 0.0, 0.98),
        ("red and blue", "red, blue", 1.0, 0.0),
        ("1,234", "1234", 1.0, 1.0),
        ("1,234,567", "1234567", 1.0, 0.98),
        ("infinity", "inf", 0.0, 1.0),
        (r"\text{a", "a", 0.0, 1.0),
        ("100.4", "100", 0.0, 0.98),
        ("(A)", "A", 1.0, 0.0),
        (r"90^{\circ}", "90", 1.0, 0.98),
        ("−5", "-5", 1.0, 0.0),
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
    other = "x" + text[:1_000]
    if nemo:
        assert cpu_seconds(lambda: nemo_similarity(NemoReading(text), NemoReading(other))) < 0.5
    else:
        assert cpu_seconds(lambda: similarity(Reading(text), Reading(other))) < 0.5


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("string_match")
