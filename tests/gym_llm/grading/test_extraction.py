"""Finding the part of an answer that counts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from testing import cpu_seconds

from gym_llm.grading.extraction import (
    Fence,
    fences,
    first_tagged,
    flat_boxes,
    json_values,
    last_fence,
    last_json,
    last_line,
    last_line_after,
    last_tagged,
)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```python\nx = 1\n```", [("python", "x = 1")]),
        ("```Python  \r\nx = 1\r\n```\r\n", [("python", "x = 1")]),
        ("Code: ```py\nx\n``` done", [("py", "x")]),
        ("```\na\n```\n\n```c++\nb\n```", [("", "a"), ("c++", "b")]),
        ("  ````md\n  a\n  ````", [("md", "a")]),
        ("```python\nx = '```'\n```", [("python", "x = '```'")]),
        ("```\nprint(x)```\nafter", [("", "print(x)")]),
        ("```python\ndraft\n\n```python\nfinal\n```", [("python", "draft\n"), ("python", "final")]),
        ('```json {"a": 1} ```', [("json", ' {"a": 1} ')]),
        ("```{}``` and ```[]```", [("", "{}"), ("", "[]")]),
        ("```\n```", [("", "")]),
        ("``` ", [("", "")]),
        ("no `code` and ``no`` block", []),
        ("a mark ``` within a line", []),
    ],
)
def test_fences_open_and_close_at_the_ends_of_lines(text: str, blocks: list[tuple[str, str]]) -> None:
    assert [(fence.language, fence.body) for fence in fences(text)] == blocks


def test_a_fence_left_open_counts_where_it_may() -> None:
    text = "```py\none\n```\n```py\ntwo"
    assert list(fences(text)) == [Fence("py", "one"), Fence("py", "two", closed=False)]
    assert last_fence(text) == "one" and last_fence(text, closed=False) == "two"
    assert last_fence(text, {"sql"}) is None and last_fence("```") is None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("<answer>1</answer><answer> 2 </answer>", "1", " 2 "),
        ("<answer>1</answer> </answer>", "1", "1"),
        ("<answer>1 <answer>2</answer>", "1 <answer>2", "2"),
        ("<answer>1</answer> <answer>2", "1", "1"),
        ("</answer> <answer>", None, None),
        ("answer", None, None),
    ],
)
def test_tags_count_if_they_are_closed(text: str, first: str | None, last: str | None) -> None:
    assert (first_tagged(text, "answer"), last_tagged(text, "answer")) == (first, last)


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ('{"a": {"b": 1}} and {"c": 2}', dict, [{"a": {"b": 1}}, {"c": 2}]),
        ('{see {"a": "}"}}', dict, [{"a": "}"}]),
        ('[1, {"a": 2}]', None, [[1, {"a": 2}]]),
        ('[1, {"a": 2}]', dict, [{"a": 2}]),
        ('{"a": [1]}', list, [[1]]),
        ("[x] [] {}", None, [[], {}]),
        ('{"a": 1', dict, []),
        ("[" + "9" * 5_000 + "] [1]", list, [[1]]),
        ("[" * 100_000 + "1", list, []),
    ],
)
def test_json_is_found_anywhere(text: str, kind: Any, values: list[Any]) -> None:
    assert list(json_values(text, kind)) == values
    assert last_json(text, kind) == (values[-1] if values else None)


def test_lines() -> None:
    assert last_line("a\n b \n \n") == "b" and last_line(" \n") == ""
    assert last_line_after("Answer: 1\nAnswer: 2 \nAnswer: \n", "Answer:") == "2"
    assert last_line_after("ANSWER： x", re.compile("answer *[:：]", re.IGNORECASE)) == "x"
    assert last_line_after("Answer:\n2", "Answer:") is None


def test_flat_boxes_end_at_the_first_brace_as_a_pattern_reads_them() -> None:
    for text in (r"\boxed{1} \boxed{\frac{1}{2}}", r"\boxed{\boxed{1}}", r"\boxed{1", r"\boxed{}} \boxed{2}"):
        assert list(flat_boxes(text)) == re.findall(r"\\boxed\{([^}]*)\}", text)


@pytest.mark.parametrize(
    "piece",
    ["```", "```\n", "``` x ", "a ```x\n", "{", "[", '{"a":', '{"', '{"\\', "[1,", "{} ", '{"a":1}', '[{"a":',
     "Answer:", "\\boxed{", " ", "\n", "<answer>", "</answer>", "<answer></answer>", "[9", '{"' + "a" * 1_000,
     "[" + "9" * 5_000],
)  # fmt: skip
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))

    def everything() -> None:
        list(fences(text))
        last_json(text)
        last_json(text, dict)
        list(flat_boxes(text))
        last_line(text)
        last_line_after(text, "Answer:")
        last_tagged(text, "answer")
        first_tagged(text, "answer")

    assert cpu_seconds(everything) < 2.0  # some 0.05; quadratic time would be minutes
