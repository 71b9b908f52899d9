"""Tools of MCP servers: a row says which calls or which answer are right."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from typing import Any

ENV_ID = "gym_llm/MCP-v0"
PACKAGES = ("mcp==2.0.0",)
MODULE = "mcp"
FRAMEWORKS = ("mcp",)
APART = True
SCORES_AT_LIMIT = True
_MOST_PAGES = 64
_LAST_WORDS = 500
_STARTS = asyncio.Semaphore(4)
"""Servers that a child starts at once: a server of Python takes a second of CPU, and hundreds would all be late."""
_MODELS_FAULTS = (-32601, -32602)
"""JSON-RPC's codes of an unknown method and invalid parameters."""


class Peer:
    """The tools of an MCP server. A text without calls ends the episode.

    The reward is 1 if the expected calls were made in their order, among others, and the last line is the answer.

    Args:
        url: The address of a server over HTTP: `http://HOST:8000/mcp`.
        command: Else the command that starts a server; `python` is the one that has the package `mcp`.
        env: Environment variables of the command.
        headers: What each request over HTTP has besides, such as `Authorization`.
        expected_calls: The calls to make: objects with `name` and `arguments`.
        answer: The last line of the model's last text.
        seconds: How long the server may take for an answer, and for its start.
    """

    recording = False

    def __init__(
        self,
        url: str = "",
        command: list[str] | None = None,
        env: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        expected_calls: list[dict[str, Any]] | None = None,
        answer: str | None = None,
        seconds: float = 30.0,
    ) -> None:
        if bool(url) == bool(command):
            raise ValueError("Give either `url` or `command`.")
        self._url, self._command, self._env, self._headers = url, list(command or []), env, headers
        self._expected = None if expected_calls is None else [_key(each) for each in expected_calls]
        self._answer, self._seconds = answer, seconds
        self._made: list[str] = []
        self._names: dict[str, str] = {}
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._connection: asyncio.Task[None] | None = None
        self._has_other_tools = self._is_closed = False
        self._errors = _Errors()

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Connect, which starts a server of a command, and list the tools."""
        if self._expected is None and self._answer is None and not self.recording:
            raise ValueError("Give `expected_calls` or `answer` in the row's arguments.")
        async with _STARTS if self._command else contextlib.nullcontext():
            if self._is_closed:
                raise ConnectionError("The episode was closed before its server started.")
            self._connection = asyncio.create_task(self._connect())
            listed = asyncio.create_task(self._listed())
            await asyncio.wait([listed], timeout=self._seconds / 2)  # one that hangs does not hold up the others longer
        return await listed

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Make the calls one after the other, or score the text."""
        from _gym_llm_theirs_wires import outputs

        if not action["calls"]:
            return {"terminated": True, "reward": self._score(action["text"])}
        texts, results = [], []
        for call in action["calls"]:
            if not isinstance(call["arguments"], dict):
                texts.append("The arguments are not a JSON object.")
                continue
            name = self._names.get(call["name"], call["name"])
            result = await self._ask("call_tool", name, call["arguments"])
            results.append(result)
            texts.append(_text(result))
            if not result.get("isError"):
                self._made.append(_key({"name": name, "arguments": call["arguments"]}))
        turn = {"say": outputs(action, texts)}
        if self.recording:
            turn["observation"] = results[0]
        elif self._has_other_tools:
            turn["tools"] = (await self._listed())["tools"]
        return turn

    async def close(self) -> None:
        """Disconnect, which ends a server of a command."""
        self._is_closed = True
        if self._connection is not None:
            self._requests.put_nowait(None)
            await asyncio.wait([self._connection], timeout=self._seconds)
            self._connection.cancel()
            await asyncio.wait([self._connection], timeout=self._seconds)

    async def _listed(self) -> dict[str, Any]:
        from _gym_llm_theirs_wires import function_tools

        self._has_other_tools, listed, cursor = False, [], None
        for _ in range(_MOST_PAGES):
            page = await self._ask("list_tools", cursor=cursor)
            listed += page["tools"]
            if not (cursor := page.get("nextCursor")):
                break
        tools, self._names = function_tools(listed)
        return {"tools": tools, **({"observation": listed} if self.recording else {})}

    async def _ask(self, method: str, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Ask through the connection's task, in which the package wants all that it does."""
        from _gym_llm_theirs_wires import WireError

        assert self._connection is not None
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._requests.put_nowait((method, arguments, named, answer))
        either: list[asyncio.Future[Any]] = [answer, self._connection]
        await asyncio.wait(either, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        late = "does not answer" if not self._connection.done() else "cannot be reached, or has ended"
        said = self._errors.text({**(self._env or {}), **(self._headers or {})})
        raise WireError(f"The MCP server {late}.{said and f' It wrote at last: {said}'}")

    async def _connect(self) -> None:
        from mcp.client import Client
        from mcp.shared.exceptions import MCPError

        with contextlib.suppress(Exception):  # `_ask` says that the connection has ended; the text may have secrets
            async with (
                _transport(self._url, self._command, self._env, self._headers, self._errors) as transport,
                Client(transport, message_handler=self._hear, cache=None) as client,
            ):
                while (request := await self._requests.get()) is not None:
                    method, arguments, named, answer = request
                    try:
                        found = await getattr(client, method)(*arguments, **named)
                        answer.set_result(found.model_dump(by_alias=True, exclude_none=True, mode="json"))
                    except MCPError as error:
                        if error.error.code not in _MODELS_FAULTS:
                            raise
                        said = [{"type": "text", "text": error.error.message}]
                        answer.set_result({"content": said, "isError": True})

    async def _hear(self, message: Any) -> None:
        if "list_changed" in str(getattr(message, "method", "")):
            self._has_other_tools = True

    def _score(self, text: str) -> float:
        from _gym_llm_theirs_views import last_line

        made = iter(self._made)
        is_called = all(any(call == each for each in made) for call in self._expected or [])
        is_said = self._answer is None or last_line(text).strip().casefold() == self._answer.strip().casefold()
        return float(is_called and is_said)


class _Errors:
    """The end of what a server writes on its standard error, which has no limit."""

    def __init__(self) -> None:
        self._end = b""
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def opened(self) -> Any:
        """Yield a file for the server's standard error, which a thread reads."""
        reads, writes = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reads,), daemon=True)
        self._reader.start()
        with os.fdopen(writes, "w") as pipe:
            yield pipe

    def text(self, secrets: dict[str, str]) -> str:
        """Return its last lines on one line, without these values."""
        if self._reader is not None:
            self._reader.join(0.2)  # of a server that has ended the pipe is closed
        said = " ".join(self._end.decode(errors="replace").split())
        for secret in filter(None, secrets.values()):
            said = said.replace(secret, "***").replace(secret.rpartition(" ")[2] or secret, "***")
        return said[-_LAST_WORDS:]

    def _read(self, reads: int) -> None:
        with os.fdopen(reads, "rb", buffering=0) as pipe:
            while chunk := pipe.read(1 << 16):
                self._end = (self._end + chunk)[-8 * _LAST_WORDS :]


@contextlib.asynccontextmanager
async def _transport(url: str, command: list[str], env: Any, headers: Any, errors: _Errors) -> Any:
    """Yield a transport that ends where a message is longer than an answer may be."""
    import httpx2
    from _gym_llm_theirs_wires import MOST_BYTES, WireError
    from mcp.client import stdio
    from mcp.client.streamable_http import streamable_http_client

    class Lines(stdio.TextReceiveStream):  # type: ignore[misc]
        length = 0

        async def receive(self) -> Any:
            chunk = await super().receive()
            self.length = len(chunk) - chunk.rfind("\n") if "\n" in chunk else self.length + len(chunk)
            if self.length > MOST_BYTES:
                raise ConnectionError("The server's message is too long.")
            return chunk

    class Body(httpx2.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> Any:
            length = 0
            async for chunk in self._stream:
                if (length := length + len(chunk)) > MOST_BYTES:
                    raise WireError("The server's answer is too long.")
                yield chunk
                await asyncio.sleep(0)  # a stream that is never empty must not keep the other episodes waiting

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: Any) -> None:
        response.stream = Body(response.stream)

    if command:
        stdio.TextReceiveStream = Lines  # its reader has no limit of its own
        started = [sys.executable if command[0] == "python" else command[0], *command[1:]]
        parameters = stdio.StdioServerParameters(command=started[0], args=started[1:], env=env)
        with errors.opened() as pipe:
            yield stdio.stdio_client(parameters, errlog=pipe)
        return
    sent = {"Accept-Encoding": "identity", **(headers or {})}
    timeout = httpx2.Timeout(30.0, read=300.0)
    hooks = {"response": [bound]}
    async with httpx2.AsyncClient(headers=sent, follow_redirects=False, timeout=timeout, event_hooks=hooks) as client:
        yield streamable_http_client(url, http_client=client)


def _key(call: dict[str, Any]) -> str:
    return json.dumps([call["name"], call.get("arguments") or {}], sort_keys=True)


def _text(result: dict[str, Any]) -> str:
    """Return a result as the model reads it."""
    parts = result.get("content") or []
    if texts := [part["text"] if part.get("type") == "text" else f"[{part.get('type')}]" for part in parts]:
        return "\n".join(texts)
    return json.dumps(result.get("structuredContent") or {}, ensure_ascii=False)


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return one, where the arguments say what is right; else rows have to."""
    return None if arguments["expected_calls"] is None and arguments["answer"] is None else [{}]


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode: `MCP_SERVERS` names the folder of its server."""
    path = os.path.join(os.environ.get("MCP_SERVERS", "."), episode["env"])
    if not os.path.exists(path):
        raise FileNotFoundError(f"{episode['env']} in the folder that the variable MCP_SERVERS names")
    return {"command": ["python", path]}, None


def utter(action: Any) -> dict[str, Any]:
    """Return what the model says for a recorded action: a call."""
    return {"text": "", "calls": [{"call_id": "c", "name": action[0], "arguments": action[1]}]}


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the turns as the recorder wrote them: a server pays nothing, and ends nothing."""
    return {"observations": [turn.get("observation") for turn in turns], "rewards": [], "done": False}
