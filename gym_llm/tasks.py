"""Where an environment's tasks come from: a JSON Lines file, a list of rows, or a seeded generator."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from gym_llm.data.files.reading import absolute_source, parse_source, read_objects
from gym_llm.errors import DataError
from gym_llm.responses import ResponseCreateParams
from gym_llm.types import Request, Row


class BaseTask(BaseModel):
    """A task as its verifier sees it: the row's fields besides `responses_create_params`.

    Subclasses name and type the fields they need; others stay available as attributes. A task is shared by all episodes
    that play it, so it is frozen.
    """

    model_config = ConfigDict(extra="allow", frozen=True)


@dataclass(slots=True, frozen=True)
class PreparedTask:
    """A row made ready to be played any number of times.

    Attributes:
        row: The row as given.
        task: Its verifier fields, checked.
        request: Its first request: `input` as a list, `tools` filled in.
    """

    row: Row
    task: Any
    request: Request


class TaskKind(NamedTuple):
    """What an environment class demands of its rows, and adds to them."""

    schema: type[BaseTask]
    """Its `Task`."""
    tools: Callable[[], list[dict[str, Any]]]
    """Gives the schemas of its tools, offered where a row names no `tools` of its own."""

    def prepare(self, row: Any) -> PreparedTask:
        """Check one row and make it ready.

        Args:
            row: A dict with `responses_create_params` and the verifier's fields.

        Raises:
            DataError: With one sentence naming every wrong field.
        """
        if not isinstance(row, dict):
            raise DataError(f"a row is a JSON object, got {type(row).__name__}")
        params = row.get("responses_create_params")
        if params is None:
            raise DataError("the row has no `responses_create_params`")
        try:
            ResponseCreateParams.model_validate(params)
        except ValidationError as error:
            raise DataError(_sentence(error, "responses_create_params.")) from None
        try:
            fields = {name: value for name, value in row.items() if name != "responses_create_params"}
            task = self.schema.model_validate(fields)
        except ValidationError as error:
            raise DataError(_sentence(error, "")) from None
        request = dict(params)
        if isinstance(params["input"], str):
            request["input"] = [{"role": "user", "content": params["input"]}]
        if request.get("tools") is None and (tools := self.tools()):
            request["tools"] = tools
        return PreparedTask(row, task, request)  # type: ignore[arg-type]


class RowKind(Protocol):
    """Something that checks rows and makes them ready: a `TaskKind`, or a choice of several. Hashable."""

    def prepare(self, row: Any) -> PreparedTask:
        """See `TaskKind.prepare`."""

    def __hash__(self) -> int:
        """Equal kinds are equal keys."""


def _sentence(error: ValidationError, prefix: str) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    places = (f"{prefix}{'.'.join(map(str, p['loc']))}".rstrip(".") for p in problems)
    return "; ".join(f"{place}: {p['msg']}".removeprefix(": ") for place, p in zip(places, problems, strict=True))


class RowTasks:
    """A fixed list of tasks, all checked at once.

    Attributes:
        size: How many there are.

    Raises:
        DataError: Naming the first rows that are wrong, with their numbers from 0, or the file's lines from 1.
    """

    def __init__(self, prepared: list[PreparedTask]) -> None:
        self.size = len(prepared)
        self._prepared = prepared

    @classmethod
    def from_rows(cls, rows: Sequence[Row], kind: RowKind) -> RowTasks:
        """Tasks from rows in memory."""
        return cls(_prepare_all(((f"Row {n}", row) for n, row in enumerate(rows)), kind))

    @classmethod
    def from_file(cls, source: str, kind: RowKind) -> RowTasks:
        """Tasks of a source (forms: `gym_llm.data.files.reading`), read once per process for all who play it."""
        parsed = parse_source(source)
        if parsed.is_hub:
            return _from_source(source, 0, 0, kind)
        try:
            status = os.stat(parsed.name)
        except OSError as error:
            raise DataError(f"Cannot read the task file {parsed.name}: {error.strerror or error}.") from None
        return _from_source(absolute_source(source), status.st_mtime_ns, status.st_size, kind)

    def __getitem__(self, index: int) -> PreparedTask:
        """The task of this index; IndexError if there is none."""
        if not 0 <= index < len(self._prepared):
            raise IndexError(f"There is no task {index}: the tasks are 0 to {len(self._prepared) - 1}.")
        return self._prepared[index]


class GeneratedTasks:
    """Tasks made without end by a function of a random generator; the task's index is the generator's seed."""

    size = None

    def __init__(self, generate: Callable[[np.random.Generator], Row], kind: RowKind) -> None:
        self._generate = generate
        self._kind = kind

    def __getitem__(self, index: int) -> PreparedTask:
        """The task that this seed generates, always the same one; IndexError if it is negative."""
        if index < 0:
            raise IndexError(f"A generated task's index is its seed, 0 or more; got {index}.")
        return self._kind.prepare(self._generate(np.random.default_rng(index)))


TaskSource: TypeAlias = RowTasks | GeneratedTasks
"""Tasks by index; `size` is None where they are generated without end."""

_REPORTED_ROWS = 5


def _prepare_all(rows: Iterable[tuple[str, Row]], kind: RowKind) -> list[PreparedTask]:
    prepared: list[PreparedTask] = []
    problems: list[str] = []
    for place, row in rows:
        try:
            prepared.append(kind.prepare(row))
        except DataError as error:
            problems.append(f"{place}: {error}")
    if problems:
        more = f" (and {len(problems) - _REPORTED_ROWS} more rows)" if len(problems) > _REPORTED_ROWS else ""
        raise DataError(" | ".join(problems[:_REPORTED_ROWS]) + more)
    if not prepared:
        raise DataError("There are no tasks: the task source is empty.")
    return prepared


@functools.lru_cache(maxsize=8)
def _from_source(source: str, _mtime_ns: int, _size: int, kind: RowKind) -> RowTasks:
    label = parse_source(source).label
    rows = ((f"{label}, line {number}", row) for number, row in read_objects(source))
    return RowTasks(_prepare_all(rows, kind))
