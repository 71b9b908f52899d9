"""NemoFrontend: NeMo Gym's routes over sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from aiohttp import web

from gym_llm.core.tools.tool import error_output
from gym_llm.evaluation.reverify.rescoring import NotFromItems, mode_of
from gym_llm.protocols.http.bodies import read_body
from gym_llm.protocols.http.http_server import json_response
from gym_llm.serve.episode_session import EpisodeFailed, EpisodeSession
from gym_llm.serve.frontend import NotJSON, Route, read_json
from gym_llm.serve.nemo import answer_bodies as verdicts
from gym_llm.serve.nemo import operations
from gym_llm.serve.nemo.aggregates import aggregate
from gym_llm.serve.nemo.answer_bodies import reset_answer, step_answer
from gym_llm.serve.nemo.idempotency import IdempotencyCache
from gym_llm.serve.nemo.mcp_tools import FAILED_TOOL, SessionToolbox
from gym_llm.serve.nemo.nemo_rows import PARAMS, Rows, Seeded, read_row
from gym_llm.serve.nemo.nemo_sessions import NamedSessions, SessionCookie, is_named
from gym_llm.serve.nemo.scoring import (
    Conversation,
    OtherTask,
    read_conversation,
    score_alone,
    score_anew,
    score_session,
)
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.served_tool_calls import CALL_REWARDS, call_tool
from gym_llm.serve.sessions import AtCapacity, SessionLost, UnknownSession
from gym_llm.types import Row
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.secrets import redact

TOKEN_HEADER = "X-NeMo-Gym-Session-Token"
"""The header in which MCP clients send the session id from the answer of /seed_session."""


class NemoFrontend:
    """NeMo Gym's resources server for one environment.

    Args:
        served: The environment.
    """

    def __init__(self, served: ServedEnv) -> None:
        self._served = served
        self._cookie = SessionCookie(type(served.verifier).__name__, served.name, served.secret)
        self._rows = Rows(served.verifier.task_kind())
        self._named = NamedSessions()
        self._once = IdempotencyCache()

    def routes(self) -> Iterable[Route]:
        """Return the frontend's routes."""
        yield Route("POST", "/seed_session", self._seed_session, operations.SEED_SESSION)
        yield Route("POST", "/verify", self._verify, operations.VERIFY)
        yield Route("POST", "/close_session", self._close_session, operations.CLOSE_SESSION)
        yield Route("POST", "/aggregate_metrics", self._aggregate_metrics, operations.AGGREGATE)
        yield Route("GET", "/reverify_mode", self._reverify_mode, operations.REVERIFY_MODE)
        yield Route("POST", "/reset", self._reset, operations.RESET, _has_a_row)
        yield Route("POST", "/step", self._step, operations.STEP, _has_a_row)
        yield Route("POST", "/close", self._close, operations.CLOSE)
        for path in ("/", "/livez", "/readyz", "/healthz"):
            yield Route("GET", path, self._alive, operations.ALIVE)
        yield Route("POST", "/{tool:.+}", self._call_tool, operations.CALL_TOOL)

    def refusal(self, error: BaseException, status: int) -> web.Response:
        """An error as NeMo Gym's servers write it: `{"detail": ...}`."""
        if isinstance(error, EpisodeFailed):
            return json_response({"detail": redact(str(error)), "failure_kind": error.failure.kind}, status)
        if isinstance(error, SessionLost):
            return json_response({"detail": str(error), "failure_kind": error.failure_kind}, status)
        is_told = status < 500 or isinstance(error, AtCapacity)
        sentence = redact(str(error)) if is_told else "The server has failed; its log says how."
        return json_response({"detail": sentence}, status)

    async def session_of(self, http: web.Request) -> str | None:
        """The id of the session that a request is for: its cookie's, or the name that an environment server gave it."""
        if http.path.endswith(("/seed_session", "/close_session")):
            try:
                body = await read_json(http)
            except NotJSON:
                return None
            if is_named(body) and isinstance(name := body["resources_session_id"], str):
                return name
        return self._cookie.read(http.headers.get("Cookie"))

    # -- sessions ----------------------------------------------------------------------------------------------------

    async def _seed_session(self, http: web.Request) -> web.Response:
        body = await read_json(http)
        if is_named(body):
            return await self._seed_named(http, body)
        session = await self._begin(http, read_row(body))
        mcp = self._mcp(http, session)
        return self._answer(session.id, b"{}" if mcp is None else dumps({"mcp": mcp}))

    async def _seed_named(self, http: web.Request, body: dict[str, Any]) -> web.Response:
        """Answer an environment server of NeMo Gym 0.7: the same request gets the same session."""

        async def opened(row: Row) -> str:
            # The task's request is known when the episode is scored.
            return (await self._opened({PARAMS: {"input": []}, **row})).id

        name, session_id = await self._named.seed(body, opened)
        session = self._served.sessions.get(session_id)
        answer = {"resources_session_id": name, "resources_tools": self._mcp(http, session), "sandbox_access": None}
        return self._answer(session_id, dumps(answer))

    async def _begin(self, http: web.Request, row: Row) -> EpisodeSession:
        session = self._session(http)
        if session is None:
            return await self._opened(row)
        await self._seed(session, row)
        return session

    async def _opened(self, row: Row) -> EpisodeSession:
        session = self._served.open()
        try:
            await self._seed(session, row)
        except BaseException:
            await self._served.sessions.close(session)
            raise
        return session

    async def _seed(self, session: EpisodeSession, row: Row) -> None:
        prepared = self._rows.prepare(row)
        step = await session.reset(options={"task": prepared})
        session.notes["nemo"] = Seeded(row, step.new_items, session.episode)
        session.notes.pop(CALL_REWARDS, None)

    def _session(self, http: web.Request, *, may_be_lost: bool = True) -> EpisodeSession | None:
        session_id = self._cookie.read(http.headers.get("Cookie"))
        if session_id is None:
            return None
        try:
            session = self._served.sessions.get(session_id)
        except UnknownSession as unknown:
            if isinstance(unknown, SessionLost) and not may_be_lost:
                raise
            return None
        return session if "nemo" in session.notes else None

    def _known_session(self, http: web.Request) -> EpisodeSession:
        session = self._session(http, may_be_lost=False)
        if session is None:
            raise UnknownSession(
                f"The request has no session: POST /seed_session and send its cookie ({self._cookie.name})."
            )
        return session

    async def _close_session(self, http: web.Request) -> web.Response:
        body = await read_json(http)
        if not is_named(body):
            return await self._close(http)
        name, session_id = await self._named.close(body)
        if session_id is not None:
            await self._end(session_id)
        return json_response({"resources_session_id": name})

    async def _close(self, http: web.Request) -> web.Response:
        if (session := self._session(http)) is not None:
            await self._end(session.id)
        return json_response({})

    async def _end(self, session_id: str) -> None:
        try:
            session = self._served.sessions.get(session_id)
        except UnknownSession:
            return
        await self._served.sessions.close(session)

    def _mcp(self, http: web.Request, session: EpisodeSession) -> dict[str, Any] | None:
        """Return the MCP address of the session's tools, which the MCP frontend finds in `notes["mcp"]`."""
        if "mcp" not in self._served.protocols or session.last is None:
            return None
        tools: Any = session.last.request.get("tools") or self._served.tools
        session.notes["mcp"] = SessionToolbox(self._served.sessions, session, tools)
        return {
            "server_name": self._served.name,
            "url_path": http.path.removesuffix("/seed_session") + "/mcp",
            "transport": "http",
            "headers": {TOKEN_HEADER: session.id},
        }

    def _answer(self, session_id: str | None, body: bytes, content_type: str = "application/json") -> web.Response:
        headers = {} if session_id is None else {"Set-Cookie": self._cookie.written(session_id)}
        return web.Response(body=body, headers=headers, content_type=content_type)

    # -- an episode that the agent plays -------------------------------------------------------------------------------

    async def _call_tool(self, http: web.Request) -> web.Response:
        session = self._known_session(http)
        arguments = (await read_body(http)).decode(errors="replace")
        try:
            text, _ = await call_tool(session, http.match_info["tool"], arguments)
            status = 200
        except EpisodeFailed:  # what the author got wrong is not told to the model
            text, status = error_output(FAILED_TOOL), 500
        content_type = "application/json" if text[:1] in ("{", "[") else "text/plain"
        answer = self._answer(session.id, text.encode(errors="backslashreplace"), content_type)
        answer.set_status(status)
        return answer

    async def _verify(self, http: web.Request) -> web.Response:
        body = await read_json(http)
        payload = await read_body(http)
        conversation = read_conversation(body, self._served.name)
        row = read_row(body)
        session_id = self._cookie.read(http.headers.get("Cookie"))
        if session_id is None:
            reason = "The request has no session's cookie, or one that was not given out here."
            fields = await self._scored_alone(row, conversation, "session_lost", reason)
        else:
            # The session ends with its score; a client that has lost the answer asks again.
            key = "verify", session_id, blake2b(payload, digest_size=16).digest()

            async def score() -> bytes:
                return dumps(await self._scored(session_id, row, conversation))

            fields = loads(await self._once.get(key, score))
        return self._answer(session_id, verdicts.answer(payload, body, fields))

    async def _scored(self, session_id: str, row: Row, conversation: Conversation) -> dict[str, Any]:
        sessions = self._served.sessions
        try:
            session = sessions.get(session_id)
        except UnknownSession as unknown:
            if conversation.calls_addresses:
                return await self._scored_anew(row, conversation)
            kind = unknown.failure_kind if isinstance(unknown, SessionLost) else "session_expired"
            return await self._scored_alone(row, conversation, kind, str(unknown))
        if "nemo" not in session.notes:
            return await self._scored_alone(row, conversation, "session_lost", "The session was not seeded.")
        try:
            if conversation.calls_addresses:
                fields = await self._scored_anew(row, conversation)
            else:
                fields = await score_session(session, self._rows, row, conversation)
        except OtherTask as other:
            fields = await self._scored_alone(row, conversation, "session_lost", str(other))
        await sessions.close(session)
        return fields

    async def _scored_anew(self, row: Row, conversation: Conversation) -> dict[str, Any]:
        session = self._served.open()
        try:
            return await score_anew(session, self._rows, row, conversation)
        finally:
            await self._served.sessions.close(session)

    async def _scored_alone(self, row: Row, conversation: Conversation, kind: Any, reason: str) -> dict[str, Any]:
        """Score a conversation by its items alone, or say why it is masked."""
        session = self._served.open()
        try:
            return await score_alone(session, self._rows, row, conversation)
        except NotFromItems:
            why = f"{self._served.env_id} does not score this conversation from its items alone."
            return verdicts.masked(kind, f"{reason} {why}")
        finally:
            await self._served.sessions.close(session)

    # -- an episode that is played turn by turn ------------------------------------------------------------------------

    async def _reset(self, http: web.Request) -> web.Response:
        session = await self._begin(http, read_row(await read_json(http)))
        assert session.last is not None
        return self._answer(session.id, dumps(reset_answer(session.last)))

    async def _step(self, http: web.Request) -> web.Response:
        body = await read_json(http)
        session_id = self._cookie.read(http.headers.get("Cookie"))
        request_id = body.get("_ng_step_request_id")
        key = ("step", session_id, request_id) if isinstance(request_id, str) else None
        if key is not None and (known := self._once.done(key)) is not None:
            return self._answer(session_id, known)
        session = self._known_session(http)
        response = read_conversation(body, self._served.name).response

        async def step() -> bytes:
            answer = step_answer(await session.step(response))
            if answer["terminated"] or answer["truncated"]:
                await self._served.sessions.close(session)
            return dumps(answer)

        return self._answer(session.id, await (step() if key is None else self._once.get(key, step)))

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def _aggregate_metrics(self, http: web.Request) -> web.Response:
        body = await read_json(http, values=4)  # of all rollouts; it is read in a thread
        verifier = self._served.verifier
        return json_response(await asyncio.to_thread(aggregate, body, self._served.env_id, dict(verifier.metrics)))

    async def _reverify_mode(self, _: web.Request) -> web.Response:
        return json_response(mode_of(self._served.verifier))

    async def _alive(self, _: web.Request) -> web.Response:
        return json_response({"status": "ok"})


def _has_a_row(body: Any) -> bool:
    return isinstance(body, dict) and PARAMS in body
