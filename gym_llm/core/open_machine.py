"""The way from an engine to the machine of the episode that asks it."""

# An agent that runs inside of its episode's machine is started by the engine, which knows the episode by its id only.
# Whoever plays an episode puts the environment's `open_machine` into this variable before it asks the engine; `respond`
# reads it in the same task. An engine that is asked by others finds None, and makes a machine of its own.

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gym_llm.sandbox.machines.machine_place import MachinePlace

OPEN_MACHINE: ContextVar[Callable[[Sequence[str]], Awaitable[MachinePlace | None]] | None] = ContextVar(
    "OPEN_MACHINE", default=None
)
"""Opens the machine of the episode under way, with an agent's layers; see `AuthorHooks.open_machine`."""
