"""AgentRun: an agent that plays an episode, and the rewards of its steps at the tokens that led to them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gym_llm.agents.agent_episode import Addresses, Agent, AgentEpisode, action_of, message
from gym_llm.agents.capture import CallGraph, CaptureSession, Sample
from gym_llm.agents.mailbox import AgentMailbox
from gym_llm.agents.model import EpisodeModel
from gym_llm.agents.run_agent import run_agent
from gym_llm.engines.engine import EpisodeReport
from gym_llm.engines.engine_response import empty_response
from gym_llm.errors import EngineError
from gym_llm.records.failures import reason
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.secrets import redacted_logger

GRACE_SECONDS = 3.0
"""Seconds that an agent has to end by itself when its episode is over."""
_CANCEL_SECONDS = 10.0
logger = redacted_logger(__name__)


class AgentRun:
    """Runs an agent next to its environment, one action at a time.

    If an agent has ended and the environment asks again, the agent is started again with the whole conversation in its
    request. So a program or function that answers one question need not handle conversations.

    Args:
        agent: The agent.
        request: The environment's first request.
        model: The model, for this episode.
        session: The session that captures the calls.
        addresses: The HTTP addresses for the agent.
        seconds: The agent's time limit for the episode.

    Attributes:
        key: The agent's key at the servers.
        session: The session that captures the calls.
        episode: The episode as the agent sees it.
    """

    def __init__(
        self,
        agent: Agent,
        request: Request,
        model: EpisodeModel,
        session: CaptureSession,
        addresses: Addresses,
        seconds: float,
    ) -> None:
        self.key = addresses.api_key
        self.session = session
        self._agent = agent
        self._model = model
        self._seconds = self._left = seconds
        self._folder: Path | None = None
        self._task: asyncio.Task[Any] | None = None
        self._calls_before = 0
        self._acted_after: list[Sample | None] = []
        self._mailbox = AgentMailbox(request, self._missing)
        self.episode = AgentEpisode(self._mailbox, session.call, lambda: model.unmade, addresses, self._make_folder)
        model.before_call = self.episode.before_call

    async def begin(self) -> ResponseDict:
        """Start the agent, and wait for what it does first; raises as `AgentEngine.respond`."""
        self._start()
        return await self._next()

    async def go_on(self, request: Request) -> ResponseDict:
        """Deliver the results of the last action, and wait for the next; raises as `AgentEngine.respond`."""
        assert self._task is not None
        self._mailbox.give(request)
        if self._task.done():
            self._result()  # which raises, should it have failed after its action
            self._start()
        return await self._next()

    async def end(self, *, at_once: bool) -> None:
        """End the agent, after a few seconds in which it may do so itself."""
        self._mailbox.end()
        # What it is told from now on has led to nothing that was rewarded.
        self.session.close()
        late = [call for call in self.session.calls if call.status == "asked"]
        task = self._task
        try:
            if task is not None:
                if not at_once:
                    await asyncio.wait({task}, timeout=GRACE_SECONDS)
                task.cancel()
                _, running = await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
                if running:
                    logger.error("An agent goes on though it was cancelled: it holds a slot no more, but it is there.")
        finally:
            for call in late:
                self.session.withdraw(call)
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def report(self, rewards: Sequence[float]) -> EpisodeReport:
        """Return the model's trajectory, with the rewards of the steps that it led to."""
        trajectory = self.session.trajectory()
        if trajectory and any(rewards[:-1]):
            add_rewards(trajectory, self.session.graph, list(zip(self._acted_after, rewards, strict=False)))
        places = self.session.graph.homes()
        agent = {
            "model_calls": self._model.calls,
            "branches": len(trajectory or ()),
            "calls": [[branch, call.start, call.start + len(call.log_probs)] for branch, call in places],
        }
        return EpisodeReport(trajectory, {"agent": agent})

    def _missing(self) -> int:
        names = {tool.get("name") for tool in self.episode.tools}
        return sum(call.get("name") in names for call in self._model.unmade)

    def _start(self) -> None:
        self.episode.has_submitted = False
        self._calls_before = self._model.calls
        self._task = asyncio.create_task(self._play())
        self._task.add_done_callback(_look_at)

    async def _play(self) -> Any:
        """Run the agent, and turn a SystemExit, which would end the event loop, into an EngineError."""
        try:
            return await run_agent(self._agent, self.episode)
        except SystemExit as error:
            if error.code in (None, 0):
                return None
            raise EngineError(f"The agent has raised {reason(error)}.", failure_kind="agent_run_error") from error

    async def _next(self) -> ResponseDict:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left) as limit:
                while True:
                    action = await self._action()
                    if action is not None:
                        return self._response(action)
                    self._start()  # it has answered something before, and ended without a word on this
        except TimeoutError:
            if not limit.expired():
                raise
            said = f" It wrote at last: {self.episode.said}" if self.episode.said else ""
            raise EngineError(
                f"The agent has taken longer than {self._seconds:g} seconds (agent_timeout).{said}",
                failure_kind="agent_timeout",
            ) from None
        finally:
            self._left = max(0.001, self._left - (time.monotonic() - began))

    async def _action(self) -> dict[str, Any] | None:
        """Return the agent's next action; None if it has ended and answered an earlier request, but not this one."""
        task = self._task
        assert task is not None
        acts = asyncio.ensure_future(self._mailbox.next_action())
        try:
            await asyncio.wait({task, acts}, return_when=asyncio.FIRST_COMPLETED)
            if not acts.done() and self._mailbox.has_action:
                await asyncio.wait({acts})
            if acts.done():
                action: dict[str, Any] = acts.result()
                self._check_model()
                return action
        finally:
            if not acts.done():
                acts.cancel()
                with suppress(asyncio.CancelledError):
                    await acts
        result = self._result()
        if isinstance(result, Overflow):
            return {**empty_response(self._model.model, result.reason)}
        self._check_model()
        if result is not None:
            return action_of(result)
        return None if self.episode.has_submitted else self._last_words()

    def _result(self) -> Any:
        """Return the agent's result, or raise its exception; if the model's engine was the cause, raise that error."""
        assert self._task is not None
        if self._task.cancelled():
            raise EngineError("The agent has cancelled itself.", failure_kind="agent_run_error")
        error = self._task.exception()
        if error is None:
            return self._task.result()
        if self._model.full is not None:
            return Overflow(self._model.full)
        if (failure := self._model.latest_failure) is not None and failure is not error:
            raise failure from error
        raise error

    def _check_model(self) -> None:
        if (failure := self._model.failure) is not None:
            raise failure

    def _last_words(self) -> dict[str, Any]:
        last = self._model.last if self._model.calls > self._calls_before else None
        if last is None:
            return {"output": [message("")]}
        said = [item for item in last["output"] if item.get("type", "message") == "message"]
        return action_of({**last, "output": said or [message("")]})

    def _response(self, action: dict[str, Any]) -> ResponseDict:
        samples = self.session.graph.samples
        latest = samples[-1] if samples else None
        self._acted_after.append(None if latest in self._acted_after else latest)
        return {
            "id": f"resp_{len(self._acted_after)}",
            "object": "response",
            "created_at": time.time(),
            "model": self._model.model,
            "status": "completed",
            "incomplete_details": None,
            **action,  # type: ignore[typeddict-item]
            "usage": self._model.take_usage(),
        }

    def _make_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="gym_llm_agent_"))
        return self._folder


def _look_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


class Overflow:
    """The result of an agent whose last call had no room left, in the context or a budget: the episode is truncated."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def add_rewards(
    trajectory: Sequence[dict[str, Any]], graph: CallGraph, steps: Sequence[tuple[Sample | None, float]]
) -> None:
    """Add a fourth list, `rewards`, to a trajectory's branches, as `gym_llm.wrappers.TokenIdTracking` describes it.

    A step's reward stands at the last id that was sampled before it, in the branch where that id counts.

    Args:
        trajectory: The graph's.
        graph: The episode's calls.
        steps: Of each step of the environment the latest sample before it, and the reward. One without a sample of its
            own has no place.
    """
    home = {id(sample): branch for branch, sample in graph.homes()}
    for branch in trajectory:
        branch["rewards"] = [0.0] * len(branch["input_ids"])
    for sample, reward in steps:
        if sample is not None and id(sample) in home:  # an answer that was not delivered counts nowhere
            place = sample.start + len(sample.log_probs) - 1
            trajectory[home[id(sample)]]["rewards"][place] = float(reward)
