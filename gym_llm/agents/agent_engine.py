"""AgentEngine: an engine whose answers come from an agent, which is a program or a function.

The environment and its agent take turns:

1. `respond` starts the agent of a new episode and waits until it acts. Its tool calls become the `function_call` items
    of
   one response, and its submission becomes a message.
2. The next `respond` brings the results for which the agent waits.
3. Meanwhile the agent asks the model through a session (`agents/capture/`) that keeps every token. The environment does
   not see these calls.
4. The end of the episode (`end_episode`) ends the agent.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from gym_llm.agents.agent_episode import AGENT_SECONDS, Addresses, Agent
from gym_llm.agents.agent_program import Program
from gym_llm.agents.agent_run import AgentRun
from gym_llm.agents.agent_specs import AgentIn, FunctionSpec, agent_name, check_agent_in, parse_agent_spec
from gym_llm.agents.capture import CaptureSession
from gym_llm.agents.capture.capture_server import CaptureServer
from gym_llm.agents.machine_agent import MachineAgent
from gym_llm.agents.model import EpisodeModel
from gym_llm.agents.tool_server import ToolServer
from gym_llm.concurrency import finish
from gym_llm.core.open_machine import OPEN_MACHINE
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.engines.parsing_engine import ParsingEngine
from gym_llm.engines.specs import make_engine
from gym_llm.engines.weights import UpdateMode, Weights, update_options
from gym_llm.errors import EngineError
from gym_llm.sandbox.machines.machine import BubblewrapMachine
from gym_llm.sandbox.machines.machine_place import MachinePlace
from gym_llm.sandbox.machines.machine_pool import Machines
from gym_llm.sandbox.machines.rootfs import HOST
from gym_llm.tokens.parsers import Parser
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.limits import check_seconds
from gym_llm.utils.secrets import add_secrets, redacted_logger

_KEY = secrets.token_hex(16)
"""A part of every key that this process makes; the process writes it as `***`."""

_END_SECONDS = 30.0
_MOST_AGENTS = 1 << 20  # at once: as many as there are episodes
logger = redacted_logger(__name__)
_SAMPLING = ("temperature", "top_p", "max_output_tokens", "chat_template_kwargs")
"""Sampling fields of a task's request that also apply to its agent's calls, unless the agent sets them."""


class AgentEngine(Engine):
    """Lets an agent play each episode, with the model of another engine.

    Args:
        agent: A function of an `AgentEpisode`, async or not. Or a text: `"module:function"`, `"file.py:function"` or a
            command, such as `"python my_agent.py"` (see `gym_llm.agents.agent_program`).
        engine: The model's engine, started and closed with this one; or a spec.
        engine_options: The arguments of a spec.
        agent_timeout: Seconds that an agent may take for its episode, without the environment's own time.
        agent_in: `host`, or `machine` for a program that runs in the machine of its episode.
        agent_image: The image of machines for tasks without one: `host`, a folder, a tar or an image archive.
        sampling: Fields of a request (`temperature`, …) that replace the agent's in every call of the model.
        parsers: The parsers of the model's text; see `ParsingEngine`.
        started: Whether the caller starts and closes the engine.

    Raises:
        TypeError: If the agent is invalid, or the engine has no such option.
        ValueError: If an argument is out of range.

    Attributes:
        engine: The model's engine.
        name: The agent's name.
    """

    def __init__(
        self,
        *,
        agent: str | Agent,
        engine: str | Engine = "pocket",
        engine_options: Mapping[str, Any] | None = None,
        agent_timeout: float = AGENT_SECONDS,
        agent_in: AgentIn = "host",
        agent_image: str = HOST,
        sampling: Mapping[str, Any] | None = None,
        parsers: Sequence[str | Parser] = ("reasoning", "tool_calls"),
        started: bool = False,
    ) -> None:
        check_seconds("agent_timeout", agent_timeout)
        if isinstance(engine, Engine) and engine_options:
            raise ValueError("engine_options need an engine spec; this engine is made already.")
        self.engine = make_engine(engine, **(engine_options or {})) if isinstance(engine, str) else engine
        self.capabilities = self.engine.capabilities
        self.agent = parse_agent_spec(agent)
        self.name = agent_name(self.agent)
        check_agent_in(agent_in, self.agent)
        self.agent_in: AgentIn = agent_in
        self.agent_image = agent_image
        self.agent_timeout = agent_timeout
        self._inside: dict[str, MachineAgent] = {}  # by key
        self._sampling = dict(sampling or {})
        self._parsers = parsers
        self._started = started
        self._live: dict[str, AgentRun] = {}
        self._stack = AsyncExitStack()
        self._models: CaptureServer
        self._tools: ToolServer

    @property
    def model(self) -> str:  # type: ignore[override]
        """The model's name: who plays is the model, by way of the agent."""
        return self.engine.model

    async def start(self) -> None:
        """Start the model's engine, unless the caller does, and open the ports that agents ask.

        Raises:
            EngineUnavailable: If the engine cannot be started, or the agent cannot be found.
        """
        if isinstance(self.agent, FunctionSpec):
            self.agent.check()
        if isinstance(self.agent, Program):
            self.agent = await asyncio.to_thread(self.agent.resolved)  # a harness is installed here, if it is not yet
        add_secrets({_KEY})
        async with AsyncExitStack() as stack:
            if not self._started:
                await stack.enter_async_context(self.engine)
            self.capabilities = self.engine.capabilities  # which it may know better now
            self._parsing = ParsingEngine(self.engine, self._parsers) if self._parsers else self.engine
            self._models = await stack.enter_async_context(CaptureServer(capacity=_MOST_AGENTS))
            self._tools = await stack.enter_async_context(ToolServer())
            if self.agent_in == "machine":
                self._machines = Machines(images={self.agent_image: self.agent_image})
                stack.callback(self._machines.close)
            self._stack = stack.pop_all()

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Return the next action of the episode's agent; see `Engine.respond`.

        Args:
            request: An observation; one without any model output begins an episode.
            episode_id: The id of the episode, which is required.

        Raises:
            EngineError: If the agent fails or takes too long (`agent_run_error`, `agent_timeout`), or the model does.
            Exception: Any exception of an agent that is a function.
        """
        if not episode_id:
            raise EngineError("The episode_id is missing: an agent needs one in every call of respond.")
        live = self._live.get(episode_id)
        if live is not None and not _goes_on(request):
            await self.end_episode(episode_id, failed=True)
            live = None
        if live is None:
            inside, seconds = None, self.agent_timeout
            if isinstance(self.agent, Program) and self.agent_in == "machine":
                inside = MachineAgent(self.agent, self._open_place, (self._models, self._tools), seconds)
                seconds = await inside.open()
            live = self._live[episode_id] = self._begin(request, episode_id, inside, seconds)
            return await live.begin()
        return await live.go_on(request)

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """End the episode's agent; what the model has said for it. See `Engine.end_episode`."""
        live = self._live.pop(episode_id, None)
        if live is None:
            return None
        try:
            await finish(self._end(live, failed), _END_SECONDS)  # to its end, also where the run is being cancelled
        except TimeoutError:
            logger.error("An agent has not ended within %g seconds after its episode.", _END_SECONDS)
        await self.engine.end_episode(episode_id, rewards=rewards, failed=failed)
        return live.report(rewards)

    async def aclose(self) -> None:
        """End every agent, close the ports, and close the engine unless the caller does."""
        await asyncio.gather(*[self.end_episode(name, failed=True) for name in list(self._live)])
        await self._stack.aclose()

    @property
    def weight_version(self) -> int:  # type: ignore[override]
        """The version of the model's weights."""
        return self.engine.weight_version

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "wait", version: int | None = None) -> None:
        """The model's; see `WeightSync`."""
        await self._weights().update_weights(weights, **update_options(mode, version))

    async def sleep(self, level: int = 1) -> None:
        """The model's; see `WeightSync`."""
        await self._weights().sleep(level)

    async def wake_up(self) -> None:
        """The model's; see `WeightSync`."""
        await self._weights().wake_up()

    def _weights(self) -> Any:
        if not self.engine.capabilities.weights:
            raise EngineError(f"The weights of {self.engine.model}'s engine cannot be replaced.")
        return self.engine

    async def _end(self, live: AgentRun, at_once: bool) -> None:
        try:
            await live.end(at_once=at_once)
            if (inside := self._inside.pop(live.key, None)) is not None:
                await inside.close()
        finally:
            self._tools.close(live.key)
            self._models.close(live.session.id)

    async def _open_place(self, layers: Sequence[str]) -> MachinePlace:
        """Open the machine of the episode that asks, or one for its agent alone."""
        open_machine = OPEN_MACHINE.get()
        if open_machine is not None and (place := await open_machine(layers)) is not None:
            return place
        image = await self._machines.image(self.agent_image)
        machine = await BubblewrapMachine(image, layers=layers).start()
        return MachinePlace(machine, user=image.user)

    def _begin(self, request: Request, episode_id: str, inside: MachineAgent | None, seconds: float) -> AgentRun:
        key = f"gl-{_KEY}-{secrets.token_hex(12)}"
        model = EpisodeModel(self._parsing)
        defaults = {name: request[name] for name in _SAMPLING if name in request}  # type: ignore[literal-required]
        session = CaptureSession(model, id=key, episode_id=episode_id, sampling=self._sampling, defaults=defaults)
        url, tools_url = self._models.url, self._tools.url_of(key)
        addresses = Addresses(f"{url}/v1", url, tools_url, f"{tools_url}/mcp", key, self.model)
        live = AgentRun(inside or self.agent, request, model, session, addresses, seconds)
        if inside is not None:
            self._inside[key] = inside
        self._models.open(session)
        self._tools.open(key, live.episode)
        return live


def _goes_on(request: Request) -> bool:
    return any(
        item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")
        for item in request["input"]
    )
