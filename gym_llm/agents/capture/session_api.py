"""SessionControl: the routes of a CaptureServer at `/sessions`, in OpenEnv's format."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gym_llm.agents.capture.capture_session import CaptureSession
from gym_llm.agents.capture.openenv_format import rollout_document, trace_entries
from gym_llm.engines.engine import Engine
from gym_llm.engines.specs import make_engine
from gym_llm.errors import EngineError
from gym_llm.protocols import Refusal
from gym_llm.protocols.http.http_server import json_response
from gym_llm.protocols.http.model_api import read_json
from gym_llm.protocols.responses.bodies import REQUEST_PARAMETERS
from gym_llm.utils.secrets import add_secrets
from gym_llm.utils.text import did_you_mean

if TYPE_CHECKING:
    from gym_llm.agents.capture.capture_server import CaptureServer

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_MOST_UPSTREAMS = 16
_PURPOSES = ("auto", "train", "eval")
_NOTHING = {"top_k": (-1, 0), "min_p": (0,), "repetition_penalty": (1,), "presence_penalty": (0,)}
_NOTHING |= {"frequency_penalty": (0,)}
"""Values of sampling fields that mean the default: OpenEnv's clients send all fields."""
_NAMES = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_PARAMETERS = REQUEST_PARAMETERS | _NAMES.keys()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SessionControl:
    """Opens a server's sessions over HTTP, and returns their results.

    Args:
        server: The server.
        upstreams: Whether the client that opens a session may name another model server.
    """

    def __init__(self, server: CaptureServer, *, upstreams: bool) -> None:
        self._server = server
        self._upstreams = upstreams
        self._engines: dict[str, asyncio.Task[Engine]] = {}
        self._waiting: Counter[str] = Counter()  # who opens a session of each, and has none yet

    def routes(self) -> Iterator[tuple[str, str, Handler]]:
        """Yield the method, path and handler of each route."""
        yield "POST", "/sessions", self._open
        yield "GET", "/sessions", self._list
        yield "GET", "/sessions/{id}", self._status
        yield "GET", "/sessions/{id}/trajectory", self._trajectory
        yield "GET", "/sessions/{id}/rollout", self._rollout
        yield "GET", "/sessions/{id}/trace_entries", self._trace_entries
        yield "DELETE", "/sessions/{id}", self._delete

    async def aclose(self) -> None:
        """Close the other model servers' engines."""
        await asyncio.gather(*[_closed(starting) for starting in self._engines.values()])

    def open_named(self, id: str) -> CaptureSession:
        """Open a session by its first call, under a name that the client chose.

        Raises:
            Refusal: If the name is invalid.
            NoRoom: If the server is full.
        """
        session = CaptureSession(self._engine, id=_checked_id(id), others=self._server.others)
        self._server.open(session)
        return session

    @property
    def _engine(self) -> Engine:
        engine = self._server.engine
        assert engine is not None, "a server without an engine has no control"
        return engine

    async def _open(self, http: web.Request) -> web.Response:
        body = await read_json(http)
        id = body.get("session_id")
        metadata = {} if body.get("metadata") is None else body["metadata"]
        budget = body.get("max_model_calls") or None
        if not isinstance(metadata, dict):
            raise Refusal("metadata must be a JSON object.", param="metadata")
        if budget is not None and (type(budget) is not int or budget < 0):
            raise Refusal("max_model_calls is a whole number, 0 for no limit.", param="max_model_calls")
        if (purpose := body.get("purpose") or "auto") not in _PURPOSES:
            raise Refusal(f"purpose is one of {', '.join(_PURPOSES)}.", param="purpose")
        sampling = _sampling(body, "eval_sampling" if purpose == "eval" else "sampling")
        engine = self._engine if not body.get("llm_url") else await self._upstream(body)
        try:
            session = CaptureSession(
                engine,
                id=None if id is None else _checked_id(id),
                others=self._server.others,
                sampling=sampling,
                defaults=_sampling(body, "defaults"),
                max_model_calls=budget,
                metadata={**metadata, "purpose": purpose},
            )
            self._server.open(session)
        except ValueError as error:
            raise Refusal(str(error)) from None
        level = "tokens" if engine.capabilities.token_ids else "text"
        kind = "train" if purpose != "eval" and level == "tokens" else "eval"
        answer = {"session_id": session.id, "capture_level": level, "rollout_type": kind, "model": engine.model}
        return json_response(
            {**answer, "max_model_calls": budget or 0, "llm_url": body.get("llm_url") or self._server.url}
        )

    async def _upstream(self, body: dict[str, Any]) -> Engine:
        """The engine of another model server, made once for its address, model and key."""
        if not self._upstreams:
            raise Refusal("This server has one model for all sessions: leave llm_url out.", 403, param="llm_url")
        url, model, key = (body.get(name) for name in ("llm_url", "model", "api_key"))
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or "," in url:
            raise Refusal("llm_url is the base URL of a model server, http://host:port/v1.", param="llm_url")
        options = {"model": model, "api_key": key}
        if not all(value is None or isinstance(value, str) for value in options.values()):
            raise Refusal("model and api_key must be strings.", param="model")
        name = hashlib.sha256(repr((url, model, key)).encode()).hexdigest()
        if name not in self._engines:
            if len(self._engines) >= _MOST_UPSTREAMS:
                await self._close_unused()
            if len(self._engines) >= _MOST_UPSTREAMS:
                raise Refusal(f"There are {_MOST_UPSTREAMS} other model servers already.", 503, param="llm_url")
            if key:
                add_secrets({key})
            # Without a key none is sent: not this machine's own (OPENAI_API_KEY), to an address that a client names.
            given = {**({"model": model} if model else {}), "api_key": key or ""}
            self._engines[name] = asyncio.ensure_future(_started(url, given))
        starting = self._engines[name]
        self._waiting[name] += 1
        try:
            return await asyncio.shield(starting)
        except (EngineError, TypeError, ValueError) as error:
            if self._engines.get(name) is starting:
                del self._engines[name]
            raise Refusal(f"The model server cannot be asked: {error}", 502, param="llm_url") from None
        finally:
            self._waiting[name] -= 1
            self._waiting += Counter()  # without zeros

    async def _close_unused(self) -> None:
        used = {id(session.engine) for session in self._server.sessions.values()}
        used_now = [name for name, one in self._engines.items() if self._waiting[name] or _is_among(one, used)]
        unused = self._engines.keys() - used_now
        await asyncio.gather(*[_closed(self._engines.pop(name)) for name in unused])

    async def _list(self, _: web.Request) -> web.Response:
        return json_response({"sessions": [_status_of(session) for session in self._server.sessions.values()]})

    async def _status(self, http: web.Request) -> web.Response:
        return json_response(_status_of(self._session(http)))

    async def _trajectory(self, http: web.Request) -> web.Response:
        session = self._session(http)
        return json_response({**_status_of(session), "trajectory": session.trajectory()})

    async def _rollout(self, http: web.Request) -> web.Response:
        wants = http.query.get("include_messages", "").lower() in ("1", "true")
        return json_response(rollout_document(self._session(http), include_messages=wants))

    async def _trace_entries(self, http: web.Request) -> web.Response:
        session = self._session(http)
        if session.calls and not session.graph.has_tokens:
            return json_response({"error": "The engine reports no token ids.", "session_id": session.id}, 409)
        return json_response({"session_id": session.id, "entries": trace_entries(session)})

    async def _delete(self, http: web.Request) -> web.Response:
        return json_response({"deleted": self._server.close(http.match_info["id"]) is not None})

    def _session(self, http: web.Request) -> CaptureSession:
        session = self._server.sessions.get(http.match_info["id"])
        if session is None:
            raise Refusal("The session does not exist: it has expired, was deleted, or was never opened.", 404)
        return session


async def _started(url: str, options: dict[str, Any]) -> Engine:
    engine = make_engine(url, token_ids=True, **options)
    return await engine.__aenter__()


async def _closed(starting: asyncio.Task[Engine]) -> None:
    starting.cancel()
    with suppress(asyncio.CancelledError, EngineError, TypeError, ValueError):
        await (await starting).aclose()


def _is_among(started: asyncio.Task[Engine], engines: set[int]) -> bool:
    is_there = started.done() and not started.cancelled() and started.exception() is None
    return is_there and id(started.result()) in engines


def _status_of(session: CaptureSession) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "calls": len(session.calls),
        "under_way": session.under_way,
        "idle_s": round(time.monotonic() - session.used, 1),
        "metadata": session.metadata,
    }


def _checked_id(id: Any) -> str:
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise Refusal("A session's id has letters, digits and _.:-, at most 128 of them.", param="session_id")
    return id


def _sampling(body: dict[str, Any], name: str) -> dict[str, Any]:
    fields = {} if body.get(name) is None else body[name]
    if not isinstance(fields, dict):
        raise Refusal(f"{name} is a JSON object.", param=name)
    said = [(name, value) for name, value in fields.items() if value not in _NOTHING.get(name, ())]
    for parameter in fields.keys() - _PARAMETERS:  # others may be of servers that we do not know
        if hint := did_you_mean(parameter, _PARAMETERS, cutoff=0.8):
            raise Refusal(f"{name} has {parameter!r:.40}, which is not a sampling parameter.{hint}", param=name)
    return {_NAMES.get(name, name): value for name, value in said}
