"""The harnesses by name: ours, and other packages' (entry points)."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from gym_llm.agents.harnesses.harness_file import HarnessFile, read_harness_file
from gym_llm.errors import EngineUnavailable
from gym_llm.utils.text import did_you_mean

ENTRY_POINT_GROUP = "gym_llm.agents"
"""Other packages' agents: `theirs = "their_package.module:HARNESS"` is the agent `theirs`. The object is a path of a
harness file (`pathlib.Path`), a `HarnessFile`, or an agent function."""

_FOLDER = Path(__file__).parent


def harness_names() -> list[str]:
    """Return the names of all harnesses, other packages' too."""
    return sorted({path.stem for path in _FOLDER.glob("*.yaml")} | set(_theirs()))


@functools.cache
def load_harness(name: str) -> HarnessFile | EntryPoint:
    """Return the harness of a name, or another package's entry point of an agent function.

    Raises:
        ValueError: If there is no such harness, or its file is invalid.
        EngineUnavailable: If another package's entry point cannot be loaded.
    """
    path = _FOLDER / f"{name}.yaml"
    if path.is_file():
        return read_harness_file(path)
    if (point := _theirs().get(name)) is None:
        known = harness_names()
        raise ValueError(f"There is no agent {name!r}.{did_you_mean(name, known)} There are {', '.join(known)}.")
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        raise EngineUnavailable(f"The agent {name} cannot be imported: {error}.") from error
    if isinstance(loaded, HarnessFile):
        return loaded
    return read_harness_file(loaded) if isinstance(loaded, Path) else point


def harness_files() -> list[HarnessFile]:
    """Return the data of all harnesses that are not functions."""
    loaded = [load_harness(name) for name in harness_names()]
    return [each for each in loaded if isinstance(each, HarnessFile)]


def _theirs() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
