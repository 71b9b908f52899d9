"""Statistics of a data set, in the shape of NeMo Gym's `*_metrics.json`, computed without keeping the rows.

In a worker process, `RowStatistics` reads a chunk of rows and returns a small `ChunkStatistics`. `DatasetStatistics`
adds those up in the order of the file, so the same file always gives the same digits.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from gym_llm.data.prepare.uniques import UniqueCounter, hash_values

TOOLS = "Number of tools"
WORDS = "Json-dumped number of words (proxy for token count)"
TURNS = "Number of turns"
TEMPERATURE = "Temperature"
TOKENS = "Input length in tokens"
COUNTER = "Token counter"
UNIQUE_PARAMS = "Number of unique create params"
UNIQUE_MESSAGES = "Number of unique user messages"

_FIXED = (TOOLS, WORDS, TURNS, TEMPERATURE)
_NOT_FIELDS = frozenset({"responses_create_params", "response"})


@dataclass(slots=True)
class Numbers:
    """Count, mean, sum of squared differences from the mean, smallest and largest of numbers."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: list[float]) -> Numbers:
        """The statistics of some values."""
        array = np.asarray(values, np.float64)
        with np.errstate(over="ignore"):  # a spread beyond 1e308 is infinite, which JSON writes as null
            mean = float(array.mean())
            squares = float(((array - mean) ** 2).sum())
        return cls(len(values), mean, squares, float(array.min()), float(array.max()))

    def add(self, other: Numbers) -> None:
        """Add another group's numbers (Chan, Golub & LeVeque 1979: exact to rounding, with no cancellation)."""
        count = self.count + other.count
        delta = other.mean - self.mean
        if self.count:
            self.squares += other.squares + delta * delta * (self.count * other.count / count)
            self.mean += delta * (other.count / count)
        else:
            self.mean, self.squares = other.mean, other.squares
        self.count = count
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    def repeated(self, times: int) -> Numbers:
        """Return the statistics with every number repeated `times` times."""
        return Numbers(self.count * times, self.mean, self.squares * times, self.low, self.high)

    def as_dict(self) -> dict[str, float | None]:
        """NeMo Gym's five figures: the sample standard deviation, all rounded as there, zeros where there is nothing.

        >>> Numbers.of([1, 2, 4]).as_dict()["Standard deviation"]
        1.53
        """
        return {
            "Total # non-null values": self.count,
            "Average": _rounded(self.mean),
            "Min": _rounded(self.low) if self.count else 0.0,
            "Max": _rounded(self.high) if self.count else 0.0,
            "Standard deviation": _rounded(math.sqrt(self.squares / max(self.count - 1, 1))),
        }


def _rounded(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    return round(value, 2 if abs(value) >= 1 else 3)


@dataclass(slots=True)
class ChunkStatistics:
    """The statistics of a chunk of rows; picklable and small."""

    rows: int
    numbers: dict[str, Numbers]  # of the create params, by their names in the metrics
    fields: dict[str, Numbers]  # of the rows' own fields
    strings: dict[str, tuple[int, bytes]]  # of the rows' own fields: how many, and their hashes
    params: bytes  # hashes of the create params
    messages: bytes  # hashes of the user messages


class RowStatistics:
    """Collects the rows of one chunk."""

    def __init__(self) -> None:
        self._rows = 0
        self._numbers: defaultdict[str, list[float]] = defaultdict(list)
        self._fields: defaultdict[str, list[float]] = defaultdict(list)
        self._strings: defaultdict[str, list[str]] = defaultdict(list)
        self._params: list[bytes] = []
        self._messages: list[str] = []

    def add(self, row: dict[str, Any]) -> None:
        """Count a valid row."""
        self._rows += 1
        params = row["responses_create_params"]
        numbers = self._numbers
        if (tools := params.get("tools")) is not None:
            numbers[TOOLS].append(len(tools))
        if messages := _user_messages(params["input"]):
            numbers[TURNS].append(len(messages))
            self._messages += messages
        dumped = orjson.dumps(params, option=orjson.OPT_SORT_KEYS)
        self._params.append(dumped)
        # As Python's json.dumps writes them (NeMo Gym's measure): with a space more behind each comma and colon.
        numbers[WORDS].append(_separators(params) + _space_runs(dumped) + 1)
        for name, value in params.items():
            kind = type(value)
            if kind is float or kind is int:
                numbers[name.replace("_", " ").capitalize()].append(value)  # `Top p` for `top_p`
        for name, value in row.items():
            if name not in _NOT_FIELDS:
                for part in value if type(value) is list else (value,):
                    kind = type(part)
                    if kind is str:
                        self._strings[name].append(part)
                    elif kind is int or kind is float or kind is bool:
                        self._fields[name].append(part)

    def add_tokens(self, counts: Iterable[int]) -> None:
        """Add input lengths in tokens."""
        self._numbers[TOKENS].extend(counts)

    def summary(self) -> ChunkStatistics:
        """The chunk's statistics."""
        return ChunkStatistics(
            self._rows,
            {name: Numbers.of(values) for name, values in self._numbers.items()},
            {name: Numbers.of(values) for name, values in self._fields.items()},
            {name: (len(values), hash_values(map(str.encode, values))) for name, values in self._strings.items()},
            hash_values(self._params),
            hash_values(map(str.encode, self._messages)),
        )


@dataclass
class DatasetStatistics:
    """Statistics of a data set, or of several together.

    Attributes:
        counter: What tokens were counted with, as the metrics name it.
        rows: How many rows.
    """

    counter: str
    rows: int = 0
    _numbers: defaultdict[str, Numbers] = field(default_factory=lambda: defaultdict(Numbers))
    _fields: defaultdict[str, Numbers] = field(default_factory=lambda: defaultdict(Numbers))
    _totals: Counter[str] = field(default_factory=Counter)
    _uniques: defaultdict[str, UniqueCounter] = field(default_factory=lambda: defaultdict(UniqueCounter))
    _params: UniqueCounter = field(default_factory=UniqueCounter)
    _messages: UniqueCounter = field(default_factory=UniqueCounter)

    def add(self, chunk: ChunkStatistics, times: int = 1) -> None:
        """Add the next chunk; every row counts as often as the collated file repeats it."""
        self.rows += chunk.rows * times
        for name, numbers in chunk.numbers.items():
            self._numbers[name].add(numbers.repeated(times))
        for name, numbers in chunk.fields.items():
            self._fields[name].add(numbers.repeated(times))
        for name, (total, hashes) in chunk.strings.items():
            self._totals[name] += total * times
            self._uniques[name].add(hashes)
        self._params.add(chunk.params)
        self._messages.add(chunk.messages)

    def as_dict(self) -> dict[str, Any]:
        """The metrics: NeMo Gym's, then what it left out, then the rows' own fields."""
        metrics: dict[str, Any] = {"Number of examples": self.rows}
        for name in dict.fromkeys([*_FIXED, *self._numbers]):
            metrics[name] = self._numbers.get(name, Numbers()).as_dict()
        metrics[COUNTER] = self.counter
        metrics[UNIQUE_PARAMS] = self._params.count()
        metrics[UNIQUE_MESSAGES] = self._messages.count()
        own = {name: numbers.as_dict() for name, numbers in self._fields.items()}
        for name, total in self._totals.items():
            own.setdefault(name, {}).update(unique_count=self._uniques[name].count(), total_count=total)
        return metrics | {name: figures for name, figures in own.items() if name not in metrics}

    def close(self) -> None:
        """Delete temporary files."""
        for counter in (self._params, self._messages, *self._uniques.values()):
            counter.close()


def _separators(value: Any) -> int:
    """Commas and colons of a value's JSON."""
    if type(value) is dict:
        count = 2 * len(value) - 1
        parts: Iterable[Any] = value.values()
    elif type(value) is list:
        count = len(value) - 1
        parts = value
    else:
        return 0
    for part in parts:
        if type(part) is dict or type(part) is list:
            count += _separators(part)
    return max(count, 0)


def _space_runs(compact: bytes) -> int:
    return compact.count(b" ") if b"  " not in compact else len(compact.split()) - 1


def _user_messages(items: Any) -> list[str]:
    """What the user says in each message: its text, or its parts as JSON."""
    if type(items) is str:
        return [items]
    return [
        content if type(content := item.get("content")) is str else orjson.dumps(content).decode()
        for item in items
        if item.get("role") == "user"
    ]
