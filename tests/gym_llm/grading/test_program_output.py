"""What counts as the same output, and that no output takes long or raises."""

from __future__ import annotations

from decimal import Decimal

import pytest
from testing import cpu_seconds

from gym_llm.grading.extraction import last_block_after, lines_between_last_marks, python_code
from gym_llm.grading.program_output import close_values, line_difference, read_json, shortened


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("1\n2\n", "1\n2", True),
        (" 1 \n\t2", "1\r\n2", True),
        ("1\n\n2", "1\n2", False),
        ("1.50 2e1", "1.5 20", True),
        ("50000000000000001", "50000000000000000", False),
        ("0.30000000000000004", "0.3", False),
        ("1 2", "1 2 3", False),
        ("1 x", "1.0 x", False),
        ("nan", "NaN", False),
        ("sNaN", "1", False),
        ("1e999999999999999999999", "1", False),
        ("-0", "0", True),
        ("", "", True),
        ("", "1", False),
    ],
)
def test_lines_are_the_same_text_or_the_same_numbers(output: str, expected: str, same: bool) -> None:
    assert (line_difference(output, expected) is None) == same


def test_where_lines_differ_is_said() -> None:
    assert line_difference("1\n2", "1\n3") == "Wrong answer at output_line_idx=1: 2 != 3"
    assert len(line_difference("x" * 10**6, "y" * 10**6) or "") < 1000


def test_no_output_takes_long() -> None:
    for output, expected in (
        ("1.0 " * 250_000, "1 " * 250_000),
        ("\n" * 10**6, "1"),
        ("9" * 10**6, "8" * 10**6),
        ("1e999999999 " * 80_000, "1e999999998 " * 80_000),
        ("1\n" * 500_000, "1\n" * 499_999 + "2"),
    ):
        assert cpu_seconds(line_difference, output, expected) < 5


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        ([1, [2.0]], [1, [2]], True),
        ({"a": [0.1 + 0.2]}, {"a": [0.3]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ("ab", ["a", "b"], False),
        (["a"], "a", False),
        (None, False, False),
        (float("nan"), float("nan"), True),
        (float("inf"), 10**400, False),
        (10**400, 1.0, False),
        (2**53 + 1, 2**53, False),
    ],
)
def test_values_are_equal_or_close(value: object, expected: object, same: bool) -> None:
    assert close_values(value, expected, rel_tol=1e-6, abs_tol=1e-6) is same


def test_a_value_that_nests_deeply_is_no_value() -> None:
    deep = read_json("[" * 500 + "]" * 500)
    assert not close_values(deep, deep)
    for text in ("[" * 10**6, "", None, "{"):
        with pytest.raises(ValueError, match=r"JSON|Expecting"):
            read_json(text)
    assert read_json("[1" + "0" * 5000 + ", 1]") == [Decimal(f"1{'0' * 5000}"), 1]


def test_a_long_text_is_cut_in_the_middle() -> None:
    assert shortened([1]) == "[1]" and shortened("x" * 300) == "x" * 300
    assert shortened("x" * 150 + "y" * 200) == "x" * 150 + "...(truncated) ..." + "y" * 150


def test_which_block_is_the_code() -> None:
    text = "```python\none\n```\nso\n```py\ntwo\n```\nprints\n```\n1\n```\nand ```python\nthree"
    assert python_code(text) == "two" and python_code("```\n1\n```") == "1" and python_code("no") is None
    assert lines_between_last_marks(text) == "" == lines_between_last_marks("```")
    assert lines_between_last_marks("a ``` b\nx\ny\nc ```") == "x\ny"
    assert lines_between_last_marks("``` ```\nx") == "" == lines_between_last_marks("```\n```")
    assert last_block_after(text) is None and last_block_after("```\n1\n```\n```python3\n2\n```") == "3\n2\n"


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("0.333333", "0.333333333333", True),
        ("0.334", "0.333333333333", False),
        ("x 0.30000000000000004", "x 0.3", True),
        ("1000000.0000001", "1000000.0", True),
        ("1e-7", "0.0000001", True),
        ("1.0000001 2.9999999 3.5", "1.0 3.0 3.5", True),
        ("1.0000001 2.5 3.5", "1.0 3.0 3.5", False),
        ("50000000000000001", "50000000000000000", False),
        ("41", "42", False),
        ("42.0", "42", True),
        ("1.0 2.0", "1.0", False),
        ("inf", "1.0", False),
        ("nan", "1.0", False),
        ("nan", "nan", True),
        ("YES", "Yes", False),
        ("0.1 y", "0.1 x", False),
        ("1e999999999", "1.0", False),
        ("sNaN", "1.0", False),
        ("-0.0000001", "0", True),
        ("3.0000001", "3", True),
        ("1_0.0", "10.0", True),
        ("e", "1.0", False),
    ],
)
def test_printed_floats_have_a_tolerance_and_whole_numbers_none(output: str, expected: str, same: bool) -> None:
    assert (line_difference(output, expected, 1e-6) is None) == same
