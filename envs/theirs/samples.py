"""The finite lists of samples that some frameworks have: each sample is a task, in the list's order."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from gym_llm.envs.theirs.environments import python_of
from gym_llm.envs.theirs.frameworks import Framework
from gym_llm.envs.theirs.peer_process import PeerProcess
from gym_llm.envs.theirs.room import load, see_folder
from gym_llm.errors import UsageError
from gym_llm.utils.json_codec import dumps

_listed: dict[tuple[str, bool, bytes], list[dict[str, Any]] | None] = {}


async def samples_of(
    framework: Framework, arguments: dict[str, Any], *, is_here: bool, seconds: float
) -> list[dict[str, Any]] | None:
    """Return the arguments of each sample that these arguments choose, asked once in this process.

    Args:
        framework: Whose `samples` is asked.
        arguments: The environment's own arguments.
        is_here: Whether this process asks; else a child that has the framework's packages.
        seconds: How long a child may take besides its start.

    Returns:
        A dict for each sample; None if the framework makes episodes from seeds, without end.

    Raises:
        UsageError: If the list cannot be read, or is empty.
    """
    key = (framework.name, is_here, dumps([arguments, framework.extra_packages]))
    if key not in _listed:
        try:
            samples = await (_here(framework, arguments) if is_here else _apart(framework, arguments, seconds))
        except Exception as error:
            said = str(error) if not is_here else f"{type(error).__name__}: {error}"
            raise UsageError(f"{framework.env_id} cannot list its samples: {said}") from error
        if samples is not None and not samples:
            raise UsageError(f"{framework.env_id} has no samples with these arguments.")
        _listed[key] = samples
    return _listed[key]


async def _here(framework: Framework, arguments: dict[str, Any]) -> Any:
    see_folder()
    samples = load(framework.name).samples(arguments)
    return await samples if inspect.isawaitable(samples) else samples


async def _apart(framework: Framework, arguments: dict[str, Any], seconds: float) -> Any:
    python = await asyncio.to_thread(python_of, framework.with_arguments(arguments))
    process = PeerProcess(framework.name, python, seconds, 1)
    try:
        return await process.samples(arguments)
    finally:
        await process.aclose()
