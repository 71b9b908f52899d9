"""PersonEngine: a person answers, on a page in a browser."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import AsyncExitStack
from importlib import resources
from typing import Any

from aiohttp import web

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.errors import EngineError, EngineUnavailable, UsageError
from gym_llm.protocols.http.bodies import read_value
from gym_llm.protocols.http.http_server import HttpServer, json_response
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.limits import check_seconds

_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
_FILES = {"/": ("person.html", "text/html"), "/person.js": ("person.js", "text/javascript")}
_CALL = re.compile(r"/call\s+([\w.-]{1,200})\s*(\{.*\})?\s*\Z", re.DOTALL)
_LONGEST = 1 << 20  # characters of an answer
_SHOWN = 20  # requests at a time


class PersonEngine(Engine):
    """Lets a person answer on a page: a player among models, a judge, or a baseline. All requests of a run share it.

    The page lists the requests that wait, each with its conversation and a box for the answer. `/call NAME {"x": 1}`
    in the box calls a tool. The address is printed when the first request comes.

    Args:
        port: The page's port on this machine; 0 for a free one.
        host: The address to listen on; one that other machines can reach needs a token.
        token: What the browser sends as `Authorization: Bearer TOKEN`.
        answer_timeout: Seconds that an answer may take.

    Raises:
        ValueError: If an argument is invalid.
        EngineUnavailable: By `start`, if the port cannot be opened.
    """

    model = "person"
    capabilities = Capabilities(samples=False)

    def __init__(
        self, port: str = "0", *, host: str = "127.0.0.1", token: str | None = None, answer_timeout: float = 3600.0
    ) -> None:
        check_seconds("answer_timeout", answer_timeout)
        if not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise ValueError(f"person:PORT has a port from 0 to 65535; got {port!r:.40}.")
        self.page = Page(host=host, port=int(port), token=token)
        self._seconds = answer_timeout
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Open the page's port."""
        try:
            await self._stack.enter_async_context(self.page)
        except (UsageError, OSError) as error:
            raise EngineUnavailable(f"The page for a person cannot be served: {error}") from error

    async def aclose(self) -> None:
        """Close the port. A request that waits gets an error."""
        await self._stack.aclose()

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Wait for the person's answer; see `Engine.respond`.

        Raises:
            EngineError: If the answer takes too long, or the page is closed.
        """
        try:
            text = await asyncio.wait_for(self.page.ask(request), self._seconds)
        except TimeoutError:
            raise EngineError(f"The person has not answered in {self._seconds:g} seconds.") from None
        response = text_response(text, model=self.model)
        if call := _CALL.match(text.strip()):
            name, arguments = call[1], call[2] or "{}"
            call_id = f"call_{response['id']}"
            response["output"] = [{"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}]
        return response


class Page(HttpServer):
    """The page on which a person answers."""

    def __init__(self, **address: Any) -> None:
        super().__init__(**address)
        self._waiting: dict[int, tuple[Request, asyncio.Future[str]]] = {}
        self._asked = 0

    async def ask(self, request: Request) -> str:
        """Show a request, and wait for the answer."""
        self._asked += 1
        number, future = self._asked, asyncio.get_running_loop().create_future()
        if number == 1:
            print(f"A person is asked to answer: {self.url}/", file=sys.stderr, flush=True)
        self._waiting[number] = request, future
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def _add_routes(self, application: web.Application) -> None:
        for path in _FILES:
            application.router.add_get(path, self._file)
        application.router.add_get("/waiting", self._list)
        application.router.add_post("/answer", self._answer)

    async def _stop(self) -> None:
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(EngineError("The page was closed before the person answered."))

    async def _file(self, http: web.Request) -> web.Response:
        name, kind = _FILES[http.path]
        text = (resources.files("gym_llm.engines") / "pages" / name).read_text("utf-8")
        return web.Response(text=text, content_type=kind, headers={"Content-Security-Policy": _POLICY})

    async def _list(self, http: web.Request) -> web.Response:
        first = list(self._waiting.items())[:_SHOWN]
        return json_response([_shown(number, request) for number, (request, _) in first])

    async def _answer(self, http: web.Request) -> web.Response:
        body = await read_value(http)
        number, text = (body.get("number"), body.get("text")) if isinstance(body, dict) else (None, None)
        if not isinstance(number, int) or not isinstance(text, str) or len(text) > _LONGEST:
            return json_response({"error": "An answer has a whole number `number`, and a `text`."}, 400)
        waiting = self._waiting.get(number)
        if waiting is None or waiting[1].done():
            return json_response({"error": "This request does not wait any more."}, 410)
        waiting[1].set_result(text)
        return json_response({"answered": number})


def _shown(number: int, request: Request) -> dict[str, Any]:
    """A request as the page shows it: texts by role, and the names of the tools."""
    said = []
    for item in request["input"][-200:]:
        kind = item.get("type", "message")
        content = item.get("content") if kind == "message" else item.get("output", item.get("arguments", ""))
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text", "") if isinstance(part, dict) else str(part or "") for part in parts]
        said.append({"role": item.get("role") or item.get("name") or kind, "text": "".join(map(str, texts))[:100_000]})
    tools = [f"{tool.get('name')} {json.dumps(tool.get('parameters'))}" for tool in request.get("tools") or ()]
    return {"number": number, "said": said, "tools": tools}
