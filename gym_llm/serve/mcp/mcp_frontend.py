"""McpFrontend: the addresses of MCP, and whose session a request is for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiohttp import web

from gym_llm.protocols.http.access import AccessDenied
from gym_llm.protocols.http.bodies import BodyRefused, read_value
from gym_llm.protocols.http.http_server import json_response
from gym_llm.protocols.mcp import Caller, Endpoint, McpError, Toolbox
from gym_llm.protocols.mcp.endpoint import MOST_BYTES
from gym_llm.protocols.mcp.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, error_of
from gym_llm.protocols.mcp.revisions import SESSION_HEADER, handshake_first
from gym_llm.serve.episode_session import BadRequest
from gym_llm.serve.frontend import NotJSON, Route
from gym_llm.serve.mcp.session_toolbox import EpisodeToolbox, UnopenedToolbox, failed
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import AtCapacity, UnknownSession

TOKEN_HEADER, SESSION_META = "X-NeMo-Gym-Session-Token", "gym-llm/session"
_TOOLBOX = "mcp"  # of a session's notes
_ERRORS = (BadRequest, NotJSON, UnknownSession, AtCapacity, AccessDenied)
_OPERATION: dict[str, Any] = {
    "summary": "A message of the Model Context Protocol (streamable HTTP).",
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": ["object", "array"]}}}},
    "responses": {
        "200": {"description": "The answer, as JSON or as a server-sent event."},
        "202": {"description": "A notification was taken."},
        "default": {"description": "A JSON-RPC error."},
    },
}


class McpFrontend:
    """MCP for one environment: `POST /mcp`.

    Args:
        env: The environment.
    """

    def __init__(self, env: ServedEnv) -> None:
        self._env = env
        self._endpoint = Endpoint(self._toolbox_of, open_session=self._open, end_session=self._end)

    def routes(self) -> Iterable[Route]:
        """Return the frontend's routes. OpenEnv's frontend claims OpenEnv's requests at `/mcp`."""
        yield Route("POST", "/mcp", self._endpoint.handle, _OPERATION, most_bytes=MOST_BYTES)
        yield Route("GET", "/mcp", self._endpoint.handle)
        yield Route("DELETE", "/mcp", self._endpoint.handle)

    async def session_of(self, http: web.Request) -> str | None:
        """The id that a request names, in a header or in its `_meta`."""
        if (session_id := _of_headers(http)) is not None or http.method != "POST":
            return session_id
        try:
            body = await read_value(http, most=MOST_BYTES)
            return _of_meta(body["params"]["_meta"])
        except (BodyRefused, LookupError, TypeError, ValueError, web.HTTPException):
            return None

    def refusal(self, error: BaseException, status: int) -> web.Response:
        """An error of the server as a JSON-RPC one."""
        known = isinstance(error, _ERRORS)
        text = str(error) if known else "The server has failed; its log says how."
        code = INVALID_REQUEST if known else INTERNAL_ERROR
        return json_response(error_of(None, McpError(text, code)), status)

    # -- sessions ----------------------------------------------------------------------------------------------------

    async def _toolbox_of(self, caller: Caller) -> Toolbox:
        session_id = _of_caller(caller)
        if session_id is not None:
            return self._toolbox(session_id)
        if caller.method == "server/discover":  # with a handshake, clients are given a session, and keep it
            raise handshake_first(caller.version)
        task = _task_of(caller.http)
        return UnopenedToolbox(self._env, lambda: self._new(task), task)

    def _toolbox(self, session_id: str) -> Toolbox:
        try:
            session = self._env.sessions.get(session_id)
        except UnknownSession as error:
            raise McpError(str(error), status=404) from None
        toolbox: Toolbox | None = session.notes.get(_TOOLBOX)  # another protocol may have put one of its own there
        if toolbox is None or session.env_id != self._env.env_id:
            raise McpError("The session is not of this environment.", status=404)
        return toolbox

    def _new(self, task: dict[str, Any]) -> tuple[str, EpisodeToolbox]:
        session = self._env.open()
        toolbox = EpisodeToolbox(self._env, session, task)
        session.notes[_TOOLBOX] = toolbox
        return session.id, toolbox

    async def _open(self, caller: Caller, _: dict[str, Any]) -> str | None:
        """The session of a handshake: a new one, unless the client has a token for one."""
        if caller.http.headers.get(TOKEN_HEADER) is not None:
            return None
        task = _task_of(caller.http)
        try:
            session_id, toolbox = self._new(task)
        except AtCapacity as error:
            raise McpError(str(error), INTERNAL_ERROR, status=503) from None
        if task:
            try:
                result = await toolbox.reset(task)
                if result.is_error:
                    raise failed(result)
            except BaseException:
                await self._env.sessions.close(self._env.sessions.get(session_id))
                raise
        return session_id

    async def _end(self, caller: Caller) -> None:
        session_id = _of_caller(caller)
        if session_id is None:
            return
        self._toolbox(session_id)  # no other session ends, whatever a client has called it
        await self._env.sessions.close(self._env.sessions.get(session_id))


def _of_caller(caller: Caller) -> str | None:
    return _of_headers(caller.http) or _of_meta(caller.meta) or caller.session_id


def _of_headers(http: web.Request) -> str | None:
    return http.headers.get(TOKEN_HEADER) or http.headers.get(SESSION_HEADER)


def _of_meta(meta: dict[str, Any]) -> str | None:
    session_id = meta.get(SESSION_META)
    return session_id if isinstance(session_id, str) else None


def _task_of(http: web.Request) -> dict[str, Any]:
    """Return the task of an address, as arguments of `reset`."""
    task: dict[str, Any] = {}
    for name in ("task_index", "seed"):
        if (text := http.query.get(name)) is None:
            continue
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise McpError(f"The {name} of an address is a whole number, got {text!r:.40}.", INVALID_PARAMS, status=400)
        task[name] = int(text)
    return task
