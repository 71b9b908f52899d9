"""Sources of tasks: a JSON Lines file, a list of rows, or a seeded generator."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from gym_llm.core.named_tasks import draw, find_tasks, task_id
from gym_llm.core.prompts import RowPrompt
from gym_llm.data.files.proposed_map import proposed_map
from gym_llm.data.files.reading import absolute_source, parse_source, read_objects
from gym_llm.errors import DataError
from gym_llm.protocols.responses import ResponseCreateParams
from gym_llm.protocols.responses.bodies import CHAT_NAMES, REQUEST_PARAMETERS, WHOLE_NUMBERS
from gym_llm.records.task_identity import TaskIdentity, task_identity
from gym_llm.types import Request, Row
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.text import did_you_mean

M = TypeVar("M", bound=BaseModel)
_CHECKED_SEEDS = 8
_REPORTED_ROWS = 5
_REPORTED_CHARACTERS = 2_000  # of each
_COUNTED_ROWS = 1_000  # a file of 2 KB may have eight million wrong ones


class BaseTask(BaseModel):
    """A task as its verifier sees it: the row's fields besides `responses_create_params`.

    Subclasses name and type the fields they need; others stay available as attributes. A task is shared by all episodes
    that play it, so it is frozen.
    """

    model_config = ConfigDict(extra="allow", frozen=True)


def task_class(cls: Any) -> type[BaseTask]:
    """Return a verifier class's task: its own `Task`, its type parameter (`VerifierEnv[QuizTask]`), or its parent's."""
    bases = () if "Task" in vars(cls) else vars(cls).get("__orig_bases__", ())
    parameters = [parameter for base in bases for parameter in get_args(base)[:1] if isinstance(parameter, type)]
    return next((each for each in parameters if issubclass(each, BaseTask)), cls.Task)


@dataclass(slots=True, frozen=True)
class PreparedTask:
    """A row made ready to be played any number of times."""

    row: Row
    """As it came, its prompt filled."""
    task: Any
    """Its verifier fields, checked."""
    request: Request
    """Its first request: `input` as a list, `tools` filled in."""


class TaskKind(NamedTuple):
    """The schema of an environment's rows, and the fields that it adds to them."""

    schema: type[BaseTask]
    """Its `Task`."""
    tools: Callable[[], list[dict[str, Any]]]
    """Gives the schemas of its tools, offered where a row names no `tools` of its own."""
    prompt: RowPrompt | None = None
    """Makes the `input` of rows that come without."""

    def prepare(self, row: Any) -> PreparedTask:
        """Check one row and make it ready: a dict with `responses_create_params` and the verifier's fields.

        Raises:
            DataError: With one sentence naming every wrong field.
        """
        if not isinstance(row, dict):
            raise DataError(f"a row is a JSON object, got {type(row).__name__}")
        if self.prompt is not None:
            row = self.prompt.fill(row)
        params = row.get("responses_create_params")
        if params is None:
            raise NoRequest("the row has no `responses_create_params`, which --map or a `prompt_config` makes")
        fields = {name: value for name, value in row.items() if name != "responses_create_params"}
        if isinstance(params, dict):
            params = params | {
                name: int(params[name]) for name in WHOLE_NUMBERS & params.keys() if _whole(params[name])
            }
        _validate(ResponseCreateParams, params, "responses_create_params.")
        _check_names(params)
        task = _validate(self.schema, fields, "")
        request = dict(params)
        if isinstance(params["input"], str):
            request["input"] = [{"role": "user", "content": params["input"]}]
        if request.get("tools") is None and (tools := self.tools()):
            request["tools"] = tools
        return PreparedTask(row, task, request)  # type: ignore[arg-type]


class NoRequest(DataError):
    """Raised for a row that has columns of another kind: no `responses_create_params`, and no prompt to make them."""


class RowKind(Protocol):
    """Something that checks rows and makes them ready: a `TaskKind`, or a choice of several. Hashable."""

    def prepare(self, row: Any) -> PreparedTask:
        """See `TaskKind.prepare`."""

    def __hash__(self) -> int:
        """Equal kinds are equal keys."""


def _required(kind: RowKind) -> list[str]:
    schema = getattr(kind, "schema", BaseTask)
    return [name for name, each in schema.model_fields.items() if each.is_required()]


def _validate(schema: type[M], value: Any, prefix: str) -> M:
    """Check a value; in a `DataError` the names of its fields follow the prefix."""
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    places = (f"{prefix}{'.'.join(map(str, problem['loc']))}".rstrip(".") for problem in problems)
    sentences = (f"{place}: {problem['msg']}" for place, problem in zip(places, problems, strict=True))
    raise DataError("; ".join(sentence.removeprefix(": ") for sentence in sentences))


def _whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _check_names(params: dict[str, Any]) -> None:
    """Raise an error for invalid parameters, which a server would ignore or refuse in every episode."""
    if unknown := sorted(params.keys() - REQUEST_PARAMETERS):
        same = CHAT_NAMES.get(unknown[0])
        hint = f" Did you mean {same}?" if same else did_you_mean(unknown[0], REQUEST_PARAMETERS)
        raise DataError(
            f"responses_create_params.{unknown[0]}: unknown parameter.{hint} "
            "A server's own ones go into the engine's `extra_body`."
        )
    if params.get("context_management"):
        raise DataError(
            "responses_create_params.context_management must be null: `--compact native` asks a server for it."
        )


class RowTasks:
    """A fixed list of tasks, all checked at once.

    Args:
        rows: Each row's place in messages, and the row.
        kind: What checks them.
        source: The list's name in messages.
        origin: What records say of the tasks' origin; with one, each task has an id, too.
        drawn: How many of the tasks are drawn, and with which seed; None for all.

    Raises:
        DataError: Naming the first rows that are wrong, with their numbers from 0, or the file's lines from 1.
    """

    def __init__(
        self,
        rows: Iterable[tuple[str, Row]],
        kind: RowKind,
        source: str = "the list of rows",
        origin: dict[str, Any] | None = None,
        drawn: tuple[int, int] | None = None,
    ) -> None:
        self.origin = origin or {}
        self._ids: list[str] = []
        self._identities: dict[int, TaskIdentity] = {}
        if origin:
            rows = list(rows)
            self._ids = [task_id(row) for _, row in rows]
        if drawn:
            chosen = draw(self._ids, *drawn)
            rows, self._ids = [rows[index] for index in chosen], [self._ids[index] for index in chosen]  # type: ignore[index]
        self._prepared: list[PreparedTask] = []
        problems: dict[str, str] = {}
        wrong = 0
        for place, row in rows:
            try:
                prepared = kind.prepare(row)
            except DataError as error:
                if isinstance(error, NoRequest) and not wrong and not self._prepared:
                    raise DataError(f"{place}: {error}.{proposed_map(row, _required(kind))}") from None
                wrong += 1
                if len(problems) < _REPORTED_ROWS:
                    problems.setdefault(str(error)[:_REPORTED_CHARACTERS], place)
                if wrong > _COUNTED_ROWS:
                    break
            else:
                if not wrong:  # else they are not needed any more
                    self._prepared.append(prepared)
        if problems:
            beyond = f" and perhaps others after {_COUNTED_ROWS:,} wrong ones" if wrong > _COUNTED_ROWS else ""
            others = wrong - len(problems)
            more = f" (and {others} more row{'s' if others > 1 else ''}{beyond})" if others else ""
            raise DataError(" | ".join(f"{place}: {text}" for text, place in problems.items()) + more)
        if not self._prepared:
            raise DataError(f"There are no tasks: {source} is empty.")
        self.size = len(self._prepared)

    @classmethod
    def from_rows(cls, rows: Sequence[Row], kind: RowKind) -> RowTasks:
        """Tasks from rows in memory."""
        return cls(((f"Row {number}", row) for number, row in enumerate(rows)), kind)

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

    def origin_of(self, index: int) -> dict[str, Any]:
        """The origin of the task of this index, as records have it; {} for nothing."""
        if not self._ids or not 0 <= index < len(self._ids):
            return self.origin
        return {**self.origin, "task_id": self._ids[index]}

    def identity_of(self, index: int, row: Row) -> TaskIdentity:
        """The identity of the task of this index, computed once; of the row, which came in `options`, for index -1."""
        if not 0 <= index < self.size or self._prepared[index].row is not row:
            return task_identity(row)
        if (identity := self._identities.get(index)) is None:
            identity = task_identity(row, self._ids[index] if self._ids else None)
            self._identities[index] = identity
        return identity

    def __getitem__(self, index: int) -> PreparedTask:
        """The task of this index."""
        if not 0 <= index < len(self._prepared):
            raise IndexError(f"There is no task {index}: the tasks are 0 to {len(self._prepared) - 1}.")
        return self._prepared[index]


class GeneratedTasks:
    """Tasks made by a function of a random generator; the task's index is the generator's seed."""

    size = None
    origin: ClassVar[dict[str, Any]] = {}

    def origin_of(self, index: int) -> dict[str, Any]:
        """Nothing: they are made here."""
        return {}

    def identity_of(self, index: int, row: Row) -> TaskIdentity:
        """The identity of a row: it is not kept."""
        return task_identity(row)

    def __init__(self, generate: Callable[[np.random.Generator], Row], kind: RowKind) -> None:
        self._generate = generate
        self._kind = kind
        self._to_check = _CHECKED_SEEDS
        self._name = getattr(generate, "__qualname__", "generate")

    def check(self, first: int) -> None:
        """Generate the first tasks twice each, to see that equal seeds make equal rows.

        Args:
            first: The index of the first.

        Raises:
            DataError: If they do not.
        """
        for index in range(first, first + self._to_check):
            self[index]

    def __getitem__(self, index: int) -> PreparedTask:
        """The task that this seed generates."""
        if index < 0:
            raise IndexError(f"A generated task's index is its seed, 0 or more; got {index}.")
        row = self._generate(np.random.default_rng(index))
        if self._to_check:
            if not _equal_rows(row, self._generate(np.random.default_rng(index))):
                raise DataError(
                    f"{self._name} makes other rows from equal seeds: draw from `rng` alone, not from `random`."
                )
            self._to_check -= 1
        try:
            return self._kind.prepare(row)
        except DataError as error:
            raise DataError(f"{self._name} makes a row that cannot be played: {error}") from None


def _equal_rows(one: Any, other: Any) -> bool:
    try:
        return bool(one == other) or dumps(one) == dumps(other)  # NaN equals nothing
    except (TypeError, ValueError):  # arrays in rows
        return repr(one) == repr(other)


TaskSource: TypeAlias = RowTasks | GeneratedTasks
"""Tasks by index: the same index always gives the same task, an `IndexError` says that there is none.

Its `size` is the number of tasks, None where they are generated without end.
"""


def task_source(
    tasks: str | list[Row] | TaskSource | None,
    kind: RowKind,
    generate: Callable[[np.random.Generator], Row] | None,
    module: str,
) -> TaskSource | None:
    """A source of tasks.

    Args:
        tasks: The environment's argument: a file's name, rows, or another environment's source, which is shared.
        kind: The schema of its rows. Generated tasks that have input need no prompt.
        generate: Makes a task; None for an environment that makes no tasks.
        module: The module of its class; the examples are beside it.

    Returns:
        The source; None if the environment has no tasks.

    Raises:
        DataError: If they cannot be read or a row is wrong.
        ValueError: If `tasks` is something else.
    """
    if isinstance(tasks, TaskSource):
        return tasks
    if isinstance(tasks, (str, os.PathLike)):
        if named := find_tasks(os.fspath(tasks), module):
            if isinstance(kind, TaskKind) and kind.prompt is None:
                kind = kind._replace(prompt=named.prompt)
            rows = ((f"{tasks}, line {number}", row) for number, row in read_objects(named.source))
            return RowTasks(rows, kind, str(tasks), named.origin, named.drawn)
        return RowTasks.from_file(os.fspath(tasks), kind)
    if tasks is not None:
        if not isinstance(tasks, (list, tuple)):
            raise ValueError(f"tasks is a JSON Lines path or a list of rows, got {type(tasks).__name__}.")
        return RowTasks.from_rows(tasks, kind)
    if isinstance(kind, TaskKind) and kind.prompt is not None:
        kind = kind._replace(prompt=kind.prompt._replace(only_where_missing=True))
    if generate is not None:
        return GeneratedTasks(generate, kind)
    example = example_file(module)
    if example is None:
        return None
    examples = RowTasks.from_file(str(example), kind)
    examples.origin = {"tasks": f"example, {examples.size} rows, ours"}
    return examples


@functools.cache
def example_file(module_name: str) -> Path | None:
    """Return the path of `data/example.jsonl` beside an environment's module; None if it is missing."""
    module = sys.modules.get(module_name)
    file = getattr(module, "__file__", None)  # a notebook's __main__ has none
    example = Path(file).parent / "data" / "example.jsonl" if file else None
    return example if example and example.exists() else None


@functools.lru_cache(maxsize=8)
def _from_source(source: str, _mtime_ns: int, _size: int, kind: RowKind) -> RowTasks:
    label = parse_source(source).label
    return RowTasks(((f"{label}, line {number}", row) for number, row in read_objects(source)), kind, label)
