"""Sharing an engine over HTTP: the ranks of a trainer send their requests to the engine of the main process.

Requests and responses are JSON with token ids. For other clients, `gym_llm.serve` has a model endpoint. Processes of
the same Ray use `gym_llm.rollouts.ray.shared_engine`.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict
from typing import Any, Self

import aiohttp
from aiohttp import web

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.http_failures import failure_clause, kind_of
from gym_llm.engines.sockets import new_socket, raise_open_files_limit
from gym_llm.errors import EngineError, EngineUnavailable, UsageError
from gym_llm.protocols.http.http_server import HttpServer, json_response
from gym_llm.records.failures import reason
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.secrets import add_secrets

_BYTES = 1 << 30


class EngineServer(HttpServer):
    """Lets other processes ask a started engine, which the caller still owns. Lives on the engine's event loop.

    Only requests with the token are answered. It is made here: send it to the processes that may ask.

    Args:
        engine: Answers the requests.
        host: The address to listen on.

    Attributes:
        url: The address, `http://127.0.0.1:41231`, while it runs.
        token: The key of a `ServedEngine`.
    """

    def __init__(self, engine: Engine, *, host: str = "127.0.0.1") -> None:
        self.token = secrets.token_hex(32)
        super().__init__(host=host, token=self.token)
        self._engine = engine

    async def __aenter__(self) -> Self:
        """Open a port.

        Raises:
            EngineUnavailable: If the port cannot be opened.
        """
        raise_open_files_limit()
        try:
            return await super().__aenter__()
        except UsageError as error:
            raise EngineUnavailable(f"Other processes cannot be answered: {error}") from None

    def _add_routes(self, application: web.Application) -> None:
        application.add_routes([web.get("/engine", self._describe), web.post("/respond", self._respond)])

    def _most_bytes(self) -> int:
        return _BYTES

    async def _describe(self, _: web.Request) -> web.Response:
        return json_response({"model": self._engine.model, "capabilities": asdict(self._engine.capabilities)})

    async def _respond(self, http: web.Request) -> web.Response:
        asked = loads(await http.read())
        try:
            response = await self._engine.respond(asked["request"], episode_id=asked["episode_id"])
        except EngineError as error:
            return json_response({"error": str(error), "kind": error.failure_kind})
        except Exception as error:  # a bug of the engine fails the episode that met it
            return json_response({"error": reason(error), "kind": EngineError.failure_kind})
        return json_response({"response": response})


class ServedEngine(Engine):
    """Asks the engine of an `EngineServer`. Before it is started it can be pickled, to be used in another process.

    Args:
        url: The server's.
        token: The server's.
    """

    def __init__(self, url: str, token: str) -> None:
        add_secrets({token})
        self.model = ""
        self._url = url
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Connect.

        Raises:
            EngineUnavailable: If the server is not there, or does not know the token.
        """
        raise_open_files_limit()
        add_secrets({self._token})  # where it was unpickled
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=new_socket),
            headers={"Authorization": f"Bearer {self._token}"},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        try:
            described = await self._ask("GET", "/engine")
        except EngineError as error:
            await self.aclose()
            raise EngineUnavailable(str(error), failure_kind=error.failure_kind) from None
        self.model = described["model"]
        self.capabilities = Capabilities(**{**described["capabilities"], "weights": False})

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        answer = await self._ask("POST", "/respond", dumps({"request": request, "episode_id": episode_id}))
        if "error" in answer:
            raise EngineError(answer["error"], failure_kind=answer["kind"])
        response: ResponseDict = answer["response"]
        return response

    async def aclose(self) -> None:
        """Close the connections; the engine goes on."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        if self._session is None:
            raise EngineError("The engine's client is not started: use `async with engine`.")
        try:
            async with self._session.request(method, self._url + path, data=body, allow_redirects=False) as reply:
                payload = await reply.read()
        except (aiohttp.ClientError, OSError) as error:
            sentence = f"The main process's engine at {self._url} {failure_clause(error)}."
            raise EngineError(sentence, failure_kind=kind_of(error)) from None
        if reply.status != 200:
            raise EngineError(f"The main process's engine answered {reply.status}: {payload.decode(errors='replace')}")
        answer: dict[str, Any] = loads(payload)
        return answer
