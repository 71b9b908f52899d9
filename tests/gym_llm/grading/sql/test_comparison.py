"""When rows are the gold ones."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gym_llm.grading.sql.comparison import ColumnsRule, RowsRule, SetRule

Rows = list[tuple[Any, ...]]


@pytest.mark.parametrize(
    ("gold", "rows", "as_set", "as_rows", "in_order"),
    [
        ([(1, "a"), (2, "b")], [(1, "a"), (2, "b")], True, True, True),
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True, True, False),
        ([(1,), (1,), (2,)], [(1,), (2,)], True, False, False),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], True, False, False),
        ([(1, "a")], [("a", 1)], False, False, False),
        ([(1,)], [(1.0,)], True, True, True),
        ([(1,)], [("1",)], False, False, False),
        ([(None,)], [(0,)], False, False, False),
        ([(None,), (1,)], [(1,), (None,)], True, True, False),
        ([(b"x",)], [("x",)], False, False, False),
        ([(0.3,)], [(0.1 + 0.2,)], False, True, True),
        ([(1,)], [(1, 2)], False, False, False),
        ([], [], True, True, True),
        ([], [(1,)], False, False, False),
        ([(float("inf"),)], [(1e308,)], False, False, False),
    ],
)
def test_rows_as_a_set_as_rows_and_in_order(
    gold: Rows, rows: Rows, as_set: bool, as_rows: bool, in_order: bool
) -> None:
    rules = (SetRule(), RowsRule(), RowsRule(ordered=True))
    assert [rule.matches(gold, rows) for rule in rules] == [as_set, as_rows, in_order]


def test_empty_results_may_say_too_little() -> None:
    assert not RowsRule(empty_is_equal=False).matches([], [])
    assert RowsRule(empty_is_equal=False).matches([(1,)], [(1,)])


def test_rows_are_matched_where_nearly_equal_numbers_sort_differently() -> None:
    nearly = 0.1 + 0.2
    gold = [(0.3, 5), (nearly, 7), (0.3, 9), (nearly, 1)]
    assert RowsRule().matches(gold, [(nearly, 5), (0.3, 7), (nearly, 9), (0.3, 1)])
    assert not RowsRule().matches(gold, [(nearly, 5), (0.3, 7), (nearly, 9), (0.3, 2)])
    # No order of one number first is right here: 1.000 belongs to 1.004 and 2.004 to 2.000, and the other way round.
    close = ColumnsRule()
    gold = [(1.000, 2.004, 3.000), (1.004, 2.000, 3.004), (1.008, 2.002, 3.002)]
    rows = [(1.004, 2.004, 3.004), (1.008, 2.000, 3.000), (1.000, 2.002, 3.008)]
    assert close.matches(gold, rows)


def test_shuffled_rows_and_columns_are_found_and_changed_ones_are_not() -> None:
    rng = random.Random(5)
    for _ in range(200):
        width, height = rng.randint(1, 5), rng.randint(1, 12)
        gold = [tuple(rng.choice((0, 1, 2.5, "a", "b", None)) for _ in range(width)) for _ in range(height)]
        order = rng.sample(range(width + 2), width + 2)
        rows = [[*row, rng.random(), "x"] for row in gold]
        rng.shuffle(rows)
        shuffled = [tuple(row[index] for index in order) for row in rows]
        assert ColumnsRule().matches(gold, shuffled)
        assert ColumnsRule(conform=True).matches(gold, shuffled)
        assert not ColumnsRule().matches([*gold, gold[0]], shuffled)
        changed = [*shuffled[1:], tuple("changed" for _ in range(width + 2))]
        assert not ColumnsRule().matches(gold, changed)


SHUFFLED = [("a", 2), ("b", 1)]  # each column is right
TWICE = [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("gold", "rows", "right", "as_nemo_gym"),
    [
        ([("a", 1), ("b", 2)], [(1, "a"), (2, "b")], True, True),
        ([("a", 1), ("b", 2)], SHUFFLED, False, True),
        (TWICE, [(1,), (2,)], False, True),
        (TWICE, [(1, 1), (2, 2)], True, True),
        ([(None,)], [(0,)], False, True),
        ([("1.5",), ("2",)], [(1.504,), (2.0,)], True, True),
        ([("1.5",)], [(1.52,)], False, False),
        ([("nan",)], [(0,)], False, True),
        ([(1e12,)], [(1e12 + 500,)], True, True),
        ([(1, 2)], [(1,)], False, False),
        ([], [], True, True),
        ([], [(1,)], False, False),
        ([(1,)], [], False, False),
    ],
)
def test_gold_columns_among_others(gold: Rows, rows: Rows, right: bool, as_nemo_gym: bool) -> None:
    assert ColumnsRule().matches(gold, rows) is right
    assert ColumnsRule(conform=True).matches(gold, rows) is as_nemo_gym


def test_only_the_columns_that_count_are_compared_and_in_order_where_that_counts() -> None:
    gold = [(1, "x"), (2, "y")]
    assert ColumnsRule([0]).matches(gold, [(2,), (1,)])
    assert not ColumnsRule([0], ordered=True).matches(gold, [(2,), (1,)])
    assert ColumnsRule([1], ordered=True).matches(gold, [("q", "x"), ("q", "y")])
    assert ColumnsRule([7]).matches(gold, [(1, "x"), (2, "y")])  # there is no such column: all count
    assert not ColumnsRule([7]).matches(gold, [(1,), (2,)])
    assert not ColumnsRule([0, 1], ordered=True).matches([(1, 1), (2, 2)], [(1, 3), (2, 4)])


def test_a_search_among_columns_made_to_be_hard_ends() -> None:
    rng = random.Random(3)
    gold = [tuple(rng.random() for _ in range(6)) for _ in range(8)]
    columns = []
    for column in zip(*gold, strict=True):
        columns += [column, *(rng.sample(column, len(column)) for _ in range(40))]
    rng.shuffle(columns)
    ColumnsRule().matches(gold, list(zip(*columns, strict=True)))
