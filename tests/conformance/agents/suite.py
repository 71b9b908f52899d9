"""Playing the agents: each in a session of its own, then its trajectory beside the engine's log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from .apis import API
from .checks import ANY, Outcome, check
from .engine import Call
from .play import Play, Refused
from .scripts import Agent
from .servers import CaptureServer

Log = Callable[[str], Awaitable[Sequence[Call]]]
"""The engine's calls of a run."""

_SETTLED = 0.5
"""How long a call that nobody waits for may still be worked at, in seconds: `wait` of the scripts is shorter."""


@dataclass
class Result:
    """What came of an agent in one API.

    Attributes:
        agent: Which agent.
        api: How it spoke.
        outcome: Over its sessions.
        seconds: How long it took.
    """

    agent: str
    api: str
    outcome: Outcome
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """For the last line of the command."""
        return {
            "agent": self.agent,
            "dialect": self.api,
            "passed": self.outcome.passed,
            "score": round(self.outcome.score, 6),
            "branches": self.outcome.branches,
            "problems": [*self.outcome.problems, *self.outcome.branch_problems],
            "seconds": round(self.seconds, 3),
        }


async def play_agent(http: aiohttp.ClientSession, server: CaptureServer, agent: Agent, api: API, log: Log) -> Result:
    """Play one agent, and check all of its sessions. What a server does not answer is a problem, not an exception."""
    start = time.perf_counter()
    outcome = Outcome()
    play = Play(http, server, api, await server.open(http))
    play.branches = agent.branches
    try:
        await agent.script(play)
    except (Refused, AssertionError, aiohttp.ClientError, TimeoutError, LookupError, ValueError, TypeError) as error:
        outcome.problems.append(f"{type(error).__name__}: {error}")
    for one in (play, *play.others):
        if one.abandoned:
            await asyncio.sleep(_SETTLED)
        try:
            trajectory = await server.trajectory(http, one.key)
        except (RuntimeError, aiohttp.ClientError, TimeoutError, LookupError, ValueError, TypeError) as error:
            outcome.problems.append(f"No trajectory: {error}")
            trajectory = []
        branches = one.branches if server.tells_branches else ANY
        calls = await log(one.run)
        outcome += check(calls, one.delivered, trajectory, branches, abandoned=one.abandoned)
        await server.close(http, one.key)
    return Result(agent.name, api.name, outcome, time.perf_counter() - start)


async def play_all(
    server: CaptureServer, agents: Iterable[Agent], apis: Sequence[API], log: Log
) -> AsyncIterator[Result]:
    """Play agents, one after the other, each in all of these APIs."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as http:
        for agent in agents:
            for api in apis:
                yield await play_agent(http, server, agent, api, log)


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The figures over all results."""
    total = sum((result.outcome for result in results), Outcome())
    tokens = max(total.tokens, 1)
    return {
        "agents": len({result.agent for result in results}),
        "dialects": sorted({result.api for result in results}),
        "played": len(results),
        "passed": sum(result.outcome.passed for result in results),
        "exact": sum(result.outcome.exact for result in results),
        "branches_as_scripted": sum(not result.outcome.branch_problems for result in results),
        "calls": total.calls,
        "tokens": total.tokens,
        "ids": round(total.ids / tokens, 6),
        "masks": round(total.masks / tokens, 6),
        "log_probs": round(total.log_probs / tokens, 6),
        "extra_tokens": total.extra,
        "score": round(total.score, 6),
        "by_dialect": {
            api: {
                "passed": sum(one.outcome.passed for one in of_api),
                "exact": sum(one.outcome.exact for one in of_api),
                "played": len(of_api),
                "score": round(sum((one.outcome for one in of_api), Outcome()).score, 6),
            }
            for api in sorted({result.api for result in results})
            if (of_api := [result for result in results if result.api == api])
        },
    }
