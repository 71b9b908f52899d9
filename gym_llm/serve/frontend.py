"""Frontend: one protocol of one environment, as routes of an HTTP server."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from aiohttp import web

from gym_llm.data.files.jsonl import loads
from gym_llm.errors import CallerError
from gym_llm.serve.served_env import ServedEnv
from gym_llm.utils.deprecated import renamed
from gym_llm.version import __version__

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    """One address of a wire.

    Attributes:
        method: HTTP's.
        path: Below the environment's own, `/reset`; aiohttp's patterns may be in it.
        handler: Answers.
        operation: What OpenAPI says of it, an Operation Object; None for what is not listed there.
        claims: Where wires share an address: whether a request's JSON body is this wire's (None: it is no JSON, or
            empty). None for whoever is left.
        is_socket: Where wires share an address: whether it is for WebSockets only, and for all of them.
    """

    method: str
    path: str
    handler: Handler
    operation: dict[str, Any] | None = None
    claims: Callable[[Any], bool] | None = None
    is_socket: bool = False


class Frontend(Protocol):
    """One wire of one environment."""

    def routes(self) -> Iterable[Route]:
        """Its addresses."""

    async def session_of(self, http: web.Request) -> str | None:
        """The id of the session that a request is for, as the client gives it: in a header, cookie, query or body.

        Several processes may share the server's port; the one that gets a request asks this to find the process that
        has the session. So it looks nothing up, and raises nothing. A client's own id is one, too, also in the request
        that opens its session. None for what opens a session of a new id, needs none, or makes no sense.
        """

    def refusal(self, error: BaseException, status: int) -> web.Response:
        """An error as its clients read it.

        Args:
            error: A `BadRequest`, `UnknownSession`, `AtCapacity`, `EpisodeFailed`, `AccessDenied` or `NotJSON`; or
                another, whose text is no client's to read: it is in the log.
            status: HTTP's.
        """


MakeFrontend = Callable[[ServedEnv], Frontend]


class NotJSON(CallerError):
    """A body is not the JSON object that it should be."""


async def read_json(http: web.Request) -> dict[str, Any]:
    """A request's body, a JSON object; an empty body is an empty one.

    Raises:
        NotJSON: If it is something else.
    """
    return parse_json(await http.read())


def parse_json(payload: bytes) -> dict[str, Any]:
    """The same of a body that was read."""
    if not payload:
        return {}
    try:
        body = loads(payload)
    except ValueError:
        raise NotJSON("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise NotJSON(f"The body is a JSON object, got {type(body).__name__}.")
    return body


_PARAMETER = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


def openapi(routes: Mapping[str, Sequence[Route]], *, title: str) -> dict[str, Any]:
    """The OpenAPI document of the routes that say something of themselves.

    Args:
        routes: By the prefix of their paths.
        title: The document's.
    """
    paths: dict[str, dict[str, Any]] = {
        "/health": {"get": {"summary": "Whether the server runs.", "responses": {"200": {"description": "It does."}}}}
    }
    for prefix, those in routes.items():
        for route in those:
            if route.operation is None:
                continue
            names = _PARAMETER.findall(route.path)
            parameters = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
            operation = {"responses": {"200": {"description": "The answer."}}, **route.operation}
            if parameters:
                operation["parameters"] = [*parameters, *operation.get("parameters", [])]
            path = prefix + _PARAMETER.sub(r"{\1}", route.path)
            paths.setdefault(path, {})[route.method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": title, "version": __version__}, "paths": paths}


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
