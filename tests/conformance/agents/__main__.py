"""The command line: `python -m tests.conformance.agents --help`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from .apis import APIS
from .engine import LoggedEngine
from .engine_server import fetch_log, serving
from .scripts import AGENTS
from .servers import SERVERS, CaptureServer, started
from .suite import Log, Result, play_all, summary

EXAMPLES = """
examples:
  our own capture server, in this process, all agents in all dialects:
    python -m tests.conformance.agents
  OpenEnv's, in an environment that is made for it:
    python -m tests.conformance.agents --server openenv
  one agent in one dialect, with what is wrong:
    python -m tests.conformance.agents --agent compaction --dialect messages
  any capture server: serve the engine, start your server in front of it, name both:
    python -m tests.conformance.agents --engine 9000
    my-capture-server --upstream http://127.0.0.1:9000/v1 --port 9001
    python -m tests.conformance.agents --server openenv --url http://127.0.0.1:9001 --engine-url http://127.0.0.1:9000
"""


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="python -m tests.conformance.agents",
        description="Plays scripted agents against a server that captures what a model samples, and compares its "
        "trajectories with the engine's own log. Ends with 0 if all of them are exact. The last line is JSON. If the "
        "server asks for a token where sessions are opened, CAPTURE_TOKEN in the environment is sent.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--server", choices=SERVERS, default="gym_llm", help="whose sessions it has (default: gym_llm)")
    made.add_argument("--url", help="where it is, without /v1; without it, one is started")
    made.add_argument("--engine-url", help="with --url: where --engine serves, in front of which the server is")
    made.add_argument("--engine", type=int, metavar="PORT", help="only serve the engine at this port, until Ctrl-C")
    made.add_argument("--dialect", action="append", choices=APIS, help="only this one; may be repeated")
    made.add_argument("--agent", action="append", choices=AGENTS, metavar="NAME", help="only this one; may be repeated")
    made.add_argument("--list", action="store_true", help="list the agents")
    return made


async def play(arguments: argparse.Namespace) -> list[Result]:
    """Play what is asked for; a line for each agent."""
    agents = [AGENTS[name] for name in arguments.agent or AGENTS]
    apis = [APIS[name] for name in arguments.dialect or APIS]
    results: list[Result] = []
    async with AsyncExitStack() as stack:
        server: CaptureServer
        if arguments.url:
            server = SERVERS[arguments.server](arguments.url, os.environ.get("CAPTURE_TOKEN"))
            log = await stack.enter_async_context(_log_at(arguments.engine_url))
        else:
            engine = LoggedEngine()
            server = await stack.enter_async_context(started(arguments.server, engine))
            log = engine.log.fetch
        print(f"{'agent':<26}" + "".join(f"{api.name:>12}" for api in apis))
        async for result in play_all(server, agents, apis, log):
            results.append(result)
            if len(results) % len(apis) == 0:
                _print_row(results[-len(apis) :])
    return results


def _print_row(row: list[Result]) -> None:
    marks = [_mark(one) for one in row]
    print(f"{row[0].agent:<26}" + "".join(f"{mark:>12}" for mark in marks), flush=True)
    for one in row:
        for problem in [*one.outcome.problems, *one.outcome.branch_problems][:3]:
            print(f"    {one.api}: {problem[:300]}")


def _mark(result: Result) -> str:
    outcome = result.outcome
    if outcome.passed:
        return "ok"
    if outcome.exact:
        return "branches"
    return "error" if outcome.score == 1.0 or not outcome.tokens else f"{100 * outcome.score:.1f} %"


@asynccontextmanager
async def _log_at(url: str) -> AsyncGenerator[Log, None]:
    """The log of an engine in another process."""
    async with aiohttp.ClientSession() as http:
        yield lambda run: fetch_log(http, url.rstrip("/").removesuffix("/v1"), run)


async def serve(port: int) -> None:
    """Serve the engine until the process is ended."""
    engine = LoggedEngine()
    async with engine, serving(engine, port) as url:
        print(f"The engine is at {url}/v1, its model is {engine.model}, its log at {url}/log.", flush=True)
        await asyncio.Event().wait()


def main() -> int:
    """Run the command; its status."""
    made = parser()
    arguments = made.parse_args()
    if arguments.list:
        for agent in AGENTS.values():
            print(f"{agent.name:<26}{agent.about}")
        return 0
    if arguments.engine is not None:
        try:
            asyncio.run(serve(arguments.engine))
        except KeyboardInterrupt:
            pass
        return 0
    if bool(arguments.url) != bool(arguments.engine_url):
        made.error("--url and --engine-url belong together: the engine's log is what a trajectory is compared with.")
    results = asyncio.run(play(arguments))
    figures = summary(results)
    print(
        f"Of {figures['played']}: {figures['exact']} exact, {figures['branches_as_scripted']} with the branches "
        f"that the script says, {figures['passed']} both. Tokens right: {100 * figures['score']:.2f} %."
    )
    failed = [result.as_json() for result in results if not result.outcome.passed]
    print(json.dumps({"server": arguments.server, **figures, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
