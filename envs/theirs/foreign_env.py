"""ForeignEnv: the environments of other frameworks, one class for each file in `peers/`."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium.error import DependencyNotInstalled

from gym_llm import BaseTask, Episode, Verdict, VerifierEnv
from gym_llm.concurrency import wait
from gym_llm.core.env_config import Seconds
from gym_llm.core.tasks import RowTasks, TaskSource
from gym_llm.core.tools.calls import beyond_limits
from gym_llm.core.verifier_env import has_only_reasoning, was_cut_off
from gym_llm.envs.theirs.environments import python_of
from gym_llm.envs.theirs.frameworks import Framework
from gym_llm.envs.theirs.hub_folder import HubFolder
from gym_llm.envs.theirs.peer_process import PeerFailed, PeerProcess, RemotePlay
from gym_llm.envs.theirs.room import MOST_CHARACTERS, Play, characters, load
from gym_llm.envs.theirs.samples import samples_of
from gym_llm.envs.theirs.served_folder import ServedFolder
from gym_llm.errors import DeadlinePassed
from gym_llm.types import Item, Row
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.text import did_you_mean


class ForeignTask(BaseTask):
    """An episode of another framework's environment.

    Attributes:
        seed: What the framework's `reset` gets; without one the environment's own generator is asked.
        arguments: Arguments of the framework's environment that differ from those of ours. Other fields of the row
            count as well, if they have the name of an argument.
        seat: The policy's seat, where several play; None for the environment's `seat`.
    """

    seed: int | None = None
    arguments: dict[str, Any] = {}
    seat: int | None = None


@dataclass
class Table:
    """An episode under way.

    Attributes:
        play: What plays it, here or in a child.
        seed: What `reset` gets.
        is_blocking: Whether a step runs in a thread.
        turn: The framework's last turn, of a game with several seats.
        seats: The names of that game's seats.
        tools: The names of the framework's tools.
        pending: The reward that has not been paid: that of `reset`, then that of the last turn.
        is_over: Whether the framework has ended the episode.
        info: What the framework says of the last turn.
    """

    play: Play | RemotePlay
    seed: int
    is_blocking: bool
    turn: dict[str, Any] = field(default_factory=dict)
    seats: list[str] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    pending: float = 0.0
    is_over: bool = False
    info: dict[str, Any] = field(default_factory=dict)


class ForeignEnv(VerifierEnv[ForeignTask, Table]):
    """An environment of another framework: the reward is the sum of its steps' rewards.

    Args:
        where: `"here"` in this process, or `"process"` in a child that has the framework's packages. None: here if they
            are installed and can live beside ours, else in a child. Its environment is made on demand.
        extra_packages: What pip installs into that environment besides, such as `["my-vf-env==1.2"]`.
        step_seconds: How long a step may take in a child, or where the framework is async.
        **kwargs: The framework's own arguments, and those of every `VerifierEnv`.

    Raises:
        DependencyNotInstalled: If the packages are not installed, and `where` is `"here"`.
    """

    framework: ClassVar[Framework]
    main_argument: ClassVar[str]
    """The framework's own first argument, which `FRAMEWORK:NAME` gives."""
    shared_arguments: ClassVar[set[str]]
    """The arguments that are not the framework's own."""
    reverify_mode = "unsupported"
    _lists_samples = False
    _tasks: TaskSource | None

    class Config(VerifierEnv.Config):
        """Arguments of every framework."""

        where: Literal["here", "process"] | None = None
        extra_packages: list[str] = []
        step_seconds: Seconds = 60.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **arguments: Any) -> None:
        super().__init__(tasks, **arguments)
        self._own = {name: value for name, value in self.config if name not in self.shared_arguments}
        framework = self.framework
        if self.config.extra_packages and self.config.where == "here":
            raise ValueError("extra_packages go into a process of its own: leave where='here' out.")
        getattr(load(framework.name), "check", lambda _: None)(self._own)
        if served := self._served(self._own):
            HubFolder.read(served["folder"])
        is_free = self.config.where is None and not self.config.extra_packages
        self._is_here = framework.plays_here(self._own) if is_free else self.config.where == "here"
        if self._is_here and not framework.has_modules(self._own):
            packages = " ".join(f"'{package}'" for package in framework.packages)
            raise DependencyNotInstalled(
                f"{framework.env_id} needs {framework.module}: pip install {packages}; or leave out `where`, "
                "and they are installed apart."
            )
        self._lists_samples = tasks is None and hasattr(load(framework.name), "samples")

    @property
    def tasks(self) -> TaskSource | None:  # type: ignore[override]
        """The given tasks; else the framework's samples, each once, or seeds if it makes episodes without end."""
        if self._lists_samples:
            self._lists_samples = False
            own = {name: value for name, value in self._own.items() if name not in self.framework.engines}
            framework = self.framework if self._is_here else self.framework.with_packages(self.config.extra_packages)
            listed = samples_of(framework, own, is_here=self._is_here, seconds=self.config.step_seconds)
            if (samples := wait(listed)) is not None:
                self._tasks = RowTasks.from_rows([self.row([], **sample) for sample in samples], self.task_kind())
        return self._tasks

    @tasks.setter
    def tasks(self, source: TaskSource | None) -> None:
        self._tasks = source

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw a seed."""
        return self.row([], seed=int(rng.integers(2**31)))

    def setup(self, task: ForeignTask) -> Table:
        """Make the framework's environment; its first turn is the opening."""
        unknown = next((name for name in task.arguments if name not in self._own), None)
        if unknown is not None:
            raise ValueError(f"The row's argument {unknown!r} is unknown.{did_you_mean(unknown, self._own)}")
        row = task.model_extra or {}
        of_row = {name: value for name, value in row.items() if name in self._own}
        read: Any = getattr(load(self.framework.name), "of_row", lambda _: {})
        arguments = {**self._own, **of_row, **read(row), **task.arguments}
        if served := self._served(arguments):
            arguments["url"] = wait(self._address(served))
        play: Play | RemotePlay
        if self._is_here:
            play = Play.of(self.framework.name, arguments)
        else:
            play = RemotePlay(self._processes(arguments), arguments)
        seed = int(self.np_random.integers(2**31)) if task.seed is None else task.seed
        is_blocking = self._is_here and getattr(play.peer, "blocking", False)  # type: ignore[union-attr]
        return Table(play, seed, is_blocking)

    def opening(self, task: ForeignTask, state: Table) -> list[Item]:
        """Begin."""
        turn = self._begun(state)
        self._offer(state, turn)
        state.pending = reward_of(turn, 0)
        return items_of(turn, 0)

    def verify(self, task: ForeignTask, episode: Episode[Table]) -> Verdict:
        """The last step's reward; those before are the turns'. Some frameworks score an episode that was cut off."""
        table = episode.state
        if self.framework.scores_at_limit and not table.is_over:
            text = episode.answer if was_cut_off(episode.last_response) else ""
            turn = self._call(table, table.play.step, {"text": text, "calls": [], "over": True})
            table.is_over = True
            table.pending += reward_of(turn, 0)
            table.info = turn.get("info") or {}
        return Verdict(table.pending, table.info)

    def teardown(self, task: ForeignTask, episode: Episode[Table]) -> None:
        """Close the framework's environment."""
        self._call(episode.state, lambda _: episode.state.play.close(), None)

    def _advance(self, episode: Episode[Table], items: list[Item], response: dict[str, Any]) -> tuple[bool, bool]:
        table = episode.state
        calls = [item for item in items if item.get("type") == "function_call"]
        if was_cut_off(response) or has_only_reasoning(items) or (calls and not table.tools):
            return super()._advance(episode, items, response)
        self.phase = "tool" if calls else "respond"
        refused = beyond_limits(calls, table.tools)
        if refused:
            episode.items.extend(output_of(calls[index]["call_id"], text) for index, (text, _) in refused.items())
            episode.tool_errors += len(refused)
            calls = [call for index, call in enumerate(calls) if index not in refused]
            if not calls:
                return False, episode.turn >= self.max_turns
        action = {"text": episode.answer, "calls": [call_of(call) for call in calls]}
        turn = self._call(table, table.play.step, action)
        self._offer(table, turn)
        said = items_of(turn, 0)
        answered = {item.get("call_id") for item in said}
        episode.items.extend(output_of(call["call_id"], "") for call in calls if call["call_id"] not in answered)
        reward, table.pending = reward_of(turn, 0) + table.pending, 0.0
        table.info = turn.get("info") or {}
        terminated, truncated = bool(turn.get("terminated")), bool(turn.get("truncated"))
        table.is_over = terminated or truncated
        if not terminated and episode.turn >= self.max_turns:
            truncated = True
        if terminated or truncated:
            table.pending = reward
        else:
            episode.step_reward = reward
        if not terminated or calls:
            episode.items.extend(said)
        self.phase = "env"
        return terminated, truncated and not terminated

    # -- the framework's turns -----------------------------------------------------------------------------------------

    def _begun(self, table: Table) -> dict[str, Any]:
        """The framework's first turn."""
        turn: dict[str, Any] = self._call(table, table.play.reset, table.seed)
        if turn.get("terminated") or turn.get("truncated"):
            raise PeerFailed("The episode was over before the model's first turn.")
        return turn

    def _offer(self, table: Table, turn: dict[str, Any]) -> None:
        """Offer the model the tools that a turn brings."""
        if (tools := turn.get("tools")) and self.episode is not None:
            self.episode.request = {**self.episode.request, "tools": checked_tools(tools)}
            table.tools = {tool["name"] for tool in tools}

    def _call(self, table: Table, function: Any, argument: Any) -> Any:
        try:
            if table.is_blocking:
                turn = wait(asyncio.to_thread(function, argument))
            else:
                turn = function(argument)
            if not isinstance(turn, dict) and inspect.isawaitable(turn):
                turn = wait(_in_time(turn, self.config.step_seconds) if self._is_here else turn)
        except SystemExit as error:
            raise PeerFailed(f"The framework's code ended its process with {error.code!r}.") from error
        if not isinstance(turn, dict) and turn is not None:
            raise PeerFailed(f"The framework returned a {type(turn).__name__}, not a turn.")
        return turn

    def _processes(self, arguments: dict[str, Any]) -> PeerProcess:
        framework = self.framework.with_arguments(arguments).with_packages(self.config.extra_packages)

        async def make() -> PeerProcess:
            python = await asyncio.to_thread(python_of, framework)
            return PeerProcess(framework.name, python, self.config.step_seconds)

        key = ("theirs", framework.name, framework.installed_packages, self.config.step_seconds)
        found: PeerProcess = wait(self.shared(key, make))
        return found

    def _served(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        served: dict[str, Any] | None = getattr(load(self.framework.name), "served", lambda _: None)(arguments)
        return served

    async def _address(self, served: dict[str, Any]) -> str:
        """Return the address of a folder's server, which all environments of this event loop share."""
        digest = hashlib.sha256(dumps(served)).hexdigest()  # the variables may have secrets
        key = ("theirs", self.framework.name, served["folder"], digest)
        server: ServedFolder = await self.shared(key, lambda: ServedFolder(self.framework, **served))
        return await server.url()


async def _in_time(turn: Awaitable[Any], seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds) as limit:
            return await turn
    except TimeoutError:
        if not limit.expired():  # it is the framework's own
            raise
        raise DeadlinePassed(f"The framework's turn took longer than {seconds:g} s.") from None


def reward_of(turn: dict[str, Any], seat: int) -> float:
    """Return what a turn pays a seat.

    Raises:
        PeerFailed: If it is not a finite number.
    """
    reward = turn.get("reward", 0.0)
    if isinstance(reward, list):
        reward = reward[seat] if seat < len(reward) else 0.0
    if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
        raise PeerFailed(f"The framework's reward is {str(reward)[:100]}, not a finite number.")
    return reward


def items_of(turn: dict[str, Any], seat: int) -> list[Item]:
    """Return what a turn shows a seat.

    Raises:
        PeerFailed: If it is too long.
    """
    said, seats = turn.get("say", ""), turn.get("seat")
    if isinstance(seats, list):
        said = said[seats.index(seat)]
    if (len(said) if isinstance(said, str) else characters(said)) > MOST_CHARACTERS:
        raise PeerFailed(f"The framework's observation has more than {MOST_CHARACTERS:,} characters.")
    if isinstance(said, str):
        return [{"type": "message", "role": "user", "content": said}] if said else []
    return [item if "type" in item else {"type": "message", **item} for item in said]


def output_of(call_id: str, text: str) -> Item:
    """Return the output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def call_of(item: Item) -> dict[str, Any]:
    """Return a call as the room takes it."""
    try:
        arguments = loads(item["arguments"].encode())
    except ValueError:
        arguments = None
    usable = arguments if isinstance(arguments, dict) else item["arguments"]
    return {"call_id": item["call_id"], "name": item["name"], "arguments": usable}


def checked_tools(tools: Any) -> list[dict[str, Any]]:
    """Return a framework's tools.

    Raises:
        PeerFailed: If one is not a function schema.
    """
    for tool in tools if isinstance(tools, list) else [tools]:
        is_named = isinstance(tool, dict) and isinstance(tool.get("name"), str) and tool["name"]
        if not is_named or not isinstance(tool.get("parameters", {}), dict):
            raise PeerFailed(f"The framework's tool is not a function schema: {str(tool)[:200]}.")
    return list(tools)
