"""Reading a verdict on two answers: one JSON object with grades."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from gym_llm.grading.extraction import json_values, with_valid_escapes

NAMES = ("score_1", "score_2", "ranking")
_MARKS = re.compile(r'[{}"\\]')
_MOST_RUBRICS = 1000
_MOST_READ = 200_000  # characters of an answer, from its end


class Grading(NamedTuple):
    """A model's grades: overall, and by rubric id in the order of the text."""

    overall: tuple[float, ...]
    rubrics: list[tuple[int, tuple[float, ...]]]


def read_grading(text: str) -> Grading | None:
    r"""Return the grades of the only JSON object in a text; None if there are several, or it lacks a grade.

    >>> grades = '"score_1": 4, "score_2": 2, "ranking": 1'
    >>> rubrics = f'"rubric_evaluations": [{{"rubric_id": 1, {grades}}}]'
    >>> read_grading(f'{{{rubrics}, "overall": {{"why": "\\Delta", {grades}}}}}')
    Grading(overall=(4.0, 2.0, 1.0), rubrics=[(1, (4.0, 2.0, 1.0))])
    """
    objects = list(json_values(with_valid_escapes(text[-_MOST_READ:]), dict))
    return _grading(objects[0]) if len(objects) == 1 else None


def read_as_nemo_gym(text: str) -> Grading | None:
    """Return the same as NeMo Gym does: quotation marks before the object count as JSON's."""
    objects = []
    for block in _balanced(text[-_MOST_READ:]):
        try:
            objects.append(json.loads(with_valid_escapes(block)))
        except (ValueError, RecursionError):
            continue
    return _grading(objects[0]) if len(objects) == 1 else None


def _balanced(text: str) -> Iterator[str]:
    """Return the outermost blocks of braces that are outside of quotation marks."""
    depth = start = 0
    quoted, escaped = False, -1
    for match in _MARKS.finditer(text):
        mark, place = match[0], match.start()
        if place == escaped:
            continue
        if mark == "\\":
            escaped = place + 1 if quoted else -1
        elif mark == '"':
            quoted = not quoted
        elif not quoted and mark == "{":
            start = start if depth else place
            depth += 1
        elif not quoted:
            depth -= 1
            if depth == 0:
                yield text[start : place + 1]


def _grading(members: dict[str, Any]) -> Grading | None:
    try:
        overall, evaluations = members["overall"], members["rubric_evaluations"]
        if (
            not isinstance(overall, dict)
            or not isinstance(evaluations, list)
            or not 0 < len(evaluations) < _MOST_RUBRICS
        ):
            return None
        return Grading(_grades(overall), [(int(each["rubric_id"]), _grades(each)) for each in evaluations])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _grades(members: dict[str, Any]) -> tuple[float, ...]:
    grades = tuple(float(members[name]) for name in NAMES)
    if not all(map(math.isfinite, grades)):
        raise ValueError("a grade must be finite")
    return grades
