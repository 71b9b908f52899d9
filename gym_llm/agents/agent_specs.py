"""Agent specs: the values of `--agent` and `agent="..."`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gym_llm.agents.agent_episode import Agent, AgentEpisode
from gym_llm.agents.agent_program import Program
from gym_llm.agents.harnesses import Harness, HarnessFile, harness_names, load_harness
from gym_llm.agents.run_agent import run_agent
from gym_llm.errors import EngineUnavailable
from gym_llm.records.failures import reason
from gym_llm.utils.secrets import mask
from gym_llm.utils.text import did_you_mean, nearest

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
AgentIn = Literal["host", "machine"]
"""The place where an agent's program runs: on this machine, or in the machine of its episode."""
_FUNCTION = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_IN_FILE = re.compile(r"(?P<file>[^\s:]+\.py):(?P<name>[A-Za-z_]\w*)")


def parse_agent_spec(agent: str | Agent) -> Agent:
    """Return the agent of a spec.

    Args:
        agent: A function of an `AgentEpisode`, async or not. Or a text: the name of a harness (`gym-llm list
            --agents`), `module:function`, `path/file.py:function`, or a command, whose paths are relative to the
            current folder.

    Raises:
        TypeError: If it is neither callable nor a text.
        ValueError: If a text is invalid, its file does not exist, or it is a misspelt name of a harness.

    >>> parse_agent_spec("python my_agent.py").command, parse_agent_spec("my_package.agents:plays").name
    (('python', 'my_agent.py'), 'plays')
    """
    if not isinstance(agent, str):
        if not callable(agent):
            raise TypeError(
                "agent is an async function, 'module:function', or a command such as 'python my_agent.py'; got "
                f"{type(agent).__name__}."
            )
        return agent
    text = agent.strip()
    if match := _IN_FILE.fullmatch(text):
        file = Path(match["file"]).expanduser().absolute()
        if not file.is_file():
            raise ValueError(f"There is no file {match['file']}, in which the agent {match['name']} would be.")
        return FunctionSpec(str(file), match["name"], os.getcwd())
    if match := _FUNCTION.fullmatch(text):
        return FunctionSpec(match["module"], match["name"], os.getcwd())
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"The agent's command cannot be read: {error}.") from None
    if not words:
        raise ValueError("The agent is empty: give a command such as 'python my_agent.py', or module:function.")
    if len(words) == 1 and _NAME.fullmatch(words[0]) and (harness := _harness(words[0])) is not None:
        return harness
    return Program(tuple(words), os.getcwd())


def _harness(name: str) -> Agent | None:
    """The harness of a name; None for a command.

    Raises:
        ValueError: If there is no such command, but a harness with a similar name.
    """
    known = harness_names()
    if name in known:
        found = load_harness(name)
        if isinstance(found, HarnessFile):
            return Harness.of(found)
        module, _, function = found.value.partition(":")
        return FunctionSpec(module.strip(), function.strip(), os.getcwd())
    if (near := nearest(name, known)) is None or shutil.which(name) or os.path.exists(name):
        return None
    raise ValueError(f"There is no agent {name!r}. Did you mean {near}? `gym-llm list --agents` has all of them.")


def check_agent_in(agent_in: str, agent: Agent | None) -> None:
    """Refuse a place where an agent cannot run.

    Raises:
        ValueError: If the place is unknown, or a function has to run in a machine.
    """
    if agent_in not in ("host", "machine"):
        raise ValueError(f"agent_in is 'host' or 'machine', got {agent_in!r}.")
    if agent_in == "machine" and agent is not None and not isinstance(agent, Program):
        raise ValueError("agent_in='machine' needs an agent that is a program, as 'python my_agent.py'.")


def agent_name(agent: Agent) -> str:
    """Return an agent's name for a run's files: its command without secrets, or the place of its function."""
    if isinstance(agent, Program) and agent.harness:
        return agent.harness
    if isinstance(agent, Program):
        return str(mask(shlex.join(agent.command)))
    if isinstance(agent, FunctionSpec):
        return f"{os.path.relpath(agent.module, agent.folder)}:{agent.name}" if agent.is_file else str(agent)
    while isinstance(agent, functools.partial):
        agent = agent.func
    place = agent if hasattr(agent, "__qualname__") else type(agent)
    return f"{place.__module__}:{place.__qualname__}"


@dataclass(frozen=True)
class FunctionSpec:
    """A function that is looked up at its first call, so that its name can be sent to any process.

    Attributes:
        module: The module, or the path of a file.
        name: The function's name.
        folder: The folder that is searched for modules, before the usual places.
    """

    module: str
    name: str
    folder: str

    @property
    def is_file(self) -> bool:
        """Whether the function is in a file outside of a module."""
        return self.module.endswith(".py")

    def __str__(self) -> str:
        """Return the spec."""
        return f"{self.module}:{self.name}"

    async def __call__(self, episode: AgentEpisode) -> Any:
        """Look it up, and play."""
        return await run_agent(_look_up(self), episode)

    def check(self) -> None:
        """Raise the EngineUnavailable of a function that is not there."""
        _look_up(self)


@functools.cache
def _look_up(named: FunctionSpec) -> Agent:
    try:
        if named.is_file:
            spec = importlib.util.spec_from_file_location(f"gym_llm_agent_{Path(named.module).stem}", named.module)
            if spec is None or spec.loader is None:
                raise ImportError(f"{named.module} is not a Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            if named.folder not in sys.path:
                sys.path.append(named.folder)
            module = importlib.import_module(named.module)
    except (Exception, SystemExit) as error:
        said = error if isinstance(error, (ImportError, OSError, SyntaxError)) else reason(error)
        raise EngineUnavailable(f"The agent {named} cannot be imported: {str(said).rstrip('.')}.") from error
    function = getattr(module, named.name, None)
    if not callable(function):
        hint = did_you_mean(named.name, [name for name in vars(module) if not name.startswith("_")])
        raise EngineUnavailable(f"The module {named.module} has no function {named.name}.{hint}")
    return function  # type: ignore[no-any-return]
