"""The weights that sampled each token, as runs `[version, number of ids]`; see `gym_llm.types.WEIGHT_VERSIONS`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gym_llm.types import TOKEN_FIELDS, WEIGHT_VERSIONS, ResponseDict

Runs = list[list[int]]
Starts = Sequence[tuple[int, int]]
"""Versions, each with the index of the first id that it may have sampled; the first index is 0."""


def runs_between(starts: Starts, count: int) -> Runs | None:
    """Return the runs of `count` ids; None if all are of version 0.

    Args:
        starts: One or more.
        count: The number of sampled ids.

    >>> runs_between([(0, 0), (1, 3), (2, 3)], 5)
    [[0, 3], [2, 2]]
    >>> runs_between([(0, 0), (1, 5)], 5)
    """
    ends = [*(start for _, start in starts[1:]), count]
    pairs = zip(starts, ends, strict=False)
    runs = [[version, min(end, count) - start] for (version, start), end in pairs if start < min(end, count)]
    return runs if any(version for version, _ in runs) else None


def runs_of(versions: Sequence[int]) -> Runs | None:
    """Return the runs of one version for each id; None if all are of version 0.

    >>> runs_of([0, 2, 2])
    [[0, 1], [2, 2]]
    """
    return [[version, len(list(ids))] for version, ids in groupby(versions)] if any(versions) else None


def each_version(runs: Any, count: int) -> list[int]:
    """Return the version of each of `count` ids.

    Raises:
        ValueError: If these are not the runs of `count` ids.

    >>> each_version([[0, 1], [2, 2]], 3), each_version(None, 2)
    ([0, 2, 2], [0, 0])
    """
    if runs is None:
        return [0] * count
    versions: list[int] = []
    is_valid = isinstance(runs, list) and len(runs) <= count
    for run in runs if is_valid else ():
        if not (isinstance(run, list) and len(run) == 2 and type(run[0]) is type(run[1]) is int):
            break
        version, length = run
        if not (0 <= version < 1 << 53 and 0 < length <= count - len(versions)):
            break
        versions += [version] * length
    if len(versions) != count or not is_valid:
        raise ValueError(f"the versions of {count} sampled tokens are {runs!r:.80}")
    return versions


def note_versions(response: ResponseDict, starts: Starts) -> ResponseDict:
    """Write the runs of a turn's ids into its response, and return it.

    Args:
        response: An engine's, whose ids no version is known of.
        starts: Empty to change nothing.
    """
    for item in response["output"] if starts else ():
        if (ids := item.get(TOKEN_FIELDS[1])) and (runs := runs_between(starts, len(ids))):
            item[WEIGHT_VERSIONS] = runs
    return response
