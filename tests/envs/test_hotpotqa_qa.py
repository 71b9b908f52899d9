"""HotpotQA: the expected answer, in one of its spellings, in a short answer."""

from __future__ import annotations

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.hotpotqa_qa.alternatives import alternatives, reason_to_remove
from gym_llm.envs.hotpotqa_qa.extraction import extract_answer
from gym_llm.errors import DataError

ENV = "gym_llm/HotpotQA-v0"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": "a"}', "a"),
        ('{"answer": "a"} then {"answer": "b", "x": {"y": 1}} and {"reply": "c"}', "b"),
        ('```json\n{"answer": "a"}\n```\n{"answer": "b"}', "a"),
        ('``` {"answer": "a"}```\n```json {"answer": "b"}\n```', "b"),
        ('```json\n{"answer": "a"}\n```\n```json\n{"reply": 1}\n```', "a"),
        ('```json\n{"answer": "a ``` b"}\n```', "a ``` b"),
        ('```python\n{"answer": "a"}\n```', "a"),
        ('<think>{"answer": "a"}</think> {"answer": "b"}', "b"),
        ('{"answer": 4}', "4"),
        ('{"answer": null}', "None"),
        ('{"answer": ["a"]}', "['a']"),
        ('{"reply": {"answer": "a"}}', '{"reply": {"answer": "a"}}'),
        ("a", "a"),
        ("", ""),
    ],
)
def test_the_answer_is_in_the_last_json_object_that_has_one(text: str, answer: str) -> None:
    assert extract_answer(text) == extract_answer(text, nemo=True) == answer
    assert scored(ENV, f" {text}\n", expected_answer="nothing")[1]["extracted_answer"] == (answer or None)


def test_a_line_with_the_answer_counts_where_there_is_no_json() -> None:
    assert [extract_answer(text) for text in ("It is north.\n**Answer:** Oslo", "Answer: a\nAnswer: b")] == [
        "Oslo",
        "b",
    ]
    assert extract_answer("Answer: Oslo", nemo=True) == "Answer: Oslo"


@pytest.mark.parametrize(
    ("text", "answer"), [('{"answer": "}"}', "}"), ('{ {"answer": "a"}', "a"), ('{x {"answer": "a"} }', "a")]
)
def test_braces_that_are_no_jsons_are_passed_over_but_not_by_nemo_gym(text: str, answer: str) -> None:
    assert extract_answer(text) == answer
    assert extract_answer(text, nemo=True) == text
    assert scored(ENV, text, {"conform": "nemo"}, expected_answer="x")[1]["extracted_answer"] == text


def test_an_answer_that_cannot_be_written_is_none() -> None:
    deep = '{"answer": ' + "[" * 50_000 + "]" * 50_000 + "}"
    assert extract_answer('{"answer": "a"} ' + deep) == "a" and extract_answer(deep) == deep
    huge = '{"answer": ' + "9" * 5_000 + "}"
    assert extract_answer(huge) == huge


@pytest.mark.parametrize(
    ("expected", "others"),
    [
        ("The Fox", {"Fox"}),
        ('"Heroes"', {"Heroes"}),
        ("Jane Doe (née Roe)", {"Jane Doe", "née Roe"}),
        ("Four", {"four", "4"}),
        ("12", {"twelve"}),
        ("twenty-first", {"21st", "twenty first"}),
        ("1,234,567", {"1234567"}),
        ("Washington, D.C.", {"Washington, D.C", "Washington, DC"}),
        ("3.5", set()),
        ("Jean-Luc", {"Jean Luc"}),
        ("-5 degrees", set()),
        ("Salt & Pepper", {"Salt and Pepper"}),
        ("A and B and C", {"A & B and C", "and B and C", "& B and C"}),
        ("US", set()),
        ("a  to  b", {"a to b", "to b"}),
    ],
)
def test_spellings(expected: str, others: set[str]) -> None:
    found = alternatives(expected)
    assert " ".join(expected.split()) in found
    assert {form.lower() for form in others} - {form.lower() for form in found} == set()


def test_spellings_of_less_than_three_characters_are_left_out_but_for_the_answer_and_digits() -> None:
    assert alternatives("A (B C)") == {"A (B C)", "B C", "(B C)"}
    assert alternatives("US") == {"US"} and alternatives("two") == {"two", "2"}


LONG = " and more of it" * 6


@pytest.mark.parametrize(
    ("answer", "expected", "correct", "strict"),
    [
        ("It is PARIS.", "Paris", 1, 1),
        ("Lyon", "Paris", 0, 0),
        ("bonus", "US", 1, 0),
        ("the US.", "US", 1, 1),
        ("the bonus of the US", "US", 1, 1),
        ("yesterday", "yes", 1, 0),
        ("four", "4", 1, 1),
        ("Jean\u2010Luc\u00a0 \u2019s", "Jean-Luc 's", 1, 1),
        ("x" * 39 + " Paris" + LONG, "Paris", 1, 1),
        ("x" * 40 + " Paris" + LONG, "Paris", 1, 0),
        ("x" * 40 + " Paris", "Paris", 1, 1),
        ("", "Paris", 0, 0),
    ],
)
def test_a_spelling_is_found_and_strictly_so(answer: str, expected: str, correct: int, strict: int) -> None:
    reward, info = scored(ENV, answer, expected_answer=expected)
    assert (info["is_correct"], info["is_correct_strict"], reward) == (correct, strict, strict)


@pytest.mark.parametrize(
    ("answer", "expected", "strict"),
    [
        ("not Paris", "Paris", 0),
        ("It isn't in Paris", "Paris", 0),
        ("Paris or Lyon", "Paris", 0),
        ("Lyon, or Paris", "Paris", 0),
        ("either Paris", "Paris", 0),
        ("Lyon/Paris", "Paris", 0),
        ("parisian", "Paris", 0),
        ("15", "5", 0),
        ("-5", "5", 0),
        ("1.5", "5", 0),
        ("5.25", "5", 0),
        ("5,000", "5", 0),
        ("1,234", "1234", 1),
        ("5.", "5", 1),
        ("Paris, not Lyon", "Paris", 1),
        ("Paris, France", "Paris", 1),
        ("Paris's", "Paris", 1),
        ("Trinidad or Tobago", "Trinidad or Tobago", 1),
    ],
)
def test_an_answer_that_is_denied_or_one_of_several_or_in_a_word_does_not_count_but_in_nemo_gym(
    answer: str, expected: str, strict: int
) -> None:
    assert scored(ENV, answer, expected_answer=expected)[0] == strict
    if len(expected) > 4 and not strict:
        assert scored(ENV, answer, {"conform": "nemo"}, expected_answer=expected)[0] == 1.0


@pytest.mark.parametrize(
    ("answer", "expected", "em", "f1"),
    [
        ("The Paris!", "paris", 1, 1),
        ("Paris, France", "Paris", 0, 2 / 3),
        ("yes, it is", "yes", 0, 0),
        ("", "a b", 0, 0),
    ],
)
def test_hotpotqas_own_metrics(answer: str, expected: str, em: float, f1: float) -> None:
    info = scored(ENV, answer, expected_answer=expected)[1]
    assert (info["answer_em"], info["answer_f1"]) == (em, pytest.approx(f1))


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        ("x" * 41, "gt_too_long"),
        ("x" * 40, ""),
        ("Anne Marie Roe", "multi_word_name"),
        ("Anne de Roe", ""),
        ("Anne Roe", ""),
        ("The Fox of Anne Marie Roe", "multi_word_name"),
        ("the fox of Anne Marie", ""),
    ],
)
def test_expected_answers_that_are_hard_to_match(expected: str, reason: str) -> None:
    assert reason_to_remove(expected) == reason
    info = scored(ENV, expected, expected_answer=expected)[1]
    assert (info["gt_should_remove"], info["gt_remove_reason"]) == (bool(reason), reason)
    assert info.get("is_correct_strict_filtered") == (None if reason else 1.0)
    unfiltered = scored(ENV, expected, {"report_filtered_metrics": False}, expected_answer=expected)[1]
    assert "is_correct_strict_filtered" not in unfiltered


def test_wrong_arguments_and_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="report_filtered_metrics"):
        gym.make(ENV, report_filtered_metrics="yes")
    with pytest.raises(DataError, match="expected_answer is empty"):
        gym.make(ENV, tasks=[row(expected_answer=" ")])


@pytest.mark.parametrize("piece", ["{", '{"answer":', '{"answer": 1} ', "```{", "```{}```", "a the ", "\u2010", "} "])
@pytest.mark.parametrize("conform", [None, "nemo"])
def test_a_megabyte_costs_little(piece: str, conform: str | None) -> None:
    env = gym.make(ENV, conform=conform).unwrapped
    env.reset(options={"task": row(expected_answer="the (a) b-c & d")})
    assert cpu_seconds(env.step, message(piece * (1_000_000 // len(piece)))) < 1.0


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("hotpotqa_qa")


@pytest.mark.parametrize(("answer", "here", "nemo"), [("no", 1.0, 1.0), ("yes", 0.0, 0.0), ("yes or no", 0.0, 1.0)])
def test_who_says_yes_and_no_has_not_answered_but_to_nemo_gym(answer: str, here: float, nemo: float) -> None:
    text = f'{{"answer": "{answer}"}}'
    assert scored(ENV, text, expected_answer="no")[0] == here
    assert scored(ENV, text, {"conform": "nemo"}, expected_answer="no")[0] == nemo
