"""Where a text gives its answer."""

from __future__ import annotations

import pytest

from gym_llm.grading.answer_lines import answer_statements, last_answer_line, last_answer_phrase
from gym_llm.grading.markup import without_markup


@pytest.mark.parametrize(
    ("text", "line", "phrase"),
    [
        ("Answer: 5", "5", None),
        ("ANSWER : 5", "5", None),
        ("Answer: 4\n<answer>\n5</answer> as asked.", "5", None),
        ("Answer: <answer>5</answer>", "5", None),
        ("<answer></answer>", None, None),
        ("Answer： 5", "5", None),
        ("Answer:\n- Oslo", "Oslo", None),
        ("Answer:\n- 5", "- 5", None),
        ("**Answer:** 5", "5", None),
        ("**Answer: 5**", "5", None),
        ("**Answer**: 5", "5", None),
        ("*Answer: 5*", "5", None),
        ("__Final Answer: 5__", "5", None),
        ("***Answer:*** 5", "5", None),
        ("> Answer: 5", "5", None),
        ("- **Answer:** **5**", "**5**", None),
        ("## Answer\n\n5", "5", None),
        ("### **Final Answer**\n5", "5", None),
        ("**Answer**\n\n5", "5", None),
        ("My answer:\n\n 5", "5", None),
        ("Answer: 4, no. Answer: 5", "5", None),
        ("Answer: 5\nAnswer:", "5", None),
        ("Answer: 5\nAnswer: ...", "5", None),
        ("Answer: 5\nWrite 'Answer: $LETTER'.", "5", None),
        ("Answer: 5\nAnswer: <your answer>", "5", None),
        ("Answer: 5\nAnswer: [the letter]", "5", None),
        ("Answer: 5<|im_end|>", "5", None),
        ("Answer: 5</s>", "5", None),
        ("Answer: The final answer is 5", "5", None),
        ("Answer: \\[", None, None),
        ("the answer\n5", None, None),
        ("answers: 5", None, None),
        ("So the answer is 5.", None, "5."),
        ("The final answer is: **5**", None, "**5**"),
        ("**The correct answer is 5**", None, "5"),
        ("The most likely answer is (A).", None, "(A)."),
        ("Answer is 5", None, "5"),
        ("The wrong answer is 5", None, None),
        ("No answer is 5", None, None),
        ("If the answer is 5, we know", None, None),
        ("I doubt that the answer is 5", None, None),
        ("I think the answer is 5", None, "5"),
        ("whether the answer is", None, None),
        ("", None, None),
    ],
)
def test_the_marks_of_an_answer(text: str, line: str | None, phrase: str | None) -> None:
    assert (last_answer_line(text), last_answer_phrase(text)) == (line, phrase)


def test_statements_know_their_place_and_are_bounded() -> None:
    text = "Answer: 4. The answer is 5."
    assert [(text[each.start :][:1], each.text) for each in answer_statements(text)] == [("4", "4. The"), ("5", "5.")]
    assert len(answer_statements("Answer: 1\n" * 1_000)) == 256
    assert len(answer_statements("Answer: " + "1" * 10_000)[0].text) == 6_000


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        (r"\textbf{New \emph{Delhi}}", "New Delhi"),
        (r"\mathrm{x}_{\text{max}} = \frac{1}{2}", r"x_{max} = \frac{1}{2}"),
        (r"\text{a", r"\text{a"),
        (r"\text{a\}b}", "a b"),
        (r"2\cdot\text{x}", r"2\cdot x"),
        ("**a** `b` _c_ *d*", "a b c d"),
        ("**a *b* c**", "a b c"),
        ("2*3*4 a_b_c x ** y", "2*3*4 a_b_c x ** y"),
        (r"\left( B \right)\,", "( B )"),
        ("$x$  is", "x is"),
    ],
)
def test_markup_goes_and_what_it_marks_stays(text: str, bare: str) -> None:
    assert without_markup(text) == bare
