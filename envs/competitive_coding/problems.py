"""Contest problems: their tests, subtasks, checkers and graders, in a row or in a file."""

from __future__ import annotations

import json
import re
import threading
from functools import cached_property, lru_cache
from os.path import basename
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gym_llm.errors import DataError

ALL_TESTS = "all_tests"
_KEPT_PROBLEMS = 4
_CHECKER = "checker/checker.cpp"
_ID, _COMPETITION = (
    re.compile(rb'(?<!\\)"' + name + rb'"\s*:\s*("(?:[^"\\]|\\.)*")') for name in (b"problem_id", b"competition_id")
)
Positive = Annotated[float, Field(gt=0, le=86_400)]


class Test(BaseModel):
    """The input of a program and its expected output."""

    model_config = ConfigDict(frozen=True)

    input: str
    output: str
    group: str | None = None


class Subtask(BaseModel):
    """Tests that are scored together."""

    model_config = ConfigDict(frozen=True)

    aggregation: Literal["min", "sum_tests"] = "min"
    score: Annotated[float, Field(ge=0)] = 1.0
    score_precision: Annotated[int, Field(ge=0, le=12)] = 2
    test_names: Annotated[list[str], Field(min_length=1)]


class Checker(BaseModel):
    """The author's program that scores outputs."""

    model_config = ConfigDict(frozen=True)

    source: str
    language: Literal["cpp", "python"] = "cpp"
    protocol: Literal["testlib", "score"] = "testlib"
    files: dict[str, str] = {}


class Problem(BaseModel):
    """A problem: its tests, subtasks, checker, grader files and limits."""

    model_config = ConfigDict(frozen=True)

    all_tests: Annotated[dict[str, Test], Field(min_length=1)]
    subtasks: dict[str, Subtask] = {}
    checker: Checker | None = None
    grader_files: list[tuple[str, str]] = []
    time_limit: Positive | None = None
    """Seconds of processor time."""
    memory_limit: Annotated[int, Field(gt=0)] | None = None
    """MiB."""

    @model_validator(mode="after")
    def _can_be_graded(self) -> Problem:
        for name, subtask in self.subtasks.items():
            if missing := [test for test in subtask.test_names if test not in self.all_tests]:
                raise ValueError(f"subtask {name!r} names the test {missing[0]!r}, which is not in all_tests")
        if self.task_type not in ("Batch", "MULTIFILE"):
            raise ValueError(f"task_type is Batch or MULTIFILE; {self.task_type!r} cannot be played yet")
        return self

    @cached_property
    def scored(self) -> dict[str, Subtask]:
        """The subtasks; without subtasks, one of all tests."""
        return self.subtasks or {ALL_TESTS: Subtask(test_names=list(self.all_tests))}

    @cached_property
    def grader_config(self) -> dict[str, Any]:
        """The content of `grader_config.json`, or an empty dict."""
        text = next((text for path, text in self.grader_files if basename(path) == "grader_config.json"), "{}")
        try:
            config = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"grader_config.json is not JSON: {error}") from None
        return config if isinstance(config, dict) else {}

    @property
    def task_type(self) -> str:
        """The way to run its programs, `Batch` by default."""
        return str(self.grader_config.get("task_type") or "Batch")

    @cached_property
    def seconds(self) -> float | None:
        """The time limit in seconds of processor time, or None."""
        return self.time_limit or _number(self.grader_config.get("time_limit"))

    @cached_property
    def mebibytes(self) -> int | None:
        """The memory limit in MiB, or None."""
        size = _number(self.grader_config.get("memory_limit"))
        return self.memory_limit or (int(size) >> 20 if size else None)

    @cached_property
    def graders(self) -> dict[str, bytes]:
        """The headers and sources that are compiled with the program, by name.

        The checker's files are left out, because a program can include any file beside it.
        """
        return {
            basename(path): text.encode("utf-8", "replace")
            for path, text in self.grader_files
            if not path.startswith("checker/") and path.endswith((".h", ".hpp", ".cpp", ".cc"))
        }

    @cached_property
    def own_checker(self) -> Checker | None:
        """The row's checker, or `checker/checker.cpp` of the grader files, which prints a score; or None."""
        files = {path.removeprefix("checker/"): text for path, text in self.grader_files if path.startswith("checker/")}
        source = files.pop(_CHECKER.removeprefix("checker/"), None)
        return self.checker or (None if source is None else Checker(source=source, protocol="score", files=files))


class ProblemFile:
    """A JSON Lines file of problems, which may be larger than memory, or a folder with a JSON file for each.

    A line, or a file `ID.json`, is a `Problem` with its `problem_id` and perhaps its `competition_id`. The lines are
    indexed once and read on demand; the last four problems are cached.

    Args:
        path: The file or folder.

    Raises:
        DataError: If the file cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._cached = lru_cache(_KEPT_PROBLEMS)(self._read)
        self._lock = threading.Lock()
        try:
            self._places = {} if self.path.is_dir() else _places(self.path)
        except OSError as error:
            raise DataError(f"Cannot read the test_file {path}: {error.strerror or error}.") from None

    def read(self, problem_id: str, competition_id: str | None) -> Problem:
        """Return a problem; blocks while it is read.

        Raises:
            DataError: If the problem is missing or invalid.
        """
        with self._lock:
            return self._cached(problem_id, competition_id)

    def _read(self, problem_id: str, competition_id: str | None) -> Problem:
        path, offset, length = self.place(problem_id, competition_id)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return Problem.model_validate_json(file.read(length))
        except OSError as error:
            raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise DataError(f"The problem {problem_id!r} of {self.path} is invalid: {place} {first['msg']}.") from None

    def place(self, problem_id: str, competition_id: str | None) -> tuple[Path, int, int]:
        """Return a problem's file, offset and length; raise a `DataError` if the problem is missing."""
        if self.path.is_dir():
            path = self.path / f"{problem_id}.json"
            if basename(problem_id) == problem_id and path.is_file():
                return path, 0, -1
        elif place := self._places.get((problem_id, competition_id)) or self._places.get((problem_id, None)):
            return self.path, *place
        raise DataError(f"There is no problem {problem_id!r} in {self.path}.")


def _places(path: Path) -> dict[tuple[str, str | None], tuple[int, int]]:
    """Return the offset and the length of each line by (problem, competition) and by (problem, None)."""
    places: dict[tuple[str, str | None], tuple[int, int]] = {}
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if found := _ID.search(line):
                name = json.loads(found[1])
                competition = _COMPETITION.search(line)
                places.setdefault((name, None), (offset, len(line)))
                if competition:
                    places[name, json.loads(competition[1])] = offset, len(line)
            offset += len(line)
    return places


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e15 else None
