"""The last `\\boxed{...}` of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import cpu_seconds

from gym_llm.grading.answers import is_mention, last_boxed


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{A}", "A"),
        (r"\boxed{ A }", " A "),
        (r"\boxed {A}", "A"),
        (r"\\boxed{A}", "A"),
        (r"first \boxed{A}, then \boxed{B}.", "B"),
        (r"\boxed{\frac{1}{2}} and so on }", r"\frac{1}{2}"),
        (r"\boxed{\text{B}}", r"\text{B}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{1, 2\right.}", r"\left\{1, 2\right."),
        (r"\boxed{a\\}", r"a\\"),
        (r"\boxed{1 \boxed{2} 3}", "2"),
        (r"\boxed{1 \boxed{2 3}", "2 3"),
        (r"\boxed{1} \boxed{2 3", "1"),
        (r"{ \boxed{1} \boxed{2 {3} ", "1"),
        (r"\boxed{1} \boxed", "1"),
        (r"\boxed{1} \boxed 2", "1"),
        (r"} } \boxed{1}", "1"),
        ("\\boxed{two\nlines}", "two\nlines"),
        (r"\boxed", None),
        (r"\boxed{", None),
        (r"\boxed\{1\}", None),
        (r"\fbox{A}", None),
        ("boxed{A}", None),
        ("", None),
        ("\udc80\\boxed{\ud800}", "\ud800"),
    ],
)
def test_the_last_closed_box_is_found(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 150_000,
        "\\boxed{" * 150_000 + "}" * 149_999,
        "\\boxed" + "{" * 1_000_000,
        "\\boxed " * 150_000,
        "\\boxed{1}" + "\\" * 1_000_000,
        "\\boxed" + " " * 1_000_000,
        "\\boxed{" + "\\{" * 500_000,
        "\\boxed{}" * 120_000,
        "\\boxed{answer}" * 70_000 + "\\boxed{",
        "\\boxed{" * 20_000 + "." * 900_000 + "}" * 20_000,
    ],
    ids=["open", "nested", "braces", "bare", "backslashes", "spaces", "escaped", "empty", "words", "dots"],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    assert cpu_seconds(last_boxed, text) < 2.0  # a quadratic scan would take minutes


def test_a_box_after_many_braces_is_found() -> None:
    braces = "{" * 300_000
    assert last_boxed(braces + r"\boxed{1} \boxed{2") == "1"
    assert last_boxed(r"\boxed{1}" + braces + r"\boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert last_boxed(r"\boxed{1} \boxed{" + "a" * 1_000_000) == "1"


@given(
    st.lists(st.sampled_from(["\\boxed", "{", "}", "\\", "a", " ", "\\boxed{", "\\boxed{1}"]), max_size=12).map("".join)
)
def test_the_result_is_what_counting_braces_from_each_box_gives(parts: list[str]) -> None:
    text = "".join(parts)
    assert last_boxed(text, mentions=True) == _by_counting(text)


@pytest.mark.parametrize(
    "mention",
    [
        *("", " ", "...", "…", ". . .", r"\ldots", r"\dots", r"\cdots", r"\cdot", r"\,", r"\quad", "~", "___", r"\_\_"),
        *(r"\text{}", r"\text{...}", r"\square", r"\phantom{0}", r"\underline{\hspace{1cm}}", "{}", "\n"),
        *("answer", "Answer", "ANSWER", "your answer", "final answer", "the final answer", "YOUR_FINAL_ANSWER"),
        *(r"\text{answer}", r"\text{your answer}", "<answer>", "[your answer here]", "insert answer here", "number"),
        *("your number", "LETTER", "correct option", r"\textbf{Answer}", '"answer"', "答案", "你的答案", "ответ"),
    ],
)
@pytest.mark.parametrize("real", ["4", r"\frac{1}{2}"])
def test_a_box_that_only_shows_where_the_answer_goes_hides_no_other(mention: str, real: str) -> None:
    before, after = (
        rf"I answer in \boxed{{{mention}}}. So \boxed{{{real}}}.",
        rf"\boxed{{{real}}}: \boxed{{{mention}}}.",
    )
    assert last_boxed(before) == last_boxed(after) == last_boxed(after + r" \boxed{1") == real
    assert last_boxed(rf"\boxed{{{mention}}}" * 3 + before + rf"`\boxed{{{mention}}}`" * 3) == real
    assert last_boxed(after, mentions=True) == mention
    assert is_mention(mention)


@pytest.mark.parametrize(
    "content",
    [
        "?",
        r"\{\}",
        "[]",
        "()",
        "X",
        "-",
        "A",
        "x",
        "0",
        r"\emptyset",
        r"\text{none}",
        "no answer",
        "answer 4",
        "Oslo",
        "N/A",
    ],
)
def test_any_other_content_is_the_answer_even_if_it_cannot_be_read(content: str) -> None:
    assert last_boxed(rf"\boxed{{4}} then \boxed{{{content}}}") == content


def test_a_word_of_a_template_is_the_answer_where_no_other_box_is() -> None:
    assert last_boxed(r"Backwards it is \boxed{number}.") == "number"
    assert last_boxed(r"\boxed{} and \boxed{...}") is None
    assert last_boxed(r"\boxed{} and \boxed{...}", mentions=True) == "..."


def _by_counting(text: str) -> str | None:
    """The definition, in quadratic time: from the last box backwards, the first one whose braces balance."""
    for start in range(len(text) - 1, -1, -1):
        if not text.startswith("\\boxed", start):
            continue
        brace = len(text) - len(text[start + 6 :].lstrip())
        if not text.startswith("{", brace):
            continue
        depth, position = 0, brace
        while position < len(text):
            pair = text[position : position + 2]
            if pair in ("\\{", "\\}") or (pair == "\\\\" and not text.startswith("boxed", position + 2)):
                position += 2
                continue
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0:
                return text[brace + 1 : position]
            position += 1
    return None
