r"""Finding the grid of small integers (a puzzle of ARC, say) that a text ends with.

Each function takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from gym_llm.grading.answers import last_boxed
from gym_llm.grading.denials import is_given
from gym_llm.utils.json_codec import loads

Grid = list[list[int]]

# Possessive: no part of a grid can be another part's, and a grid that is never closed is not tried again from within.
_ROWS = r"\[\s*+\[[\d\s,]*+\](?:\s*+,\s*+\[[\d\s,]*+\])*+\s*+\]"
_GRID = re.compile(_ROWS)
_BOXED_GRID = re.compile(rf"\\boxed\s*+\{{\s*+({_ROWS})\s*+\}}")
_BOXED_RUN = re.compile(r"\\boxed\{(\[\s*+\[[0-9,\[\] \n\d\s]*+)\}")
_RUN = re.compile(r"\[\s*+\[[0-9,\[\] \n\d\s]*+")
_CLOSING = re.compile(r"\](?=\s*+\])")
_ROW_OF_DIGITS = re.compile(r"[\s|,;\[\]()]*\d(?:[\s|,;]+\d)*[\s|,;\[\]()]*", re.ASCII)
_LONGEST = 30_000
"""Characters in which a grid is looked for: one of 30 rows of 30 numbers has some 3,000."""
_MOST = 64


def last_json_grid(text: str) -> Grid | None:
    r"""Return the last grid written as JSON, `[[1,2],[3,4]]`: of those in `\boxed{}`, if any, else of all.

    The last 30,000 characters are read; invalid grids are skipped.

    >>> last_json_grid(r"As in [[1]], I say \boxed{[[1,2],[3,4]]}.")
    [[1, 2], [3, 4]]
    """
    return _first_grid(_boxes_from_the_end(text)) or _first_grid(_bare_from_the_end(text))


def first_json_grid_as_nemo_gym(text: str) -> Grid | None:
    r"""Return the first grid as NeMo Gym's `arc_agi` reads it, which skips two that are side by side."""
    boxed = (match[1] for match in islice(_BOXED_RUN.finditer(text), _MOST) if len(match[1]) <= _LONGEST)
    candidates = [run for run in boxed if _up_to_closing(run) == run]
    if not candidates:
        runs = (match[0] for match in islice(_RUN.finditer(text), 50 * _MOST))
        bare = (_up_to_closing(run) for run in runs if len(run) <= _LONGEST)
        candidates = list(islice(filter(None, bare), _MOST))
    return _first_grid("".join(candidate.split()) for candidate in candidates)


def _up_to_closing(run: str) -> str:
    last = None
    for last in _CLOSING.finditer(run, run.index("[", 1) + 2):  # noqa: B007
        pass
    return run[: run.index("]", last.end()) + 1] if last else ""


def last_grid_of_lines(text: str) -> Grid | None:
    r"""Return the grid at the end of a text, in its last box if it has one: JSON, or lines of single digits.

    A line of words ends a grid, an empty one does not; rows of different lengths are invalid.

    >>> last_grid_of_lines("The answer to example 1:\n\n1 2\n3 4\n\nas you see.")
    [[1, 2], [3, 4]]
    """
    content = last_boxed(text[-3 * _LONGEST :])
    text = (text if content is None else content)[-_LONGEST:]
    if (grid := _first_grid(_bare_from_the_end(text))) is not None:
        return grid
    rows: Grid = []
    for line in reversed(text.split("\n")):
        if not line or line.isspace():
            continue
        if _ROW_OF_DIGITS.fullmatch(line):
            rows.append([int(character) for character in line if character.isdigit()])
        elif rows:
            break
    return rows[::-1] if rows and all(len(row) == len(rows[0]) for row in rows) else None


def grid_of_lines_as_nemo_gym(text: str) -> Grid | None:
    r"""All digits that stand alone, line by line, as NeMo Gym's `nvarc` reads them; of 30,000 characters at most.

    >>> grid_of_lines_as_nemo_gym(r"\boxed{1 2" + "\n" + "3 4}"), grid_of_lines_as_nemo_gym("[[1,2],[3,4]]")
    ([[1, 2], [3, 4]], None)
    """
    box = text.find("\\boxed{")
    end = text.rfind("}")
    if box >= 0 and box + len("\\boxed{") < end:
        text = text[box + len("\\boxed{") : end]
    if len(text) > _LONGEST:
        return None
    lines = re.sub(r"[^\w\s]", "", text).split("\n")
    rows = [[int(word) for word in line.split() if len(word) == 1 and word in "0123456789"] for line in lines]
    rows = [row for row in rows if row]
    return rows if rows and all(len(row) == len(rows[0]) for row in rows) else None


def grid_of_numbers(value: Any) -> Grid | None:
    """Return a grid that a program made, as JSON: rows of one length of whole numbers; None if it is invalid.

    >>> grid_of_numbers([[1.0, True], [0, 2]]), grid_of_numbers([[1], [2, 3]]), grid_of_numbers([[0.5]])
    ([[1, 1], [0, 2]], None, None)
    """
    if not isinstance(value, list) or not value or not all(isinstance(row, list) for row in value):
        return None
    if not value[0] or any(len(row) != len(value[0]) for row in value):
        return None
    numbers = [number for row in value for number in row]
    if not all(isinstance(number, int) or (isinstance(number, float) and number.is_integer()) for number in numbers):
        return None
    return [[int(number) for number in row] for row in value]


def _bare_from_the_end(text: str) -> Iterable[str]:
    text = text[-_LONGEST:]
    matches = list(_GRID.finditer(text))
    return (match[0] for match in matches[: -_MOST - 1 : -1] if is_given(text, *match.span()))


def _boxes_from_the_end(text: str) -> Iterable[str]:
    end = len(text)
    for _ in range(_MOST):
        end = text.rfind("\\boxed", 0, end)
        if end < 0:
            return
        if (match := _BOXED_GRID.match(text, end)) and is_given(text, *match.span()):
            yield match[1]


def _first_grid(candidates: Iterable[str]) -> Grid | None:
    return next((grid for candidate in candidates if _is_grid(grid := _parsed(candidate))), None)


def _parsed(candidate: str) -> Any:
    try:
        return loads(candidate.encode())
    except ValueError:
        return None


def _is_grid(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, list) and all(type(number) is int for number in row) for row in value)
        and bool(value[0])
    )
