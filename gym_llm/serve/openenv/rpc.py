"""OpenEnv's JSON-RPC: sessions, and the tools of an episode.

Requests come by `POST /mcp`, over a WebSocket there, and in messages of type mcp. This is not MCP, which begins with a
handshake (`protocols/mcp/`), but two of its methods have MCP's names. A call is a turn of the session's episode, like
the action `call_tool`; without a session it plays an episode of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

from gym_llm.serve.episode_session import BadRequest, EpisodeFailed, EpisodeSession
from gym_llm.serve.openenv.action_messages import read_tool_call
from gym_llm.serve.openenv.connections import Connections
from gym_llm.serve.openenv.reply_messages import Invalid, failure_fields
from gym_llm.serve.openenv.socket import PendingReply
from gym_llm.serve.openenv.tool_results import output_of, tools_of
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import AtCapacity, UnknownSession
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redact, redacted_logger

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, SERVER_ERROR = -32602, -32603, -32000
_OWN = ("openenv/session/create", "openenv/session/close")
_TOOLS = ("tools/list", "tools/call")
_FIELDS = {"jsonrpc", "method", "params", "id"}
_LONGEST_MESSAGE = 4_000
logger = redacted_logger(__name__)


class RpcError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Rpc:
    """Answers requests about one environment.

    Args:
        env: It.
        connections: Which sessions clients hold by a WebSocket.
    """

    def __init__(self, env: ServedEnv, connections: Connections) -> None:
        self._env = env
        self._connections = connections

    @staticmethod
    def claims(body: Any) -> bool:
        """Whether a body is OpenEnv's and not MCP's: its own methods, tools of a session in `params`, `{}`."""
        if not isinstance(body, dict):
            return False
        method, params = body.get("method"), body.get("params")
        return not body or method in _OWN or (method in _TOOLS and isinstance(params, dict) and "session_id" in params)

    def answer_message(self, message: Any, mine: EpisodeSession) -> PendingReply:
        """Answer a message of a WebSocket at `/mcp`, which has a session of its own."""
        self._env.sessions.keep(mine)
        if isinstance(message, Exception):
            answer = _at_once(_error(None, PARSE_ERROR, f"Parse error: {message}"))
        else:
            answer = self.answer(message, mine)
        return PendingReply(asyncio.ensure_future(answer), lambda future: dumps(future.result())[:-1])

    async def answer(self, body: Any, mine: EpisodeSession | None = None) -> dict[str, Any]:
        """The answer to a request.

        Args:
            body: The request.
            mine: The session of the WebSocket that it came over.
        """
        request_id = body.get("id") if isinstance(body, dict) else None
        if isinstance(request_id, bool) or not isinstance(request_id, int | str | None):
            request_id = None
        try:
            result = await self._result(body, mine)
        except RpcError as error:
            return _error(request_id, error.code, str(error), error.data)
        except EpisodeFailed as failure:
            return _error(request_id, INTERNAL_ERROR, str(failure), failure_fields(failure))
        except (BadRequest, Invalid, UnknownSession) as error:
            return _error(request_id, INVALID_PARAMS, str(error))
        except AtCapacity as full:
            sessions = self._env.sessions
            counts = {"active_sessions": len(sessions), "max_sessions": sessions.capacity}
            return _error(request_id, SERVER_ERROR, str(full), counts)
        except Exception:
            logger.exception("A JSON-RPC request failed.")
            return _error(request_id, INTERNAL_ERROR, "The server has failed; its log says how.")
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    async def _result(self, body: Any, mine: EpisodeSession | None) -> Any:
        method, params = _read(body)
        if method == "openenv/session/create":
            return {"session_id": (mine or self._connections.open(made_over_mcp=True)).id}
        if method == "openenv/session/close":
            return await self._close(params, mine)
        if method not in _TOOLS:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
        named = params.get("session_id")
        session = mine if mine is not None else None if not named else self._connections.find(named)
        if method == "tools/list":
            return {"tools": [_described(tool) for tool in tools_of(self._env, session)]}
        if session is not None:
            return await self._call(session, params)
        own = self._env.open()
        try:
            return await self._call(own, params)
        finally:
            await self._env.sessions.close(own)

    async def _call(self, session: EpisodeSession, params: dict[str, Any]) -> dict[str, Any]:
        call = read_tool_call(params.get("name"), params.get("arguments"), "name")
        if session.last is None and session.outcome is None:  # who only calls tools has no reset
            await session.reset()
        known = {tool["name"] for tool in tools_of(self._env, session)}
        before = session.last.info.get("tool_errors", 0) if session.last is not None else 0
        step = await session.step([call.item(len(session.turn_rewards) + 1)])
        output = output_of(step)
        if call.name not in known:
            raise RpcError(INVALID_PARAMS, f"Tool not found: {call.name[:100]}")
        text = output if isinstance(output, str) else dumps(output)[:-1].decode() if output is not None else ""
        is_error = step.info.get("tool_errors", 0) > before
        return {"content": [{"type": "text", "text": text}], "isError": is_error, "data": output}

    async def _close(self, params: dict[str, Any], mine: EpisodeSession | None) -> dict[str, Any]:
        named = params.get("session_id")
        if not named:
            raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required")
        session = self._connections.find(named)
        if session is mine:
            raise RpcError(INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method")
        if self._connections.close_when_left(session):
            return {"session_id": session.id, "closed": False, "closing": True}
        await self._env.sessions.close(session)
        return {"session_id": session.id, "closed": True}


def _read(body: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(body, dict):
        raise RpcError(INVALID_REQUEST, "Invalid request: it is an object")
    if body.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid request: jsonrpc: Input should be '2.0'")
    if unknown := body.keys() - _FIELDS:
        raise RpcError(
            INVALID_REQUEST, f"Invalid request: {min(map(str, unknown))[:100]}: Extra inputs are not permitted"
        )
    method, params = body.get("method"), body.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "Invalid request: method: Input should be a valid string")
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Params must be an object")
    return method, params


async def _at_once(answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def _described(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("parameters") or {"type": "object", "properties": {}}
    return {"name": tool["name"], "description": tool.get("description") or "", "inputSchema": schema}


def _error(request_id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": redact(message)[:_LONGEST_MESSAGE], "data": data}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
