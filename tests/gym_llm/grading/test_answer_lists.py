"""The list that an answer ends with."""

from __future__ import annotations

import pytest
from testing import cpu_seconds

from gym_llm.grading.answer_lists import expected_list, final_answer_list


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Final Answer: [a, b]", ["a", "b"]),
        ("I think.\n**Final Answer: [a , ,b,]** \n\n", ["a", "b"]),
        ("so Final Answer:  [[a], b] (sorted)", ["[a]", "b"]),
        ("Final Answer:[]", []),
        ("Final Answer: [a]\nThat is all.", None),
        ("Final answer: [a]", None),
        ("**Final Answer:** [a]", None),
        ("Final Answer: a, b", None),
        ("Final Answer: [a", None),
        ("] Final Answer: [", None),
        ("", None),
    ],
)
def test_it_stands_in_the_last_line(text: str, items: list[str] | None) -> None:
    assert final_answer_list(text) == items


def test_quotes_and_markdown_count_where_they_may() -> None:
    text = "Final Answer: [\"a\", ' b', `c`]"
    assert final_answer_list(text) == ['"a"', "' b'", "`c`"]
    assert final_answer_list(text, quotes=True) == final_answer_list(text, lenient=True) == ["a", "b", "c"]
    text = "__FINAL ANSWER__: [a]"
    assert final_answer_list(text, quotes=True) is None and final_answer_list(text, lenient=True) == ["a"]


@pytest.mark.parametrize("piece", ["Final Answer: [", "a,", "Final Answer: ]", "Final Answer:" + " " * 1_000])
def test_a_megabyte_costs_little(piece: str) -> None:
    text = "Final Answer: [" + piece * (1_000_000 // len(piece)) + "]"
    assert cpu_seconds(final_answer_list, text) < 0.5
    assert cpu_seconds(final_answer_list, text[:-1]) < 0.5
    assert final_answer_list("Final Answer: [" + "a," * 30_000 + "]") is None


@pytest.mark.parametrize("answer", ["a", "{}", "[[1]]", "[null]", "[" * 100_000])
def test_an_expected_list_that_is_none_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="JSON list"):
        expected_list(answer)
