"""Comparison of a statement's rows with the gold rows: as a set, as rows, or by the gold columns.

Numbers may differ slightly, so the comparison searches for a matching of rows or columns. A fast search finds nearly
all matchings. Small results get an exhaustive search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from gym_llm.grading.call_matching import largest_matching

_MOST_MATCHED = 400  # rows of the same texts, whose numbers are near to each other
_MOST_CHECKS = 500  # of choices of columns
_LONGEST_NUMBER = 40
_NUMBER = object()

Cell: TypeAlias = int | float | str | None
"""Of a row, as JSON has it."""

_Row: TypeAlias = Sequence[Any]


class Tolerance(NamedTuple):
    """By how much two numbers may differ: by one or the other."""

    relative: float = 1e-9
    absolute: float = 0.0


class SetRule(NamedTuple):
    """A rule of equal rows, in any order and however often (BIRD's rule: https://bird-bench.github.io)."""

    def matches(self, gold: Sequence[_Row], rows: Sequence[_Row]) -> bool:
        """Whether the rows are the gold ones."""
        return set(map(tuple, gold)) == set(map(tuple, rows))


class RowsRule(NamedTuple):
    """A rule of equal rows, each as often, with their columns in the same order."""

    ordered: bool = False
    empty_is_equal: bool = True
    """Whether two empty results are the same: on few rows that says little."""
    tolerance: Tolerance = Tolerance()

    def matches(self, gold: Sequence[_Row], rows: Sequence[_Row]) -> bool:
        """Whether the rows are the gold ones.

        >>> RowsRule().matches([(1, "a"), (0.3, "b")], [(0.1 + 0.2, "b"), (1, "a")])
        True
        >>> RowsRule(ordered=True).matches([(1,), (2,)], [(2,), (1,)])
        False
        """
        if not gold and not self.empty_is_equal:
            return False
        if self.ordered:
            return same_in_order(gold, rows, self.tolerance)
        return same_rows(gold, rows, self.tolerance)


class ColumnsRule(NamedTuple):
    """Return whether the columns include the gold ones, in any order (Spider 2's rule: https://spider2-sql.github.io).

    Each gold column needs its own column, and together these must have the gold rows. Texts that look like numbers are
    numbers, because gold results come from CSV files.

    With `conform`, NeMo Gym's rule applies: each gold column is compared by itself. Two may match the same column, rows
    may be shuffled, and None is 0.
    """

    columns: list[int] = []
    """Of the gold rows, the ones that count; none for all."""
    ordered: bool = False
    conform: bool = False
    tolerance: Tolerance = Tolerance(absolute=0.01)

    def matches(self, gold: Sequence[_Row], rows: Sequence[_Row]) -> bool:
        """Whether the gold columns are there.

        >>> rule = ColumnsRule()
        >>> rule.matches([(1, "a"), (2, "b")], [("b", 0, 2), ("a", 0, 1)])
        True
        >>> rule.matches([(1, "a"), (2, "b")], [("a", 2), ("b", 1)])
        False
        """
        if not gold or not rows:
            return not gold and not rows
        if len(gold) != len(rows):
            return False
        width = len(gold[0])
        wanted = [index for index in self.columns if index < width] or list(range(width))
        read = _number_as_nemo_gym if self.conform else _number
        expected = [[read(row[index]) for row in gold] for index in wanted]
        given = [[read(row[index]) for row in rows] for index in range(len(rows[0]))]
        if self.conform:
            return all(any(_same_as_nemo_gym(one, other, self.ordered) for other in given) for one in expected)
        return self._are_among(expected, given)

    def _are_among(self, expected: list[list[Any]], given: list[list[Any]]) -> bool:
        """Whether each of the expected columns can have a column of its own, so that the rows are the same."""
        if len(expected) > len(given):
            return False
        if self.ordered:
            edges = [
                [index for index, other in enumerate(given) if _same_cells(one, other, self.tolerance)]
                for one in expected
            ]
            return len(largest_matching(edges)) == len(expected)
        sorted_given = [_Sorted(column) for column in given]
        candidates: list[list[int]] = []
        for column in expected:
            wanted = _Sorted(column)
            found = [index for index, other in enumerate(sorted_given) if wanted.is_same(other, self.tolerance)]
            if not found:
                return False
            candidates.append(found)
        return _Alignment(expected, given, candidates, self.tolerance).exists()


Rule: TypeAlias = SetRule | RowsRule | ColumnsRule
"""When a statement's rows are the gold ones."""


class _Alignment:
    """The search for columns that have, together, the expected rows."""

    def __init__(
        self, expected: list[list[Any]], given: list[list[Any]], candidates: list[list[int]], tolerance: Tolerance
    ) -> None:
        # Few choices first: mistakes are noticed early.
        order = sorted(range(len(expected)), key=lambda index: len(candidates[index]))
        self._expected = [expected[index] for index in order]
        self._candidates = [candidates[index] for index in order]
        self._given = given
        self._tolerance = tolerance
        self._checks = 0
        used = {index for each in candidates for index in each}
        self._twins: dict[int, tuple[Any, ...]] = {index: tuple(given[index]) for index in used}

    def exists(self) -> bool:
        """Whether there are such columns."""
        return self._extend([])

    def _extend(self, chosen: list[int]) -> bool:
        if len(chosen) == len(self._expected):
            return True
        tried = set()
        for index in self._candidates[len(chosen)]:
            twin = self._twins[index]
            if index in chosen or twin in tried:
                continue
            tried.add(twin)
            if self._fits([*chosen, index]) and self._extend([*chosen, index]):
                return True
        return False

    def _fits(self, chosen: list[int]) -> bool:
        if len(chosen) == 1:  # it is a candidate
            return True
        self._checks += 1
        if self._checks > _MOST_CHECKS:
            return False
        expected = list(zip(*self._expected[: len(chosen)], strict=True))
        return same_rows(expected, list(zip(*(self._given[index] for index in chosen), strict=True)), self._tolerance)


def same_in_order(gold: Sequence[_Row], rows: Sequence[_Row], tolerance: Tolerance) -> bool:
    """Whether the rows are the same, one by one."""
    return len(gold) == len(rows) and all(
        _same_cells(one, other, tolerance) for one, other in zip(gold, rows, strict=True)
    )


def same_rows(gold: Sequence[_Row], rows: Sequence[_Row], tolerance: Tolerance) -> bool:
    """Return whether the rows are the same in some order.

    Rows with the same other cells are sorted by their numbers and compared one by one. Nearly equal numbers can make
    that order wrong. So each numeric column is tried as the first sort key, and for few rows a matching is searched.
    """
    if len(gold) != len(rows):
        return False
    expected, given = _by_texts(gold), _by_texts(rows)
    if expected.keys() != given.keys():
        return False
    return all(_same_numbers(numbers, given[texts], tolerance) for texts, numbers in expected.items())


def _by_texts(rows: Sequence[_Row]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        texts = tuple([_NUMBER if isinstance(cell, int | float) else cell for cell in row])
        groups.setdefault(texts, []).append(tuple([cell for cell in row if isinstance(cell, int | float)]))
    return groups


def _same_numbers(gold: list[tuple[Any, ...]], rows: list[tuple[Any, ...]], tolerance: Tolerance) -> bool:
    if len(gold) != len(rows):
        return False
    for first in range(max(len(gold[0]), 1)):
        gold.sort(key=lambda numbers: numbers[first:] + numbers[:first])
        rows.sort(key=lambda numbers: numbers[first:] + numbers[:first])
        if same_in_order(gold, rows, tolerance):
            return True
    if len(gold) > _MOST_MATCHED or len(gold[0]) < 2:  # of single numbers the order is right
        return False
    edges = [[index for index, other in enumerate(rows) if _same_cells(one, other, tolerance)] for one in gold]
    return len(largest_matching(edges)) == len(gold)


def _same_cells(gold: _Row, row: _Row, tolerance: Tolerance) -> bool:
    return len(gold) == len(row) and all(
        one == other or _is_near(one, other, tolerance) for one, other in zip(gold, row, strict=True)
    )


def _is_near(one: Any, other: Any, tolerance: Tolerance) -> bool:
    if not (isinstance(one, int | float) and isinstance(other, int | float)):
        return False
    return math.isclose(one, other, rel_tol=tolerance.relative, abs_tol=tolerance.absolute)


class _Sorted:
    """A column's cells, without their order."""

    def __init__(self, column: list[Any]) -> None:
        self.numbers = sorted([cell for cell in column if isinstance(cell, int | float)])
        self.others = Counter([cell for cell in column if not isinstance(cell, int | float)])

    def is_same(self, other: _Sorted, tolerance: Tolerance) -> bool:
        return self.others == other.others and _same_cells(self.numbers, other.numbers, tolerance)


def _number(cell: Any) -> Any:
    """Return a text that looks like a finite number as that number, NaN as None, anything else unchanged."""
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if not isinstance(cell, str) or len(cell) > _LONGEST_NUMBER or "_" in cell:
        return cell
    try:
        number = float(cell)
    except ValueError:
        return cell
    return number if math.isfinite(number) else cell


def _number_as_nemo_gym(cell: Any) -> Any:
    """Any text that Python reads as a number as that; None and NaN as 0."""
    if isinstance(cell, str) and len(cell) <= _LONGEST_NUMBER:
        for kind in (int, float):
            try:
                cell = kind(cell)
                break
            except ValueError:
                pass
    return 0 if cell is None or (isinstance(cell, float) and math.isnan(cell)) else cell


def _same_as_nemo_gym(gold: list[Any], column: list[Any], ordered: bool) -> bool:
    if not ordered:
        gold, column = sorted(gold, key=_text_order), sorted(column, key=_text_order)
    return _same_cells(gold, column, Tolerance(absolute=0.01))


def _text_order(cell: Any) -> tuple[str, bool]:
    return str(cell), isinstance(cell, int | float)
