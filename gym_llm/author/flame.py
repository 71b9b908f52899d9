"""A flame graph from functions' times: stacks with weights, in the form that speedscope opens.

A profiler of functions knows how long each took beneath each of its callers, not whole stacks. Where a function has
several callers, what it calls is shared out among them by the time that each of them waited for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from gym_llm.version import __version__

P = TypeVar("P", bound=Hashable)
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_DEEPEST = 200
_LEAST = 1e-4  # of the root's time; less is its caller's
WAITING = "(waiting)"


class Frame(NamedTuple):
    """A level of a stack."""

    name: str
    file: str = ""
    line: int = 0


Flames = list[tuple[tuple[Frame, ...], float]]
"""Stacks, the outermost frame first, and the seconds spent in their innermost frame."""


class Spent(NamedTuple):
    """The time of a function: its frame, total seconds, and the share of its own seconds spent waiting."""

    frame: Frame
    total: float
    waiting: float


def stacks_under(root: P, spent: Mapping[P, Spent], calls: Mapping[P, Mapping[P, float]]) -> Iterator[Any]:
    """The stacks that begin with a function; their seconds add up to all that it took.

    Args:
        root: The function.
        spent: What each function took.
        calls: The seconds of each function beneath each of its callers.

    Yields:
        Stack and seconds.
    """
    least = spent[root].total * _LEAST

    def walk(place: P, seconds: float, stack: tuple[Frame, ...], above: frozenset[P]) -> Iterator[Any]:
        frame, total, waiting = spent[place]
        stack = (*stack, frame)
        share = seconds / total if total > 0 else 0.0
        inner = {
            callee: time * share
            for callee, time in calls.get(place, {}).items()
            if callee in spent and callee not in above and time * share > least and len(stack) < _DEEPEST
        }
        within = sum(inner.values())
        scale = min(1.0, seconds / within) if within else 1.0  # coroutines that wait at the same time add up to more
        own = seconds - within * scale
        for part, leaf in ((own * (1 - waiting), stack), (own * waiting, (*stack, Frame(WAITING)))):
            if part > 0:
                yield leaf, part
        for callee, time in inner.items():
            yield from walk(callee, time * scale, stack, above | {callee})

    yield from walk(root, spent[root].total, (), frozenset({root}))


def flame_graph(name: str, flames: Flames) -> dict[str, Any]:
    """A file of https://www.speedscope.app (its `src/lib/file-format-spec.ts`), as JSON values.

    Args:
        name: What it shows.
        flames: The stacks.
    """
    frames: dict[Frame, int] = {}
    samples = [[frames.setdefault(frame, len(frames)) for frame in stack] for stack, _ in flames]
    weights = [seconds for _, seconds in flames]
    shared = [
        {"name": frame.name, **({"file": frame.file, "line": frame.line} if frame.file else {})} for frame in frames
    ]
    sampled = {
        "type": "sampled",
        "name": name,
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    return {
        "$schema": _SCHEMA,
        "shared": {"frames": shared},
        "profiles": [sampled],
        "name": name,
        "activeProfileIndex": 0,
        "exporter": f"gym_llm@{__version__}",
    }
