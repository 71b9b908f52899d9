"""The benchmarks by name: ours, each module of `gym_llm.data.benchmarks`, and those of other packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from gym_llm.data.files.reading import BENCHMARK
from gym_llm.data.files.tables import read_table
from gym_llm.data.recipes.recipe import Benchmark, Published, canonical
from gym_llm.errors import UsageError
from gym_llm.records.failures import reason
from gym_llm.utils.text import nearest

_OURS = "gym_llm.data.benchmarks"
_FRAMEWORKS = frozenset({"tau2"})
"""Benchmarks that have a framework's name: `tau2:retail` is an environment of the framework."""
ENTRY_POINT_GROUP = "gym_llm.benchmarks"
"""Other packages name a `Benchmark`, a list of them, or a module with `BENCHMARKS`."""


@cache
def benchmarks() -> dict[str, Benchmark]:
    """Return every benchmark by its name, sorted.

    Raises:
        UsageError: If two have one name, or a package's entry point cannot be loaded.
    """
    found: dict[str, Benchmark] = {}
    for benchmark in [*_ours(), *_others()]:
        for name in (benchmark.name, *benchmark.aliases):
            if name != canonical(name) or ":" in name:
                raise UsageError(f"The benchmark name {name!r} is invalid: use lower case letters, digits and `_`.")
            if name in found or any(name in other.aliases for other in found.values()):
                raise UsageError(f"Two benchmarks are called {name}.")
        found[benchmark.name] = benchmark
    return dict(sorted(found.items()))


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of a name: `aime25`, `mmlu_prox:de`, `benchmark:aime25`, also with `-` and capitals.

    Raises:
        UsageError: If there is no such benchmark or variant.

    >>> find_benchmark("AIME25").env_id
    'gym_llm/MathWithJudge-v0'
    """
    head, _, variant = canonical(name.removeprefix(BENCHMARK)).partition(":")
    benchmark = benchmarks().get(head) or _by_alias().get(head)
    if benchmark is None:
        near = nearest(head, benchmark_names())
        hint = f" Did you mean {near}?" if near else ""
        raise UsageError(f"There is no benchmark {head!r}.{hint} `gym-llm list --benchmarks` names all.")
    return benchmark.variant(variant) if variant else benchmark


def is_benchmark(name: str) -> bool:
    """Whether a word names a benchmark, not an environment's id or a file.

    >>> is_benchmark("aime25"), is_benchmark("gym_llm/Weather-v0"), is_benchmark("tau2"), is_benchmark("tau2:retail")
    (True, False, True, False)
    """
    head, colon, _ = canonical(name.removeprefix(BENCHMARK)).partition(":")
    if colon and head in _FRAMEWORKS:
        return name.startswith(BENCHMARK)
    return name.startswith(BENCHMARK) or head in benchmarks() or head in _by_alias()


def benchmark_names() -> list[str]:
    """Return all names and aliases."""
    return [*benchmarks(), *_by_alias()]


def benchmarks_of(env_id: str) -> list[str]:
    """Return the names of the benchmarks that an environment scores."""
    return [name for name, benchmark in benchmarks().items() if env_id in (benchmark.env_id, *benchmark.also_scored_by)]


@cache
def _by_alias() -> dict[str, Benchmark]:
    return {alias: benchmark for benchmark in benchmarks().values() for alias in benchmark.aliases}


def _ours() -> Iterable[Benchmark]:
    package = importlib.import_module(_OURS)
    figures = _published(Path(next(iter(package.__path__)), "published.csv"))
    for module in pkgutil.iter_modules(package.__path__):
        for recipe in getattr(importlib.import_module(f"{_OURS}.{module.name}"), "BENCHMARKS", ()):
            yield replace(recipe, published=figures[recipe.name]) if recipe.name in figures else recipe


def _published(path: Path) -> dict[str, tuple[Published, ...]]:
    """The published figures that were read, by benchmark."""
    figures: dict[str, tuple[Published, ...]] = {}
    for row in read_table(path, path.name):
        figure = Published(row["model"], float(row["figure"]), row["where"])
        figures[row["benchmark"]] = (*figures.get(row["benchmark"], ()), figure)
    return figures


def _others() -> Iterable[Benchmark]:
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            value: Any = point.load()
        except Exception as error:
            raise UsageError(f"The benchmarks of {point.value} cannot be loaded: {reason(error)}.") from None
        value = getattr(value, "BENCHMARKS", value)
        yield from [value] if isinstance(value, Benchmark) else value
