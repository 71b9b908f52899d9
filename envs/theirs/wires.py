"""Wires: HTTP and WebSockets to another framework's server, which may be hostile: each answer is bounded.

A redirect is refused, and nothing is decompressed. Errors name the host and the path, but neither headers nor queries:
those may have secrets. Time is bounded by who awaits: see `ForeignEnv`'s `step_seconds`.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote, urlsplit

MOST_BYTES = 1 << 24
"""How long an answer may be."""
MOST_TOOLS = 1_024
"""How many tools a server may have."""
_MOST_SECONDS = 600.0
_CONNECT_SECONDS = 10.0
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_LINES = re.compile(r"\r\n|\r|\n")


class WireError(ConnectionError):
    """Raised when a server cannot be reached, refuses, or answers something else than its protocol says."""


class Wire:
    """A connection of one episode to one server: its cookies are the episode's own.

    Args:
        url: The server's address: `http://HOST:8000`, or `http+unix://PATH` with `%2F` for `/`.
        headers: What each request has besides.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https", "http+unix") or not parts.hostname:
            raise ValueError("The argument `url` is not an address such as http://HOST:8000.")
        self._path = unquote(parts.netloc) if parts.scheme == "http+unix" else None
        self._base, self._host = (url.rstrip("/"), parts.hostname) if self._path is None else ("http://unix", "unix")
        self._headers = {"Accept-Encoding": "identity", **(headers or {})}
        self._secrets = [*(headers or {}).values(), parts.password or "", parts.query]
        self._session: Any = None

    async def ask(self, path: str, body: Any = None) -> tuple[int, str]:
        """GET a path, or POST a JSON body to it; return the status and the text.

        Raises:
            WireError: If the server fails, redirects, or answers too much.
        """
        method = "GET" if body is None else "POST"
        try:
            async with self._open().request(method, self._base + path, json=body) as response:
                found = bytearray()
                async for chunk in response.content.iter_chunked(1 << 16):
                    found += chunk
                    if len(found) > MOST_BYTES:
                        raise WireError(f"{self._host}{path} answers more than {MOST_BYTES:,} bytes.")
                return response.status, found.decode("utf-8", "replace")
        except _failures() as error:
            raise self._failed(path, error) from None

    async def value(self, path: str, body: Any = None) -> Any:
        """Return the JSON value of an answer; None if the server does not know the path.

        Raises:
            WireError: If the answer is another failure, or is not JSON.
        """
        status, text = await self.ask(path, body)
        if status == 404:
            return None
        if status != 200:
            raise WireError(f"{self._host}{path} answers {status}: {self.clean(text)}")
        return self._json(path, text)

    async def events(self, path: str, body: Any) -> dict[str, str]:
        """POST, and return the data of the answer's server-sent events, joined by their names.

        Raises:
            WireError: If the answer is a failure, has an event `error`, or none of the name `end`.
        """
        status, text = await self.ask(path, body)
        found, name = dict[str, str](), ""
        for line in _LINES.split(text):
            field, _, value = line.partition(":")
            if field == "event":
                name = value.strip()
            elif field == "data":
                found[name] = found.get(name, "") + value.removeprefix(" ")
        if status != 200 or "error" in found or "end" not in found:
            raise WireError(f"{self._host}{path} answers {status}: {self.clean(found.get('error') or text)}")
        return found

    async def socket(self, path: str) -> Socket:
        """Open a WebSocket."""
        try:
            address = "ws" + self._base.removeprefix("http") + path
            return Socket(self, path, await self._open().ws_connect(address, max_msg_size=MOST_BYTES, compress=0))
        except _failures() as error:
            raise self._failed(path, error) from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def clean(self, text: Any) -> str:
        """Shorten a server's text for an error, without what this client has sent in headers."""
        said = str(text)[:2_000]
        for secret in filter(None, self._secrets):
            said = said.replace(secret, "***").replace(secret.rpartition(" ")[2] or secret, "***")
        return said[:500]

    def _json(self, path: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise WireError(f"{self._host}{path} does not answer JSON: {self.clean(text)}") from None

    def _failed(self, path: str, error: BaseException) -> WireError:
        why = f"status {error.status}" if hasattr(error, "status") else type(error).__name__  # its text has the URL
        return WireError(f"{self._host}{path} cannot be asked: {why}.")

    def _open(self) -> Any:
        if self._session is None:
            import aiohttp

            async def refuse(_: Any, __: Any, ___: Any) -> None:
                raise WireError(f"{self._host} redirects: give its final address.")

            trace = aiohttp.TraceConfig()
            trace.on_request_redirect.append(refuse)
            connector = None if self._path is None else aiohttp.UnixConnector(self._path)
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                cookie_jar=aiohttp.CookieJar(unsafe=True),
                timeout=aiohttp.ClientTimeout(total=_MOST_SECONDS, sock_connect=_CONNECT_SECONDS),
                auto_decompress=False,
                trace_configs=[trace],
            )
        return self._session


class Socket:
    """A WebSocket with one JSON answer for each JSON message."""

    def __init__(self, wire: Wire, path: str, socket: Any) -> None:
        self._wire, self._path, self._socket = wire, path, socket

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return its answer.

        Raises:
            WireError: If the connection ends, or the answer is not a JSON object.
        """
        try:
            await self._socket.send_json(message)
            found = await self._socket.receive()
        except _failures() as error:
            raise self._wire._failed(self._path, error) from None
        if not isinstance(found.data, str):
            raise WireError(f"The server closed the connection ({self._socket.close_code or found.type.name}).")
        answer = self._wire._json(self._path, found.data)
        if not isinstance(answer, dict):
            raise WireError("The server's answer is not a JSON object.")
        return answer


def _failures() -> tuple[type[BaseException], ...]:
    """What aiohttp raises; `WireError` is not among them."""
    import aiohttp

    return (aiohttp.ClientError, TimeoutError, UnicodeError)


def number(reward: Any) -> float:
    """Return a server's reward; None is 0, and true is 1.

    Raises:
        WireError: If it is not a number.
    """
    if reward is None:
        return 0.0
    if not isinstance(reward, (int, float)):
        raise WireError(f"The server's reward is a {type(reward).__name__}, not a number.")
    return float(reward) if isinstance(reward, bool) else reward


def function_tools(listed: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a server's tools as a request has them, and the server's name of each.

    The server's names may have other characters than a function's `[A-Za-z0-9_-]`, and more than 64.

    >>> tools, names = function_tools([{"name": "a.b", "inputSchema": {}}, {"name": "a/b"}])
    >>> names
    {'a_b': 'a.b', 'a_b_2': 'a/b'}
    """
    tools, names = [], dict[str, str]()
    if not isinstance(listed, list) or len(listed) > MOST_TOOLS:
        raise WireError(f"The server's tools are not a list of at most {MOST_TOOLS:,}.")
    for tool in listed:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or not tool["name"]:
            raise WireError("A tool of the server has no name.")
        schema = tool.get("inputSchema") or tool.get("input_schema") or {}
        if not isinstance(schema, dict):
            raise WireError("The schema of a server's tool is not an object.")
        plain = name = _NOT_IN_NAMES.sub("_", tool["name"])[:_LONGEST_NAME]
        number = 1
        while name in names:
            number += 1
            name = f"{plain[: _LONGEST_NAME - 5]}_{number}"
        names[name] = tool["name"]
        parameters = {"type": "object", "properties": {}, **schema}
        described = {"name": name, "description": str(tool.get("description") or ""), "parameters": parameters}
        tools.append({"type": "function", **described, "strict": False})
    return tools, names


def outputs(action: dict[str, Any], texts: list[str]) -> list[dict[str, Any]]:
    """Return the items that answer an action's calls, or its text."""
    calls = action["calls"]
    if not calls:
        return [{"role": "user", "content": text} for text in texts if text]
    return [
        {"type": "function_call_output", "call_id": call["call_id"], "output": text}
        for call, text in zip(calls, texts, strict=True)
    ]
