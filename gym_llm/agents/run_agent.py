"""Run an agent once; plain functions run in threads of their own."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from gym_llm.agents.agent_episode import Agent, AgentEpisode
from gym_llm.types import Item, Request, ResponseDict

T = TypeVar("T")


class SyncEpisode:
    """An `AgentEpisode` for a function that is not async: its methods wait for what they return."""

    def __init__(self, episode: AgentEpisode, loop: asyncio.AbstractEventLoop) -> None:
        self._episode = episode
        self._loop = loop

    def respond(self, request: Request) -> ResponseDict:
        """Ask the model; see `AgentEpisode.respond`."""
        return self._wait(self._episode.respond(request))

    def call_tool(self, name: str, arguments: dict[str, Any] | str) -> str:
        """Call a tool; see `AgentEpisode.call_tool`."""
        return self._wait(self._episode.call_tool(name, arguments))

    def submit(self, answer: str | Sequence[Item] | dict[str, Any]) -> str | None:
        """Answer the user; see `AgentEpisode.submit`."""
        return self._wait(self._episode.submit(answer))

    def step(self, answer: str | Sequence[Item] | dict[str, Any]) -> Request | None:
        """Answer; see `AgentEpisode.step`."""
        return self._wait(self._episode.step(answer))

    def __getattr__(self, name: str) -> Any:
        """Return the episode's attribute: `request`, `base_url`, …."""
        return getattr(self._episode, name)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def in_thread(agent: Callable[[Any], T], episode: AgentEpisode) -> T:
    """Run an agent that blocks. A cancelled one goes on until its next call of the episode, which raises."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)
        elif isinstance(error, Exception):
            outcome.set_exception(error)
        else:  # a task's SystemExit would end the event loop
            outcome.set_exception(RuntimeError(f"The agent has raised {type(error).__name__}: {error}"))

    def work() -> None:
        result, error = None, None
        try:
            result = agent(SyncEpisode(episode, loop))
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=work, name="gym_llm agent", daemon=True).start()
    return await outcome


async def run_agent(agent: Agent, episode: AgentEpisode) -> Any:
    """Let an agent play; return its result.

    Raises:
        Exception: Any exception of the agent.
    """
    if _is_async(agent):
        return await agent(episode)
    result = await in_thread(agent, episode)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("The agent is a plain function that returns an awaitable: make it `async def`.")
    return result


def _is_async(agent: Agent) -> bool:
    while isinstance(agent, functools.partial):
        agent = agent.func
    return inspect.iscoroutinefunction(agent) or inspect.iscoroutinefunction(getattr(agent, "__call__", None))  # noqa: B004
