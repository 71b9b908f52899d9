"""Converting raw rows that are here already, without a network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from gym_llm.data.files.raw_files import read_raw
from gym_llm.data.recipes.recipe import EVERY, Benchmark, Source
from gym_llm.errors import DataError, UsageError
from gym_llm.types import Row


def convert_files(
    benchmark: Benchmark, paths: Sequence[str | os.PathLike[str]], labels: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield the tasks that raw rows become.

    Args:
        benchmark: The recipe.
        paths: A file for each load. A file that is named as the recipe's, or as a load's label, is of that load. Other
            files are in the recipe's order, or one file has equally many rows of each load. If the numbers do not fit,
            all rows belong to the first load. A line may also be a whole load, `[ROW, …]`, or
            `{"loader": [LOAD, …], "raw": [[ROW, …], …]}`, which names the place of each load.
        labels: The load of each file; () for those that the files' names or order say.

    Raises:
        DataError: If a file cannot be read, or a row does not fit.
        UsageError: If the loads cannot be told apart.
    """
    if labels and len(labels) != len(paths):
        raise UsageError(f"There are {len(paths)} files and {len(labels)} loads: name a load for each file.")
    chosen = [_labelled(benchmark, label) for label in labels] or _named(benchmark, paths)
    ordered = benchmark.sources if len(paths) == len(benchmark.sources) else benchmark.sources[:1] * len(paths)
    tables = [_tables(path, source) for path, source in zip(paths, chosen or ordered, strict=True)]
    if chosen and (labels or not any(described for each in tables for described, _ in each)):
        yield from _whole(benchmark, [(source, _rows(each)) for source, each in zip(chosen, tables, strict=True)])
        return
    loads = [load for each in tables for load in each]
    named = [described for described, _ in loads]
    rows = [part for _, part in loads]
    sources = benchmark.sources
    if any(named):
        matched = zip(_matched(benchmark, named), rows, strict=True)
        yield from benchmark.tasks_of([(source, part) for source, part in matched if source is not None])
        return
    if len(rows) == 1 and len(sources) > 1:
        size, rest = divmod(len(rows[0]), len(sources))
        if not rest:
            rows = [rows[0][size * n : size * (n + 1)] for n in range(len(sources))]
    if len(rows) > len(sources):
        raise UsageError(f"{benchmark.name} has {len(sources)} loads, got {len(rows)}.")
    yield from _whole(benchmark, list(zip(sources, rows, strict=False)))


def _whole(benchmark: Benchmark, loads: list[tuple[Source, list[Row]]]) -> Iterator[Row]:
    """Convert loads; if loads that are joined with them are missing, an error names their files."""
    count = 0
    try:
        for task in benchmark.tasks_of(loads):
            yield task
            count += 1
        if count or not benchmark.joins or not any(rows for _, rows in loads):
            return
        raise DataError(f"{benchmark.name}: these rows make no task.")
    except DataError as error:
        given = {source.label for source, _ in loads}
        missing = [source for source in benchmark.sources if source.label not in given and not source.unread]
        if not (benchmark.joins and missing):
            raise
        ends = [path.split("/")[-2:] for source in missing for path in source.paths or [source.label]]
        names = {Path(path).name for source, _ in loads for path in source.paths}
        ends.sort(key=lambda end: end[-1] not in names)
        listed = ", ".join(map("/".join, ends[:3])) + ", …" * (len(ends) > 3)
        raise DataError(f"{error} It joins several files; missing: {listed}.") from None


def _named(benchmark: Benchmark, paths: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """The load of each file, by the file's name; [] unless every file has one of its own."""
    best = [max(benchmark.sources, key=lambda source: _same_end(source, path)) for path in map(Path, paths)]
    fits = all(_same_end(source, Path(path)) for source, path in zip(best, paths, strict=True))
    return best if fits and len({source.label for source in best}) == len(best) else []


def _same_end(source: Source, path: Path) -> int:
    """How many of the last parts of a path are those of a load's file, whether it is compressed or not."""
    given = str(path).removesuffix(".gz").split("/")[::-1]
    parts = [known.removesuffix(".gz").split("/")[::-1] for known in source.paths]
    pairs = [takewhile(lambda pair: pair[0] == pair[1], zip(given, known, strict=False)) for known in parts]
    return max((len(list(same)) for same in pairs), default=0) or int(path.name.partition(".")[0] == source.label)


def _tables(path: str | os.PathLike[str], source: Source) -> list[tuple[dict[str, Any], list[Row]]]:
    """The loads in a file, each with what is said of it: {} for nothing."""
    name = os.fspath(path)
    if not name.endswith(".jsonl"):
        return [({}, list(read_raw(name, **source.form)))]
    from gym_llm.utils.json_codec import loads as parse

    loads: list[tuple[dict[str, Any], list[Row]]] = []
    plain: list[Row] = []
    try:
        with open(name, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                value = parse(line)
                if isinstance(value, dict) and isinstance(value.get("raw"), list) and "loader" in value:
                    loads += _described(value, f"{name}, line {number}")
                elif isinstance(value, list):
                    loads.append(({}, value))
                elif isinstance(value, dict):
                    plain.append(value)
                else:
                    raise DataError(f"{name}, line {number}: expected an object, got {type(value).__name__}.")
    except OSError as error:
        raise DataError(f"Cannot read {name}: {error.strerror or error}.") from None
    except ValueError as error:
        raise DataError(f"{name} is not JSON Lines: {error}.") from None
    return [*loads, ({}, plain)] if plain or not loads else loads


def _described(value: dict[str, Any], place: str) -> list[tuple[dict[str, Any], list[Row]]]:
    """The loads of a line `{"loader": […], "raw": […]}`."""
    loader, raw = value["loader"], value["raw"]
    if not isinstance(loader, list) or not all(isinstance(load, dict) for load in loader) or len(loader) != len(raw):
        raise DataError(f"{place}: `loader` is a list with an object for each list of `raw`.")
    if not all(isinstance(rows, list) for rows in raw):
        raise DataError(f"{place}: `raw` is a list of lists of rows.")
    return list(zip(loader, raw, strict=True))


def _rows(tables: list[tuple[dict[str, Any], list[Row]]]) -> list[Row]:
    return [row for _, rows in tables for row in rows]


def _labelled(benchmark: Benchmark, label: str) -> Source:
    for source in benchmark.sources:
        if source.label == label:
            return source
    names = ", ".join(source.label for source in benchmark.sources)
    raise UsageError(f"{benchmark.name} has no load {label!r}: it has {names}.")


def _matched(benchmark: Benchmark, described: Sequence[dict[str, Any]]) -> list[Source | None]:
    """The source of each load: the one that its description fits best, in the recipe's order where several do.

    A load that fits no source gets one that is left over, and None if there is none.
    """
    left = list(benchmark.sources)
    chosen: list[Source | None] = [None] * len(described)
    for index, load in enumerate(described):
        words = _words(load)
        best = max(left or benchmark.sources, key=lambda source: _likeness(source, words))
        if not _likeness(best, words) and left:
            best = max(benchmark.sources, key=lambda source: _likeness(source, words))
        if not _likeness(best, words):
            continue
        if best.config == EVERY:
            name = next((str(word) for word in (*_arguments(load)[1:], load.get("name")) if word), best.label)
            chosen[index] = replace(best, config=name, label=name)
        elif best in left:
            left.remove(best)
            chosen[index] = best
        elif not benchmark.joins:
            chosen[index] = best
    for index, load in enumerate(described):
        fits = any(_likeness(source, _words(load)) for source in benchmark.sources)
        if chosen[index] is None and not fits and left:
            chosen[index] = left.pop(0)
    return chosen


def _arguments(load: dict[str, Any]) -> list[Any]:
    value = load.get("args")
    return list(value) if isinstance(value, list) else []


def _words(load: dict[str, Any]) -> set[str]:
    words = (*_arguments(load), load.get("name"), load.get("split"), load.get("url"))
    return {str(word) for word in words if word}


def _likeness(source: Source, words: set[str]) -> int:
    own = {source.place, source.config, source.split, source.label} - {None, ""}
    return len(own & words)
