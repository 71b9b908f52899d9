"""The list of agents: a script, and what has to come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..checks import Expected
from ..play import Play

Script = Callable[[Play], Awaitable[None]]


@dataclass(frozen=True)
class Agent:
    """A scripted agent.

    Attributes:
        name: The script's name.
        script: What it does with its session.
        branches: How many branches its trajectory has.
        about: What it stands for: the first line of its docstring.
    """

    name: str
    script: Script
    branches: Expected
    about: str


AGENTS: dict[str, Agent] = {}


def agent(branches: Expected) -> Callable[[Script], Script]:
    """Add a script to the suite."""

    def add(script: Script) -> Script:
        name = script.__name__
        AGENTS[name] = Agent(name, script, branches, (script.__doc__ or "").strip().split("\n")[0])
        return script

    return add
