"""Frontend: one protocol of one environment, as routes of an HTTP server."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from aiohttp import web

from gym_llm.errors import CallerError
from gym_llm.protocols.http.bodies import read_body, read_value
from gym_llm.serve.served_env import ServedEnv
from gym_llm.version import __version__

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    """A route of a frontend.

    Attributes:
        method: The HTTP method.
        path: The path below the environment's own, `/reset`; may have aiohttp's patterns.
        handler: Answers the requests.
        operation: The OpenAPI Operation Object; None to leave the route out of the document.
        claims: For a path of several frontends: whether a JSON body is this frontend's (None: invalid or empty JSON).
            None to take the requests that no other frontend claims.
        is_socket: For a path of several frontends: whether the route takes all WebSockets, and nothing else.
        most_bytes: The most bytes of a body, if they are fewer than the server's limit.
    """

    method: str
    path: str
    handler: Handler
    operation: dict[str, Any] | None = None
    claims: Callable[[Any], bool] | None = None
    is_socket: bool = False
    most_bytes: int | None = None


class Frontend(Protocol):
    """A protocol for one environment. Third parties can write their own: `--as module:attribute`."""

    def routes(self) -> Iterable[Route]:
        """Return the frontend's routes."""

    async def session_of(self, http: web.Request) -> str | None:
        """Return the session id of a request, from its header, cookie, query or body.

        Several processes may share the server's port. The one that gets a request calls this to find the process that
        has the session, so this neither looks up sessions nor raises. An id that the client chose counts, too, even in
        the request that opens the session. None if the request opens a session with a new id, needs none, or is
        invalid.
        """

    def refusal(self, error: BaseException, status: int) -> web.Response:
        """Return an error in the form that the protocol's clients read.

        Args:
            error: A `BadRequest`, `UnknownSession`, `AtCapacity`, `EpisodeFailed`, `AccessDenied` or `NotJSON`. The
                text of any other error must not be sent; it is in the log.
            status: The HTTP status.
        """


MakeFrontend = Callable[[ServedEnv], Frontend]


class NotJSON(CallerError):
    """Raised when a body is not a JSON object."""


async def read_json(http: web.Request, *, values: int = 1) -> dict[str, Any]:
    """Return a request's body, a JSON object; {} for an empty body.

    Args:
        http: The request.
        values: How many times as many JSON values as usual the body may have.

    Raises:
        NotJSON: If the body is anything else.
    """
    if not await read_body(http, values=values):
        return {}
    try:
        body = await read_value(http)
    except ValueError:
        raise NotJSON("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise NotJSON(f"The body must be a JSON object, got {type(body).__name__}.")
    return body


_PARAMETER = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


def openapi(routes: Mapping[str, Sequence[Route]], *, title: str) -> dict[str, Any]:
    """Return the OpenAPI document of the routes that have an operation.

    Args:
        routes: The routes by the prefix of their paths.
        title: The title of the document.
    """
    health = {"get": {"summary": "Whether the server runs.", "responses": {"200": {"description": "It does."}}}}
    paths: dict[str, dict[str, Any]] = {f"{prefix}/health": health for prefix in ("", *routes)}
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
