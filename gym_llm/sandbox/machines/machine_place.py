"""MachinePlace: a machine in which an agent plays, and the way its program is run there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gym_llm.sandbox.machines.machine import BubblewrapMachine


@dataclass(frozen=True, slots=True)
class MachinePlace:
    """A machine for an episode's agent.

    Attributes:
        machine: The machine.
        workdir: The working directory of the agent's program; "" for one of its own.
        environment: Variables of the task.
        user: The user that runs the program.
        seconds: The task's own time limit for the agent; None if it has none.
    """

    machine: BubblewrapMachine
    workdir: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = "root"
    seconds: float | None = None
