"""A toolbox for tests of MCP, and its server on a real port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from gym_llm.protocols.http.http_server import listening
from gym_llm.protocols.mcp import Caller, Endpoint, McpError, ToolResult
from gym_llm.types import Item

PNG = "iVBORw0KGgo="


class Counting:
    """Counts; and fails, waits or shows a picture where it is told to."""

    def __init__(self, tools: int = 0) -> None:
        self.count = 0
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.cancelled = asyncio.Event()
        self.finished = asyncio.Event()
        self.more = tools

    async def instructions(self) -> str:
        return "Count."

    async def task(self) -> list[Item]:
        return [{"role": "system", "content": "Be quick."}, {"role": "user", "content": "Count to 3."}]

    async def list_tools(self) -> list[dict[str, Any]]:
        schema = {"type": "object", "properties": {"by": {"type": "integer"}}}
        add = {"type": "function", "name": "add", "description": "Add.", "parameters": schema, "strict": True}
        more = [{"type": "function", "name": f"tool_{number}", "parameters": None} for number in range(self.more)]
        return [add, {"type": "web_search"}, *more]

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        self.calls.append((name, arguments))
        if name == "break":
            raise KeyError("seeds")
        if name == "show":
            url = f"data:image/png;base64,{PNG}"
            return ToolResult([{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": url}])
        if name == "wait":
            try:
                await asyncio.sleep(arguments.get("seconds", 60))
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            self.finished.set()
            return ToolResult("waited")
        if name != "add":
            return ToolResult(f"There is no tool named {name!r}.", is_error=True)
        self.count += arguments.get("by", 1)
        return ToolResult(str(self.count), structured={"count": self.count})


class Counters:
    """A toolbox for each session; without one, all share a toolbox."""

    def __init__(self) -> None:
        self.of: dict[str | None, Counting] = {None: Counting()}
        self.ever = [self.of[None]]
        self.callers: list[Caller] = []

    async def toolbox(self, caller: Caller) -> Counting:
        self.callers.append(caller)
        if caller.session_id not in self.of:
            raise McpError("There is no such session.", status=404)
        return self.of[caller.session_id]

    async def open(self, caller: Caller, params: dict[str, Any]) -> str:
        name = f"session-{len(self.of)}"
        self.of[name] = Counting(params.get("tools", 0))
        self.ever.append(self.of[name])
        return name

    async def end(self, caller: Caller) -> None:
        del self.of[caller.session_id]


@asynccontextmanager
async def serving(counters: Counters, *, sessions: bool = True) -> AsyncGenerator[tuple[str, Endpoint], None]:
    more: dict[str, Any] = {"open_session": counters.open, "end_session": counters.end} if sessions else {}
    endpoint = Endpoint(counters.toolbox, **more)
    application = web.Application(client_max_size=1 << 25)
    application.router.add_route("*", "/mcp", endpoint.handle)
    async with listening(application, "127.0.0.1", 0) as port:
        try:
            yield f"http://127.0.0.1:{port}/mcp", endpoint
        finally:
            await endpoint.close()


class Wire:
    """A client that sends whatever it is told to."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http, self.url = http, url
        self.headers: dict[str, str] = {"Accept": "application/json, text/event-stream"}

    async def post(self, body: Any, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of the answer, or its text if it is none."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {
            "Content-Type": "application/json",
            **self.headers,
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        async with self.http.post(self.url, data=data, headers=sent) as answer:
            text = await answer.text()
            self.last = answer
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    async def ask(self, method: str, id: Any = 1, **params: Any) -> tuple[int, Any]:
        return await self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    async def call(self, name: str, id: Any = 1, **arguments: Any) -> Any:
        status, answer = await self.ask("tools/call", id, name=name, arguments=arguments)
        assert status == 200, answer
        return answer

    async def shake_hands(self, version: str = "2025-11-25", **params: Any) -> Any:
        asked = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        status, answer = await self.ask("initialize", 0, **asked, **params)
        assert status == 200, answer
        if "Mcp-Session-Id" in self.last.headers:
            self.headers["Mcp-Session-Id"] = self.last.headers["Mcp-Session-Id"]
        self.headers["MCP-Protocol-Version"] = answer["result"]["protocolVersion"]
        assert await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, "")
        return answer["result"]


def stateless(
    method: str, name: str | None = None, id: Any = 1, **params: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """A body and the headers of the revision without a handshake."""
    version = "2026-07-28"
    meta = {
        f"io.modelcontextprotocol/{key}": value
        for key, value in (("protocolVersion", version), ("clientCapabilities", {}))
    }
    named = {} if name is None else {"name": name}
    body = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**named, **params, "_meta": meta}}
    headers = {"mcp_protocol_version": version, "mcp_method": method, **({} if name is None else {"mcp_name": name})}
    return body, headers


Talk = Callable[[Wire, Counters], Awaitable[None]]


def talk(conversation: Talk, *, sessions: bool = True) -> None:
    async def main() -> None:
        counters = Counters()
        async with serving(counters, sessions=sessions) as (url, _), aiohttp.ClientSession() as http:
            await conversation(Wire(http, url), counters)

    asyncio.run(main())


def code(answer: tuple[int, Any]) -> tuple[int, int]:
    status, body = answer
    assert set(body) == {"jsonrpc", "id", "error"} and body["error"]["message"].endswith(".")
    return status, body["error"]["code"]
