"""Capture servers: how each opens a session and tells what it captured, and how the two that we know are started."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from gym_llm.agents.capture import CaptureServer as OurServer
from gym_llm.engines import make_engine

from .checks import Branch
from .engine import MODEL, OTHER_MODEL, LoggedEngine, OtherModel
from .engine_server import serving

HERE = Path(__file__).parent


class CaptureServer(ABC):
    """A server under test that opens sessions at `POST /sessions`, as OpenEnv's and ours do. For others, override.

    Args:
        url: Where it is, with or without `/v1`.
        token: What it asks for where sessions are opened and read; None for nothing.

    Attributes:
        url: Without `/v1`.
        tells_branches: Whether what it captured is in branches, so that they can be counted.
    """

    tells_branches = True

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @abstractmethod
    async def trajectory(self, http: aiohttp.ClientSession, key: str) -> list[Branch]:
        """What was captured in a session."""

    async def open(self, http: aiohttp.ClientSession) -> str:
        """Open a session; its id, which is the agent's API key."""
        async with http.post(f"{self.url}/sessions", json={}, headers=self._headers) as answer:
            answer.raise_for_status()
            key: str = (await answer.json())["session_id"]
            return key

    async def close(self, http: aiohttp.ClientSession, key: str) -> None:
        """End a session."""
        async with http.delete(f"{self.url}/sessions/{key}", headers=self._headers) as answer:
            answer.raise_for_status()

    async def _get(self, http: aiohttp.ClientSession, path: str, **query: str) -> Any:
        async with http.get(f"{self.url}/sessions/{path}", params=query, headers=self._headers) as answer:
            if answer.status != 200:
                raise RuntimeError(f"GET /sessions/{path} is {answer.status}: {(await answer.text())[:300]}")
            return await answer.json()


class GymLLM(CaptureServer):
    """Ours: `gym-llm capture`. With the engine in its process that goes on from the ids that were sampled."""

    async def trajectory(self, http: aiohttp.ClientSession, key: str) -> list[Branch]:
        branches: list[Branch] | None = (await self._get(http, f"{key}/trajectory"))["trajectory"]
        return branches or []


class OpenEnv(CaptureServer):
    """OpenEnv's: `openenv.core.harness.capture`, 0.10.

    Its rollout has a sequence for each path from root to leaf, so that what two paths share has mask 1 in both. Retries
    that led nowhere are asked for (`include_discarded`), and all of its roles count, as its documentation says that
    sequences are labelled and not filtered.
    """

    async def trajectory(self, http: aiohttp.ClientSession, key: str) -> list[Branch]:
        rollout = await self._get(http, f"{key}/rollout", include_discarded="true")
        return [
            Branch(input_ids=row["input_ids"], loss_mask=row["loss_mask"], logprobs=row["logprobs"])
            for row in rollout["sequences"]
        ]


class OpenEnvEntries(CaptureServer):
    """OpenEnv's, as its harness sessions hand it to TRL: one entry for each call, so that nothing is there twice.

    Calls that it takes for discarded or auxiliary are not among them, and there are no branches to count.
    """

    tells_branches = False

    async def trajectory(self, http: aiohttp.ClientSession, key: str) -> list[Branch]:
        entries = (await self._get(http, f"{key}/trace_entries"))["entries"]
        return [
            Branch(
                input_ids=entry["prompt_token_ids"] + entry["completion_token_ids"],
                loss_mask=entry["loss_mask"],
                logprobs=[0.0] * len(entry["prompt_token_ids"]) + entry["per_token_logps"],
            )
            for entry in entries
        ]


SERVERS: dict[str, type[CaptureServer]] = {
    "gym_llm": GymLLM,
    "gym_llm-http": GymLLM,
    "openenv": OpenEnv,
    "openenv-entries": OpenEnvEntries,
}


@asynccontextmanager
async def started(kind: str, engine: LoggedEngine) -> AsyncGenerator[CaptureServer, None]:
    """A server of ours in this process, or OpenEnv's in an environment of its own, in front of an engine.

    Ours may ask the engine directly, or over HTTP (`gym_llm-http`), which is how OpenEnv's does.
    """
    if kind == "gym_llm":
        async with OurServer(engine, others={OTHER_MODEL: OtherModel(engine)}) as ours:
            yield GymLLM(ours.url)
    elif kind == "gym_llm-http":
        async with engine, serving(engine) as engine_url:
            model, other = (make_engine(f"{engine_url}/v1", model=name) for name in (MODEL, OTHER_MODEL))
            async with OurServer(model, others={OTHER_MODEL: other}) as ours:
                yield GymLLM(ours.url)
    else:
        async with engine, serving(engine) as engine_url, _openenv(engine_url) as url:
            yield SERVERS[kind](url)


@asynccontextmanager
async def _openenv(engine_url: str) -> AsyncGenerator[str, None]:
    command = [str(_peer_python("openenv")), "-P", str(HERE / "openenv_server.py"), engine_url]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(60):
            url = (await process.stdout.readline()).decode().strip()
        if not url:
            raise RuntimeError(f"OpenEnv's server does not start: {(await process.stderr.read()).decode()[-2000:]}")
        reading = asyncio.ensure_future(process.stderr.read())  # so that it never waits for somebody to read its log
        yield url
        reading.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _peer_python(name: str) -> Path:
    """`tests/peers.py` makes the environment; outside pytest its folder has to be importable first."""
    if "peers" not in sys.modules:
        sys.path.append(str(HERE.parents[1]))
    from peers import peer_python

    path: Path = peer_python(name)
    return path
