"""The settings that all records of a file share, and their changes since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_OF_A_DATASET = ("env_id", "tasks_sha256", "prompt_sha256", "env_kwargs", "sampling")
_OF_A_RUN = (
    *("env_id", "tasks_sha256", "prompt_sha256", "env_kwargs", "sampling", "seed"),
    *("datasets", "reasoning_parser", "tool_call_parser", "wrappers", "agent"),
)
"""Settings that all records of a file share, like the model; where it is served and how much is played may change."""


def changed_settings(earlier: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Describe the differences between a file's settings and a run's; empty if the run may continue the file.

    >>> changed_settings({"seed": 1, "sampling": {}}, {"seed": 2, "sampling": {}})
    ['seed was 1 and is 2']
    """
    return [
        change
        for name in _OF_A_RUN
        if name in earlier or (name == "agent" and earlier)  # files of before there were agents have none
        for change in (
            _changed_datasets(earlier[name], now.get(name))
            if name == "datasets"
            else _changed(name, earlier.get(name), now.get(name))
        )
    ]


def _changed(name: str, before: Any, now: Any) -> Iterator[str]:
    if before != now:
        yield f"{name} was {before!r} and is {now!r}"


def _changed_datasets(before: dict[str, Any], now: dict[str, Any] | None) -> Iterator[str]:
    now = now or {}
    if missing := [name for name in before if name not in now]:
        yield f"it has the dataset {missing[0]}, which is not played"
    if more := [name for name in now if name not in before]:
        yield f"it does not have the dataset {more[0]}"
    for name in before:
        if name in now:
            for key in _OF_A_DATASET:
                yield from _changed(f"{name}.{key}", before[name].get(key), now[name].get(key))
