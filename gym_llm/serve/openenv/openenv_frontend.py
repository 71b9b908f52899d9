"""OpenEnvFrontend: the routes of OpenEnv's servers, for `EnvServer`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from gym_llm.errors import UsageError
from gym_llm.protocols.http.http_server import json_response
from gym_llm.protocols.mcp.endpoint import MOST_BYTES
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed, EpisodeSession
from gym_llm.serve.frontend import NotJSON, Route, read_json
from gym_llm.serve.openenv import reply_messages as answers
from gym_llm.serve.openenv import schemas
from gym_llm.serve.openenv.action_messages import LIST_TOOLS, ToolCall, read_action, read_reset
from gym_llm.serve.openenv.connections import Connections
from gym_llm.serve.openenv.frames import NORMAL
from gym_llm.serve.openenv.reply_messages import Invalid, encode
from gym_llm.serve.openenv.rpc import INVALID_REQUEST, PARSE_ERROR, Rpc
from gym_llm.serve.openenv.socket import Socket
from gym_llm.serve.openenv.socket_messages import SocketSession
from gym_llm.serve.openenv.tool_results import called, listed, tools_of
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import AtCapacity, UnknownSession
from gym_llm.serve.task_api import TaskApi, split_of
from gym_llm.utils.secrets import redact
from gym_llm.version import __version__

_MODES = ("simulation", "production")
_CREATE = {"jsonrpc": "2.0", "method": "openenv/session/create"}
_NO_EPISODE = (
    "No episode is under way: over HTTP a request without a `session_id` has a session of its own, which ends with its "
    'answer. Play over the WebSocket /ws, or POST {"jsonrpc": "2.0", "id": 1, "method": '
    '"openenv/session/create"} to /mcp and send its `session_id` with each /reset and /step.'
)
_MOST_README = 100_000  # characters


class OpenEnvFrontend:
    """OpenEnv's routes of one environment.

    With the variable `OPENENV_MODE=production` there are no `/reset`, `/step` and `/state`, as with OpenEnv's servers.

    Args:
        env: The environment.

    Raises:
        UsageError: If the variable has another value.
    """

    def __init__(self, env: ServedEnv) -> None:
        self._env = env
        self._mode = os.environ.get("OPENENV_MODE", _MODES[0]).lower()
        if self._mode not in _MODES:
            raise UsageError(f"The variable OPENENV_MODE is one of {', '.join(_MODES)}; got {self._mode[:40]!r}.")
        self._split = split_of(env)
        self._tasks = TaskApi(env)
        self._connections = Connections(env)
        self._rpc = Rpc(env, self._connections)

    def routes(self) -> Iterable[Route]:
        """Return the frontend's routes."""
        has_tools = bool(self._env.tools)
        yield Route("GET", "/ws", self._ws)
        yield Route("GET", "/metadata", self._metadata, {"summary": "What the environment is."})
        yield Route("GET", "/schema", self._schema, {"summary": "JSON Schemas of actions, observations and states."})
        operation = {"summary": "OpenEnv's JSON-RPC: sessions and tools.", "requestBody": _body({"type": "object"})}
        yield Route("POST", "/mcp", self._mcp, operation, claims=Rpc.claims, most_bytes=MOST_BYTES)
        yield Route("GET", "/mcp", self._mcp_socket, is_socket=True)
        if self._mode == "simulation":
            result = {"200": {"description": "Observation, reward, done.", "content": _content(schemas.RESULT)}}
            operation = {"summary": "Begin an episode.", "requestBody": _body(schemas.RESET), "responses": result}
            yield Route("POST", "/reset", self._reset, operation)
            request = _body(schemas.step_request(has_tools))
            operation = {"summary": "Take a turn.", "requestBody": request, "responses": result}
            yield Route("POST", "/step", self._step, operation)
            yield Route("GET", "/state", self._state, {"summary": "A session's state."})
        yield from self._tasks.routes()

    async def session_of(self, http: web.Request) -> str | None:
        """Return the session id of a request; see `Frontend`."""
        if (named := http.query.get("session_id")) is not None or http.method != "POST":
            return named
        try:
            body = await read_json(http)
        except NotJSON:
            return None
        params = body.get("params")
        named = params.get("session_id") if isinstance(params, dict) else body.get("session_id")
        return named if isinstance(named, str) else None

    def refusal(self, error: BaseException, status: int) -> web.Response:
        """Return an error in FastAPI's form; see `Frontend`."""
        if isinstance(error, EpisodeFailed):
            return json_response({"detail": redact(str(error)), **answers.failure_fields(error)}, status)
        if status == 500:
            return json_response({"detail": "The server has failed; its log says how."}, status)
        return json_response({"detail": redact(str(error))}, 422 if isinstance(error, NotJSON) else status)

    # -- episodes --------------------------------------------------------------------------------------------------

    async def _ws(self, http: web.Request) -> web.StreamResponse:
        socket = Socket(http)
        response = await socket.accept()
        try:
            session = await self._session_for(http.query.get("session_id"), socket)
        except AtCapacity as full:
            sessions = self._env.sessions
            await _turn_away(socket, answers.at_capacity(full, len(sessions), sessions.capacity))
            return response
        except UnknownSession as unknown:
            await _turn_away(socket, answers.error(str(unknown), answers.SESSION_ERROR))
            return response
        messages = SocketSession(self._env, session, self._split, self._rpc)
        await socket.serve(messages.answer, partial(self._connections.detach, session, socket))
        return response

    async def _mcp_socket(self, http: web.Request) -> web.StreamResponse:
        socket = Socket(http)
        response = await socket.accept()
        try:
            session = await self._session_for(None, socket)
        except AtCapacity:
            await _turn_away(socket, encode(await self._rpc.answer(_CREATE)))
            return response
        talk = partial(self._rpc.answer_message, mine=session)
        session.notes["close_when_left"] = True
        await socket.serve(talk, partial(self._connections.detach, session, socket))
        return response

    async def _session_for(self, session_id: str | None, socket: Socket) -> EpisodeSession:
        session = self._connections.find(session_id) if session_id else self._connections.open()
        await self._connections.attach(session, socket)
        return session

    async def _reset(self, http: web.Request) -> web.Response:
        body = await read_json(http)
        session, is_fresh = self._session_named(body)
        try:
            seed, options, episode_id = read_reset(body, self._split)
            session.notes["episode_id"] = episode_id
            step = await session.reset(seed=seed, options=options)
        except Invalid as fault:
            return _unprocessable(fault)
        finally:
            if is_fresh:
                await self._env.sessions.close(session)
        return json_response(answers.result(step, began=True))

    async def _step(self, http: web.Request) -> web.Response:
        body = await read_json(http)
        session, is_fresh = self._session_named(body)
        try:
            if "action" not in body:
                raise Invalid("action", "Field required", "missing")
            action = read_action(body["action"])
            tools = tools_of(self._env, session)
            if action is LIST_TOOLS:
                return json_response(listed(tools))
            if is_fresh:
                raise BadRequest(_NO_EPISODE)
            if isinstance(action, ToolCall):
                step = await session.step([action.item(len(session.turn_rewards) + 1)])
                return json_response(called(action, step, tools))
            return json_response(answers.result(await session.step(action)))
        except Invalid as fault:
            return _unprocessable(fault)
        except BadRequest as refused:
            if session.is_playing:
                return _unprocessable(Invalid("action", str(refused)))
            raise
        finally:
            if is_fresh:
                await self._env.sessions.close(session)

    async def _state(self, http: web.Request) -> web.Response:
        if (named := http.query.get("session_id")) is None:
            return json_response({"episode_id": None, "step_count": 0})
        session = self._connections.find(named)
        await session.settled()
        return json_response(answers.state(session))

    def _session_named(self, body: dict[str, Any]) -> tuple[EpisodeSession, bool]:
        if (named := body.pop("session_id", None)) is None:
            return self._env.open(), True
        return self._connections.find(named), False

    # -- what the environment is -----------------------------------------------------------------------------------

    async def _metadata(self, _: web.Request) -> web.Response:
        return json_response(
            {
                "name": self._env.name,
                "description": self._env.description,
                "readme_content": _readme(self._env),
                "version": __version__,
                "author": None,
                "documentation_url": None,
            }
        )

    async def _schema(self, _: web.Request) -> web.Response:
        action = schemas.action_schema(bool(self._env.tools))
        observation = schemas.OBSERVATION
        document = {"action": action, "observation": observation, "state": schemas.STATE}
        return json_response({**document, "reset_observation": observation})

    async def _mcp(self, http: web.Request) -> web.Response:
        try:
            body = await read_json(http)
        except NotJSON as error:
            code = INVALID_REQUEST if "object" in str(error) else PARSE_ERROR
            fault = {"code": code, "message": str(error), "data": None}
            return json_response({"jsonrpc": "2.0", "id": None, "error": fault})
        return json_response(await self._rpc.answer(body))


async def _turn_away(socket: Socket, message: bytes) -> None:
    socket.send(message)
    socket.close(NORMAL)
    await socket.serve(lambda _: message, lambda _: None)


def _unprocessable(fault: Invalid) -> web.Response:
    errors = [{**error, "loc": ["body", *error["loc"]]} for error in fault.errors]
    return json_response({"detail": errors}, 422)


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": _content(schema)}


def _readme(env: ServedEnv) -> str | None:
    try:
        file = Path(inspect.getfile(type(env.verifier))).parent / "README.md"
        return file.read_text(encoding="utf-8")[:_MOST_README]
    except (OSError, TypeError, UnicodeDecodeError):
        return None
