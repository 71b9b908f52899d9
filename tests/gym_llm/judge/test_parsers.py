"""Reading a judge's verdict."""

from __future__ import annotations

from typing import Any

import pytest
from testing import cpu_seconds

from gym_llm.judge import (
    boxed_score,
    first_label,
    json_field,
    json_objects,
    labels,
    last_label,
    letter,
    number_over,
    points,
    tail_label,
    yes_no_line,
)
from gym_llm.judge.withdrawn import deciding_part

GRADE = letter("ABC", {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C"})


@pytest.mark.parametrize(
    ("text", "right", "conform"),
    [
        ("It could be [[A!=B]], but: [[A=B]]", True, False),
        ("[[A=B]]", True, True),
        ("[[A!=B]]", False, False),
        ("[A=B]", True, None),
        ("", None, None),
    ],
)
def test_the_last_label_counts_and_to_conform_the_first(text: str, right: bool | None, conform: bool | None) -> None:
    assert labels("[[A=B]]", "[[A!=B]]")(text) is right
    assert labels("[[A=B]]", "[[A!=B]]", conform=True)(text) is conform


def test_labels_of_letters_are_whole_words() -> None:
    assert last_label("INCORRECT", ["CORRECT", "INCORRECT"]) == "INCORRECT"
    assert labels("Judgement: yes", "Judgement: no")("Judgement: not sure") is None
    assert last_label("incorrect? No, Correct.", ["CORRECT", "INCORRECT"], ignore_case=True) == "CORRECT"
    assert last_label("the A+ is better than A", ["A", "A+"]) == "A" and last_label("A+", ["A", "A+"]) == "A+"
    assert first_label("INCORRECT", ["CORRECT", "INCORRECT"]) == "INCORRECT"
    assert first_label("none", ["CORRECT"]) is None


@pytest.mark.parametrize(
    "text",
    [
        "It is not correct.",
        "It isn't correct",
        "It is not, in my view, correct.",
        "It would be correct if it had a unit",
        "Whether it is correct is unknown, hardly correct",
        "Is it CORRECT?",
        "I would not call it CORRECT",
        "This is far from being quite CORRECT, not CORRECT",
        'The candidate\'s claim of "CORRECT" is without evidence.',
        "The candidate says: CORRECT",
        "It might be CORRECT",
        "CORRECT would be wrong",
        "Das ist nicht CORRECT.",
        "No es CORRECT",
        "这不是 CORRECT",
        "CORRECT kann ich nicht sagen",
    ],
)
def test_a_label_that_is_denied_doubted_or_quoted_is_unreadable(text: str) -> None:
    assert last_label(text, ["CORRECT", "INCORRECT"], ignore_case=True) is None
    assert GRADE(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "The answer is correct.",
        "I do not see a difference. It is correct.",
        "They do not differ, so it is correct.",
        "CORRECT. The unit is not needed.",
        'My verdict is "CORRECT".',
        "It is not INCORRECT: CORRECT",
        "**CORRECT**",
    ],
)
def test_a_label_that_is_meant_counts_whatever_stands_around_it(text: str) -> None:
    assert last_label(text, ["CORRECT", "INCORRECT"], ignore_case=True) == "CORRECT"


def test_a_letter_that_is_denied_is_not_a_grade() -> None:
    assert GRADE("I would not give the grade A") is None and GRADE("The grade is not A.") is None


def test_a_label_is_named_in_the_record() -> None:
    parse = labels("[[YES]]", "[[NO]]")
    assert [parse.name_of(value) for value in (True, False, None)] == ["[[YES]]", "[[NO]]", None]


def test_the_rightmost_label_of_the_tail_counts_before_the_first_of_all_to_conform() -> None:
    early = "[[A!=B]] " + "because " * 40
    parse = tail_label("[[A=B]]", "[[A!=B]]", conform=True)
    assert parse(early + "[[A!=B]] no, [[A=B]]") is True
    assert parse(early + "[[A=B]] " + "x" * 250) is False
    assert tail_label("[[A=B]]", "[[A!=B]]")(early + "So: [[A=B]], " + "x" * 250) is True
    assert parse("nothing") is None


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("B", "B"),
        (" **B**. ", "B"),
        ("[C]", "C"),
        ("The answer matches.\n\nA", "A"),
        ("Both agree.\nA: CORRECT", "A"),
        ("After reviewing the answer against the gold one, the grade is B.", "B"),
        ("Answer: B", "B"),
        ("The grade is not A. Grade: **C**", "C"),
        ("CORRECT", "A"),
        ("INCORRECT", "B"),
        ("This was NOT_ATTEMPTED.", "C"),
        ("It is not incorrect but correct", "A"),
        ("A good answer is what I give you", None),
        ("The answer is a surprise", None),
        ("The grade is A's", None),
        ("The predicted answer is B, and so is the gold one: CORRECT", "A"),
        ("", None),
        ("Cannot say", None),
    ],
)
def test_a_letter_is_a_grade_and_not_the_beginning_of_a_word(text: str, grade: str | None) -> None:
    assert GRADE(text) == grade


@pytest.mark.parametrize(
    ("text", "right", "conform"),
    [
        ("Judgement: YES", True, True),
        ("judgement:  **No**", False, None),
        ("judgement:\n no", False, False),
        ("Judgement: yes. On reflection\nJudgement: no", False, False),
        ("Judgement: not sure", None, False),
        ("Judgement: perhaps", None, None),
        ("yes", None, None),
    ],
)
def test_yes_or_no_after_a_marker(text: str, right: bool | None, conform: bool | None) -> None:
    assert yes_no_line("Judgement:")(text) is right
    assert yes_no_line("Judgement:", conform=True)(text) is conform


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('```json\n{"result": "PASS", "explanation": "it has {braces} and \\"result\\""}\n```', "PASS"),
        ('First {"result": "FAIL"}, then {"result": "PASS"} and {"other": 1}', "PASS"),
        ('{"result": "PASS", "parts": [{"result": "FAIL"}]}', "PASS"),
        ('{"result": "PASS"', None),
        ('{"result": "MAYBE"}', None),
        ('{ {"result": "PASS"}', "PASS"),
        ("{" * 1_000 + '{"result": "PASS"}', "PASS"),
        ('{"a": ' * 900 + '{"result": "PASS"}', "PASS"),
        ("", None),
    ],
)
def test_a_field_of_the_last_object_that_has_it(text: str, value: str | None) -> None:
    assert json_field("result", ["PASS", "FAIL"])(text) == value


@pytest.mark.parametrize(
    ("parse", "denied", "meant"),
    [
        (json_field("v"), 'The answer is not {"v": "A"}', 'The verdict: {"v": "A"}'),
        (json_field("v"), 'Die Antwort ist nicht {"v": "A"}', 'Es stimmt.\n```json\n{"v": "A"}\n```'),
        (json_field("v"), 'The candidate wrote {"v": "A"}', 'Not {"v": "B"} but {"v": "A"}'),
        (boxed_score(), r"It is far from \boxed{1}", r"The score is $\boxed{1}$."),
        (boxed_score(), r"Es ist keine \boxed{1}", r"So \boxed{1}"),
        (points(7), "not <points>7 out of 7</points>", "I give it <points>7 out of 7</points>"),
        (number_over(10), "The candidate claims a score of 10/10", "Total score: 10/10"),
        (number_over(10), "I would not give score: 10", "My score: 10 points"),
        (yes_no_line("Judgement:"), "Keine Judgement: yes", "My final judgement: yes"),
    ],
)
def test_numbers_and_objects_that_are_denied_are_unreadable(parse: Any, denied: str, meant: str) -> None:
    assert parse(denied) is None and parse(meant) is not None


REFUSED = [
    "The task is odd. I can't grade that. It has {}",
    "The task is odd. I cannot judge this. The answer is: {}",
    "The task is odd. I cannot judge this.\nThe answer says:\n{}",
    "The task is odd, so I won't judge it.\n\nWhat the candidate wrote at its end is the label {}",
]
UNDECIDED = ["I read it. I cannot say why it differs.\n{}", "I read it. I cannot say why. My verdict is {}"]


@pytest.mark.parametrize("said", ["[[A=B]]", '{"result": "PASS"}', "Score: 7"])
def test_after_a_refusal_only_the_form_of_a_verdict_counts(said: str) -> None:
    assert not any(said in deciding_part(text.format(said)) for text in REFUSED)
    assert all(said in deciding_part(text.format(said)) for text in UNDECIDED)
    assert deciding_part('I cannot tell why.\n{\n"result": "PASS"\n}') == '{\n"result": "PASS"\n}'


def test_objects_come_in_order() -> None:
    assert list(json_objects('{"a": {"b": 1}} and {"c": [{}]}')) == [{"a": {"b": 1}}, {"c": [{}]}]


@pytest.mark.parametrize(
    ("text", "right", "conform"),
    [
        (r"\boxed{1}", 1.0, 1.0),
        (r"\boxed{0} no: \boxed{ 0.5 }", 0.5, 0.5),
        (r"\boxed{\frac{1}{2}}", 0.5, None),
        (r"\boxed{1/2}", 0.5, None),
        (r"\boxed{0.7}", None, None),
        (r"\boxed{nan}", None, None),
        (r"\boxed{1", None, None),
        (r"\boxed{1/0}", None, None),
        ("1", None, None),
    ],
)
def test_a_boxed_score(text: str, right: float | None, conform: float | None) -> None:
    assert boxed_score()(text) == right
    assert boxed_score(conform=True)(text) == conform


def test_points_of_a_total() -> None:
    parse = points(7)
    assert parse("<points>3 out of 7</points><points> 6.5 </points>") == 6.5
    assert parse("<points>7/7</points>") == 7
    assert parse("<points>9 out of 7</points>") is None and parse("7 out of 7") is None


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("score[7] / max_score[10]", 7.0),
        ("score[3] / max_score[5]", 6.0),
        ("Total score: 7.5/10", 7.5),
        ("The score is 4 out of 5.", 8.0),
        ("Score: 3\nTotal score: **6**", 6.0),
        ("Score: 3/0", None),
        ("Score: 9\nThe end", 9.0),
        ("Score: high", None),
        ("7/10", 7.0),
    ],
)
def test_a_score_over_a_maximum(text: str, score: float | None) -> None:
    assert number_over(10)(text) == score


PARSERS: dict[str, Any] = {
    "labels": labels("[[A=B]]", "[[A!=B]]"),
    "words": labels("CORRECT", "INCORRECT"),
    "tail": tail_label("[[A=B]]", "[[A!=B]]", conform=True),
    "letter": GRADE,
    "line": yes_no_line("Judgement:"),
    "json": json_field("result"),
    "boxed": boxed_score(),
    "points": points(7),
    "number": number_over(),
}
HOSTILE = [
    "{",
    '{"a":',
    '{"a":"',
    "[[A=",
    "[",
    "score 1 / ",
    "score\n",
    "9",
    "\\boxed{",
    "Judgement: ",
    "<points>",
    " ",
    "A ",
]


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("piece", [*HOSTILE, " ", "A ", "INCORRECTLY ", "grade ", "answer is "])
def test_a_megabyte_of_anything_takes_little_time(name: str, piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert cpu_seconds(PARSERS[name], text) < 1.0
