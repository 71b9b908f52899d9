"""Overlap between training rows and benchmarks: common n-grams of normalised words."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gym_llm.data.files.reading import read_objects
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.data.recipes.prepared import prepare
from gym_llm.types import Row
from gym_llm.utils.json_codec import loads

NGRAM = 13
"""Words of an n-gram, as GPT-3's and later reports compare."""

_LEAST = 5  # words of a shorter text, which is compared as a whole
_FIELDS = ("question", "problem", "prompt", "problem_statement", "question_content")
_NO_WORD = re.compile(r"[\W_]+")


class Hit(NamedTuple):
    """A training row that shares words with a benchmark's task."""

    row: int
    """The training row's number, from 1."""
    benchmark: str
    task: int
    """The task's index, from 0."""
    share: float
    """The share of the row's n-grams that the benchmark has."""
    words: str
    """The first common n-gram."""


@dataclass
class Report:
    """The result of a comparison.

    Attributes:
        rows: The number of training rows.
        hits: The overlaps, one for each row and benchmark.
        tasks: The number of each benchmark's tasks.
    """

    rows: int = 0
    hits: list[Hit] = field(default_factory=list)
    tasks: dict[str, int] = field(default_factory=dict)

    @property
    def rows_with_overlap(self) -> int:
        """The number of training rows with any overlap."""
        return len({hit.row for hit in self.hits})

    def by_benchmark(self) -> dict[str, tuple[int, int]]:
        """Return, for each benchmark, the training rows that overlap, and the tasks that are touched."""
        rows = Counter(hit.benchmark for hit in self.hits)
        return {name: (rows[name], len({h.task for h in self.hits if h.benchmark == name})) for name in self.tasks}


class OverlapIndex:
    """The n-grams of benchmarks' tasks.

    Args:
        ngram: The number of words.
    """

    def __init__(self, ngram: int = NGRAM) -> None:
        self._ngram = ngram
        self._places: dict[int, tuple[str, int]] = {}
        self.tasks: dict[str, int] = {}

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """Add the tasks of a benchmark."""
        count = 0
        for index, row in enumerate(rows):
            count += 1
            for _, gram in self._grams(row):
                self._places.setdefault(gram, (name, index))
        self.tasks[name] = count

    def find(self, row: Row, number: int = 0) -> list[Hit]:
        """Return the benchmarks that a row overlaps with, a hit for each."""
        found: dict[str, list[Any]] = {}
        total = 0
        for words, gram in self._grams(row):
            total += 1
            if (place := self._places.get(gram)) is not None:
                hits = found.setdefault(place[0], [0, place[1], words])
                hits[0] += 1
        return [Hit(number, name, task, hits / total, words) for name, (hits, task, words) in found.items()]

    def _grams(self, row: Row) -> Iterator[tuple[str, int]]:
        for text in dict.fromkeys(texts_of(row)):
            words = normalised(text)
            if len(words) < self._ngram:
                if len(words) >= _LEAST:
                    whole = " ".join(words)
                    yield whole, hash(whole)
                continue
            for start in range(len(words) - self._ngram + 1):
                gram = " ".join(words[start : start + self._ngram])
                yield gram, hash(gram)


def normalised(text: str) -> list[str]:
    """Return a text's words in lower case, without punctuation.

    >>> normalised("What is 1+1, Ännchen?")
    ['what', 'is', '1', '1', 'ännchen']
    """
    return _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).lower()).split()


def texts_of(row: Row) -> Iterator[str]:
    """Yield the texts that ask something: the row's user messages, and its fields such as `question`."""
    for name in _FIELDS:
        if isinstance(text := row.get(name), str):
            yield text
    params = row.get("responses_create_params")
    items = params.get("input") if isinstance(params, Mapping) else None
    if isinstance(items, str):
        yield items
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, Mapping) or item.get("role") == "system":
            continue
        content = item.get("content")
        if isinstance(content, str):
            yield content
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                yield part["text"]


def index_of(names: Iterable[str], ngram: int = NGRAM) -> OverlapIndex:
    """Return the index of benchmarks, each by its name or a file of tasks.

    Raises:
        DataError: If tasks cannot be read or fetched.
        UsageError: If there is no such benchmark.
    """
    index = OverlapIndex(ngram)
    for name in names:
        source = name if Path(name).is_file() else str(prepare(find_benchmark(name)).path)
        index.add(name, (row for _, row in read_objects(source)))
    return index


def compare(source: str, index: OverlapIndex, on_row: Callable[[int], None] | None = None) -> Report:
    """Compare training rows with benchmarks, one row at a time.

    Args:
        source: The training rows, in any form of `gym_llm.data.files.reading`.
        index: The benchmarks.
        on_row: Called with the number of each row.
    """
    report = Report(tasks=dict(index.tasks))
    for number, row in read_objects(source):
        report.rows += 1
        report.hits += index.find(row, number)
        if on_row is not None:
            on_row(number)
    return report


class Excluder:
    """Says which lines of a training file overlap with benchmarks, and counts them."""

    def __init__(self, index: OverlapIndex) -> None:
        self._index = index
        self.count = 0
        self.lines = array("q")

    def __call__(self, number: int, line: bytes) -> bool:
        """Return whether a line is to be left out; a line that cannot be read is not."""
        try:
            row = loads(line)
        except ValueError:
            return False
        if not isinstance(row, dict) or not self._index.find(row):
            return False
        self.count += 1
        self.lines.append(number)
        return True
