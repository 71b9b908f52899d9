"""Play: what a scripted agent has in its hands: one session of a capture server, asked over plain HTTP."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp

from .apis import API
from .checks import Expected
from .engine import MODEL, said
from .servers import CaptureServer
from .turns import ToolCall, Turn, result, user

TIMEOUT = aiohttp.ClientTimeout(total=60)


class Refused(Exception):
    """The server did not answer with 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"The server answered {status}: {text[:500]}")
        self.status = status


class Play:
    """One session, and what happened in it.

    Attributes:
        api: Which API is spoken.
        run: The name under which the engine's log has this session's calls; it is in every prompt.
        key: The session's id, which is the API key.
        branches: How many branches the trajectory should have, if the script says so itself.
        delivered: What the agent was told, as the log has it.
        abandoned: How many calls the agent did not wait for.
        others: Further sessions that the script has opened.
    """

    def __init__(self, http: aiohttp.ClientSession, server: CaptureServer, api: API, key: str) -> None:
        self.http, self.server, self.api, self.key = http, server, api, key
        self.run = uuid.uuid4().hex[:8]
        self.branches: Expected = None
        self.delivered: list[list[Any]] = []
        self.abandoned = 0
        self.others: list[Play] = []

    async def another(self, branches: Expected) -> Play:
        """Open a further session, with an agent of its own."""
        other = Play(self.http, self.server, self.api, await self.server.open(self.http))
        other.branches = branches
        self.others.append(other)
        return other

    # -- what users and tools say --------------------------------------------------------------------------------------

    def directive(self, say: str = "", **fields: Any) -> str:
        """The text that makes the model say something; see `DirectedEngine`."""
        fields = {"say": say, **fields} if say else fields
        return f"[[run:{self.run} {json.dumps(fields, ensure_ascii=False)}]]"

    def user(self, say: str = "", *, before: str = "", parts: bool = False, **fields: Any) -> Turn:
        """A user's message after which the model says this."""
        return user(f"{before}{self.directive(say, **fields)}", parts=parts)

    def result(self, call: ToolCall, text: str, say: str = "", **fields: Any) -> Turn:
        """A tool's result; with `say` or fields, one after which the model says this."""
        directed = say or fields
        return result(call, f"{text} {self.directive(say, **fields)}" if directed else text)

    def about(self, text: str) -> str:
        """A text that says whose session this is, where no directive does."""
        return f"{text} (run:{self.run})"

    # -- asking --------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        turns: Sequence[Turn],
        *,
        tools: Sequence[dict[str, Any]] = (),
        stream: bool = False,
        model: str = MODEL,
        key: str | None = None,
        **options: Any,
    ) -> Turn:
        """Ask for the model's next turn.

        Raises:
            Refused: If the server does not answer it.
        """
        async with self._post(turns, tools, {**options, "model": model, "stream": stream}, key) as answer:
            if answer.status != 200:
                raise Refused(answer.status, await answer.text())
            if stream:
                text = (await answer.read()).decode()
                turn = self.api.assemble(events(text))
            else:
                turn = self.api.read(await answer.json())
        self.delivered.append(said(turn.reasoning, turn.text, [(call.name, call.arguments) for call in turn.calls]))
        return turn

    async def talk(self, turns: list[Turn], *following: Turn, **options: Any) -> Turn:
        """Append what is said next and what the model answers to the turns; the answer."""
        turns += following
        turns.append(await self.ask(turns, **options))
        return turns[-1]

    async def abandon(
        self,
        turns: Sequence[Turn],
        *,
        after: float = 10.0,
        tools: Sequence[dict[str, Any]] = (),
        stream: bool = False,
        **options: Any,
    ) -> None:
        """Ask, and close the connection after so many seconds, or, of a stream, after its first bytes."""
        self.abandoned += 1
        try:
            async with asyncio.timeout(after):
                fields = {**options, "model": MODEL, "stream": stream}
                async with self._post(turns, tools, fields, None) as answer:
                    if stream:
                        await answer.content.readany()
                        answer.close()
                    else:
                        await answer.read()
        except TimeoutError:
            pass

    async def raw(self, path: str, body: bytes, *, key: str | None = None) -> int:
        """Send any bytes; the status."""
        headers = {**self.api.headers(key or self.key), "Content-Type": "application/json"}
        async with self.http.post(self.server.url + path, data=body, headers=headers, timeout=TIMEOUT) as answer:
            await answer.read()
            return answer.status

    def _post(
        self, turns: Sequence[Turn], tools: Sequence[dict[str, Any]], options: dict[str, Any], key: str | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        body = self.api.body(turns, tools, options)
        headers = self.api.headers(key or self.key)
        return self.http.post(self.server.url + self.api.path, json=body, headers=headers, timeout=TIMEOUT)


def events(text: str) -> Iterator[tuple[str, Any]]:
    """The events of a stream: name and data."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        name, data = "", []
        for line in block.split("\n"):
            field, _, value = line.partition(":")
            if field == "event":
                name = value.strip()
            elif field == "data":
                data.append(value.removeprefix(" "))
        written = "\n".join(data)
        if not written or written == "[DONE]":
            continue
        event = json.loads(written)
        yield event.get("type") or name, event
