"""The recipe of a benchmark: the place of its raw rows, their conversion into tasks, and the rules for its figure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import gymnasium as gym

from gym_llm.data.files.reading import BENCHMARK
from gym_llm.errors import DataError, UsageError
from gym_llm.records.failures import reason
from gym_llm.types import Row
from gym_llm.utils.text import did_you_mean

Need: TypeAlias = Literal["judge", "user", "sandbox", "images", "search", "tokenizer"]
"""What a benchmark needs beside a model."""

EVERY = "*"
"""As a load's configuration: a load for each one that the dataset has."""


@dataclass(frozen=True)
class Source:
    """A load of raw rows: a split of a dataset on the Hugging Face hub, files of it, or a URL.

    Attributes:
        place: `ORG/NAME` on the hub, or a URL that begins with `https://`. It is empty if the rows are not public:
            `gym-llm data convert` then takes a file of yours, which the recipe's `notes` name.
        config: The dataset's configuration; `*` stands for a load of each.
        split: The dataset's split.
        files: Names of files in the repository, read instead of a split. For a URL, the name of its file, if the path
            has none.
        revision: A commit of the repository; None until the first fetch pins one.
        label: Names the load, e.g. by its language. The default is the configuration, or the split.
        member: A pattern for the names of an archive's members (.zip, .tar, .tar.gz), e.g. `data/test/*.csv`; the
            members of an archive in it are `*.zip!*.csv`.
        columns: The columns of a CSV file without a header.
        ragged: Whether a line of a CSV file may lack its last values: its row then lacks their columns.
        text: Whether each file is one row, `{"text": …}`, whatever its format.
        unread: Whether its rows are not converted: its files are an attachment only.
        shared: Whether every variant needs it: texts that are joined with the others' rows.
    """

    place: str
    config: str | None = None
    split: str | None = None
    files: tuple[str, ...] = ()
    revision: str | None = None
    label: str = ""
    member: str | None = None
    columns: tuple[str, ...] = ()
    ragged: bool = False
    text: bool = False
    unread: bool = False
    shared: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.config or self.split or "")

    @property
    def is_url(self) -> bool:
        """Whether it is a URL."""
        return self.place.startswith(("https://", "http://"))

    @property
    def form(self) -> dict[str, Any]:
        """Return the arguments that `read_raw` needs for its files."""
        return {name: getattr(self, name) for name in ("member", "columns", "ragged", "text")}

    @property
    def paths(self) -> list[str]:
        """Return the paths of its files in the repository or of its URL; [] if only a split is known."""
        return list(self.files) or ([urlsplit(self.place).path] if self.is_url else [])

    def __str__(self) -> str:
        """The load's name in messages."""
        parts = [self.place, self.config or "", self.split or "", *self.files]
        return ":".join(part for part in parts if part)


@dataclass(frozen=True)
class Load:
    """The place of a raw row: its load, and its number in it, from 0."""

    label: str
    number: int


@dataclass(frozen=True)
class Published:
    """A published figure: the model that reached it, the figure (0 to 1), and where it was read."""

    model: str
    figure: float
    where: str


Headline: TypeAlias = str
"""The rule of a benchmark's figure: `mean` (of the reward over tasks and repeats), `majority` (the most frequent answer
of all repeats), `macro:FIELD` (the mean of the groups' means), or `metric:NAME` (a metric that the verifier
declares)."""

Convert: TypeAlias = Callable[..., Any]
Attachment: TypeAlias = str | Callable[[Mapping[str, Iterable[Row]]], Iterator[Row]]
"""A file for the verifier: the label of a load, for a folder with the members of its archive; or a function of the
loads' rows by label that yields the rows of a JSON Lines file."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark: everything that `gym-llm eval NAME` needs to know.

    A commit, a digest, a number of rows or a published figure stands here only if a source gives it. What is None is
    not known; the first fetch pins commit and digest.

    Attributes:
        name: Its name, in lower case with underscores.
        title: One line about it.
        domain: As an environment's, e.g. `math`.
        sources: The loads of raw rows.
        convert: Makes tasks of raw rows. A function of `(row)` or `(row, load)` returns a task, or None to leave the
            row out. With `joins`, a function of the loads' rows by label yields all tasks.
        joins: Whether `convert` takes all loads at once.
        env_id: The environment that scores it; None if gym_llm has no such verifier yet.
        env_kwargs: The environment's arguments.
        attachments: Files that the environment reads beside the tasks, by its argument; fetched with the tasks.
        also_scored_by: Other environments that take the same tasks.
        prompt: The user's message with `{field}` places for the task's fields; None if tasks bring their own input.
        system: The system message, in the same form.
        repeats: How often each task is played.
        sampling: Request fields, e.g. `{"temperature": 0.6}`.
        headline: The rule of its figure.
        is_share: Whether the figure is a share, printed in percent; else it has a scale of its own, e.g. 1 to 10.
        rows: The number of tasks.
        license: The dataset's licence.
        gated: Whether the hub asks to accept terms first.
        needs: What it needs beside a model.
        facts: The source of all this.
        notes: What a reader of the figure should know.
        aliases: Other names.
        variants: Changed fields by the variant's name; `NAME:VARIANT`. A load's label is a variant, too.
        published: Published figures.
    """

    name: str
    title: str
    domain: str
    sources: tuple[Source, ...]
    convert: Convert
    joins: bool = False
    env_id: str | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    attachments: Mapping[str, Attachment] = field(default_factory=dict)
    also_scored_by: tuple[str, ...] = ()
    prompt: str | None = None
    system: str | None = None
    repeats: int = 1
    sampling: Mapping[str, Any] = field(default_factory=dict)
    headline: Headline = "mean"
    is_share: bool = True
    rows: int | None = None
    license: str | None = None
    gated: bool | None = None
    needs: tuple[Need, ...] = ()
    facts: str = ""
    notes: str = ""
    aliases: tuple[str, ...] = ()
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: tuple[Published, ...] = ()

    def variant(self, name: str) -> Benchmark:
        """Return a variant: changed fields, or the one load with this label.

        Raises:
            UsageError: If there is no such variant.
        """
        labels = [source.label for source in self.sources if not source.shared]
        plain: dict[str, Any] = {"name": f"{self.name}:{name}", "rows": None, "variants": {}, "aliases": ()}
        if name in self.variants:
            return replace(self, **{**plain, **self.variants[name]})
        if name in labels and len(labels) > 1:
            return replace(
                self, sources=tuple(each for each in self.sources if each.shared or each.label == name), **plain
            )
        every = [each for each in self.sources if each.config == EVERY]
        if every and re.fullmatch(r"\w[\w.+-]*", name):
            return replace(self, sources=(replace(every[0], config=name, label=name),), **plain)
        known = [*self.variants, *(dict.fromkeys(labels) if len(labels) > 1 else ())]
        if not known:
            raise UsageError(f"The benchmark {self.name} has no variants.")
        listed = ", ".join(known[:40])
        raise UsageError(f"{self.name} has no variant {name!r}.{did_you_mean(name, known)} It has {listed}.")

    @property
    def task_source(self) -> str:
        """The benchmark as a source of tasks: `benchmark:NAME`."""
        return BENCHMARK + self.name

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments of the environment: `env_kwargs`, and `benchmark:NAME/ARGUMENT` for each attachment."""
        return {**self.env_kwargs, **{name: f"{self.task_source}/{name}" for name in self.attachments}}

    def make(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """Return the environment with the benchmark's tasks, arguments and prompt.

        Args:
            **kwargs: Further arguments, such as `judge`.

        Raises:
            UsageError: If gym_llm has no verifier for it.
        """
        return gym.make(self.required_env(), tasks=self.task_source, **{**self.arguments, **kwargs})

    def required_env(self) -> str:
        """Return the environment's id, or raise a UsageError."""
        if self.env_id is None:
            raise UsageError(f"gym_llm has no verifier for {self.name} yet; `gym-llm data fetch` gets its tasks.")
        return self.env_id

    def tasks_of(self, loads: Sequence[tuple[Source, Iterable[Row]]]) -> Iterator[Row]:
        """Convert raw rows into tasks.

        Args:
            loads: Each load's source and rows.

        Raises:
            DataError: If a row lacks a column, or cannot be converted.
        """
        if self.joins:
            tables: dict[str, list[Row]] = {}
            for source, rows in loads:
                tables.setdefault(source.label, []).extend(rows)
            yield from self._joined(tables)
            return
        takes_load = len(inspect.signature(self.convert).parameters) > 1
        for source, rows in loads:
            for number, row in enumerate(rows):
                try:
                    task = self.convert(row, Load(source.label, number)) if takes_load else self.convert(row)
                except Exception as error:  # a recipe is code for rows of one shape: the row's shape is another
                    raise self._unfit(error, f"row {number} of {source}", row) from None
                if task is not None:
                    yield task

    def _joined(self, tables: dict[str, list[Row]]) -> Iterator[Row]:
        try:
            yield from self.convert(tables)
        except Exception as error:
            first = next((rows[0] for rows in tables.values() if rows), {})
            raise self._unfit(error, "a row", first) from None

    def _unfit(self, error: Exception, where: str, row: Any) -> DataError:
        columns = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
        if isinstance(error, KeyError):
            return DataError(f"{self.name}: {where} lacks {error}; the columns are {columns}.")
        return DataError(f"{self.name}: {where} cannot be converted ({reason(error)}); the columns are {columns}.")


def canonical(name: str) -> str:
    """Return a name as benchmarks are looked up by.

    >>> canonical("swebench/verified"), canonical("MMLU-Pro")
    ('swebench_verified', 'mmlu_pro')
    """
    head, colon, variant = name.strip().partition(":")
    for mark in "-/. ":
        head = head.replace(mark, "_")
    return head.lower() + colon + variant
