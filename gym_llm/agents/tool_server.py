"""ToolServer: the tools of agents' episodes, over MCP and plain HTTP, on this machine's loopback.

Each episode has an address of its own, with its key in the path (or, without it, as `Authorization: Bearer KEY`):

- `POST /s/KEY/mcp`: the tools and `submit`, over MCP;
- `GET /s/KEY/tools`: the tools, as the Responses API has them;
- `POST /s/KEY/tools/NAME`: a call with a JSON object of arguments. The reply is `{"output": "..."}`.
- `POST /s/KEY/submit`: an answer, `{"answer": "..."}`. The reply is `{"over": true}`, or `{"over": false, "message":
  "..."}` with the user's next message.
- `GET /s/KEY/request`: the environment's latest request.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web
from gymnasium.error import InvalidAction

from gym_llm.agents.agent_episode import AgentEpisode
from gym_llm.agents.mailbox import EpisodeOver
from gym_llm.errors import CallerError
from gym_llm.protocols.http.access import AccessDenied, given_key
from gym_llm.protocols.http.bodies import read_body, read_value
from gym_llm.protocols.http.http_server import JSON, HttpServer, json_response
from gym_llm.protocols.mcp import Caller, Endpoint, McpError, ToolResult
from gym_llm.types import Item

SUBMIT = {
    "type": "function",
    "name": "submit",
    "description": "Give your answer to the user. What it returns is what the user says next, if the task goes on.",
    "parameters": {
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "The answer, whole."}},
        "required": ["answer"],
        "additionalProperties": False,
    },
    "strict": True,
}


class ToolServer(HttpServer):
    """Serves the tools of episodes to clients that know an episode's key. Lives on one event loop.

    Attributes:
        url: The address, `http://127.0.0.1:41231`, while it runs.
    """

    def __init__(self) -> None:
        super().__init__()
        self._episodes: dict[str, AgentEpisode] = {}
        self._mcp = Endpoint(self._toolbox_of)

    def _add_routes(self, application: web.Application) -> None:
        for start in ("/s/{key}", ""):
            application.router.add_get(f"{start}/tools", self._tools)
            application.router.add_post(f"{start}/tools/{{name}}", self._call)
            application.router.add_post(f"{start}/submit", self._submit)
            application.router.add_get(f"{start}/request", self._request)
            application.router.add_route("*", f"{start}/mcp", self._mcp.handle)

    async def _stop(self) -> None:
        await self._mcp.close()

    def url_of(self, key: str) -> str:
        """Return an episode's address."""
        return f"{self.url}/s/{key}"

    def open(self, key: str, episode: AgentEpisode) -> None:
        """Register an episode under its key."""
        self._episodes[key] = episode

    def close(self, key: str) -> None:
        """Forget an episode's key."""
        self._episodes.pop(key, None)

    # -- endpoints ---------------------------------------------------------------------------------------------------

    async def _tools(self, http: web.Request) -> web.Response:
        return json_response({"tools": self._episode(http).tools})

    async def _request(self, http: web.Request) -> web.Response:
        return json_response(self._episode(http).request)

    async def _call(self, http: web.Request) -> web.Response:
        episode = self._episode(http)
        text = (await read_body(http, any_type=True)).decode(errors="replace").strip() or "{}"
        return json_response({"output": await episode.call_tool(http.match_info["name"], text)})

    async def _submit(self, http: web.Request) -> web.Response:
        episode = self._episode(http)
        message = await episode.submit(_read_answer(await _json(http)))
        return json_response({"over": True} if message is None else {"over": False, "message": message})

    async def _toolbox_of(self, caller: Caller) -> _Toolbox:
        try:
            return _Toolbox(self._episode(caller.http))
        except AccessDenied as unwelcome:
            raise McpError(str(unwelcome), status=unwelcome.status) from None

    def _episode(self, http: web.Request) -> AgentEpisode:
        episode = self._episodes.get(http.match_info.get("key") or given_key(http))
        if episode is None:
            raise AccessDenied("The key is not of an episode under way.", 401)
        return episode

    def _error_response(self, http: web.Request, error: Exception) -> web.Response:
        if isinstance(error, EpisodeOver):
            return json_response({"error": str(error)}, 410)
        if isinstance(error, InvalidAction):
            return json_response({"error": str(error)}, 400)
        return super()._error_response(http, error)


class _Toolbox:
    """The tools of one episode for the MCP endpoint; see `gym_llm.protocols.mcp.Toolbox`."""

    def __init__(self, episode: AgentEpisode) -> None:
        self._episode = episode

    async def instructions(self) -> str:
        """Return the instructions for the client's model."""
        return "The tools of an environment. Give your answer with `submit`, unless the program that runs you does."

    async def task(self) -> list[Item]:
        """Return the task."""
        return self._episode.request["input"]

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the environment's tools, and `submit`."""
        own = [tool for tool in self._episode.tools if tool.get("type") == "function"]
        return own if any(tool.get("name") == "submit" for tool in own) else [*own, SUBMIT]

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool."""
        episode = self._episode
        try:
            if name == "submit" and not any(tool.get("name") == "submit" for tool in episode.tools):
                message = await episode.submit(_read_answer(arguments))
                return ToolResult("The episode is over." if message is None else message)
            return ToolResult(await episode.call_tool(name, arguments))
        except (CallerError, InvalidAction) as error:
            return ToolResult(str(error), is_error=True)


def _read_answer(body: Any) -> Any:
    if isinstance(body, dict) and "output" not in body:
        if not isinstance(answer := body.get("answer"), str):
            raise CallerError('An answer is {"answer": "..."}, with a text, or {"output": [...]} with items.')
        return answer
    return body


async def _json(http: web.Request) -> Any:
    if http.content_type != JSON:
        raise CallerError(f"The body must be JSON, with the header Content-Type: {JSON}.")
    try:
        return await read_value(http)
    except ValueError:
        raise CallerError("The body is not JSON.") from None
