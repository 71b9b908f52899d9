"""OrsFrontend: the routes of the Open Reward Standard's servers, for `EnvServer`.

A client asks `/create_session` for an id, which it sends as `X-Session-ID` with all that follows. `/create` begins an
episode. Each `/call` is a turn: of a tool, or, by the terminal tool, of the model's text. `/delete` ends the session.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from gym_llm.protocols.http.http_server import json_response
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed, EpisodeSession
from gym_llm.serve.frontend import NotJSON, Route, read_json
from gym_llm.serve.ors import ors_messages as wire
from gym_llm.serve.ors.call_streams import once, stream
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import UnknownSession
from gym_llm.serve.task_api import TaskApi, split_of
from gym_llm.types import Item
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redact
from gym_llm.version import __version__

SESSION_HEADER = "X-Session-ID"
_PROMPT = "ors_prompt"  # of a session's notes
_NAMED = "/{env_name}"
_OVER = "The episode is over."


class OrsFrontend:
    """The Open Reward Standard's routes of one environment.

    Args:
        env: The environment.
    """

    def __init__(self, env: ServedEnv) -> None:
        self._env = env
        self._split = split_of(env)
        self._tasks = TaskApi(env)
        self._env_ids = {env_id.rpartition("/")[2].lower(): env_id for env_id in env.sessions.factories}

    def routes(self) -> Iterable[Route]:
        """Return the frontend's routes; those of one environment are below its name, too."""
        for route in self._tasks.routes():
            if route.path.startswith(_NAMED):
                yield route._replace(path=route.path.removeprefix(_NAMED))
        yield Route("GET", "/list_environments", self._environments, {"summary": "Environments.", "tags": ["ORS"]})
        yield Route("GET", "/version", self._version, {"summary": "The server's version.", "tags": ["ORS"]})
        for method, path, handler, summary in (
            ("GET", "/tools", self._tools, "Tools of the environment."),
            ("GET", "/task_tools", self._task_tools, "Tools of the session's episode."),
            ("GET", "/prompt", self._prompt, "The task, as blocks."),
            ("GET", "/messages", self._messages, "The task, as messages."),
            ("POST", "/call", self._call, "Call a tool; the answer is a stream of events."),
            ("POST", "/create_session", self._create_session, "A new session id, as an event."),
            ("POST", "/create", self._create, "Begin an episode."),
            ("POST", "/ping", self._ping, "Keep a session."),
            ("POST", "/delete", self._delete, "End a session."),
            ("POST", "/delete_session", self._delete, "End a session."),
        ):
            yield Route(method, path, handler, {"summary": summary, "tags": ["ORS"]})

    async def session_of(self, http: web.Request) -> str | None:
        """Return the session id of a request's header."""
        return _session_id(http) or None

    def refusal(self, error: BaseException, status: int) -> web.Response:
        """Return an error as the standard's servers write it: `{"detail": ...}`."""
        if status == 500 and not isinstance(error, EpisodeFailed):
            return json_response({"detail": "The server has failed; its log says how."}, status)
        return json_response({"detail": redact(str(error))}, 422 if isinstance(error, NotJSON) else status)

    # -- sessions ----------------------------------------------------------------------------------------------------

    async def _create_session(self, _: web.Request) -> web.Response:
        """Return an id; the session is opened by `/create`, which knows the environment."""
        return once(task_id=secrets.token_urlsafe(24), end="")

    async def _create(self, http: web.Request) -> web.Response:
        body, session_id = await read_json(http), _session_id(http)
        if not session_id:
            raise BadRequest(f"The header {SESSION_HEADER} is required.")
        named = body.get("env_name")
        env_id = self._env.env_id if named is None else self._env_ids.get(str(named).lower())
        if env_id is None:
            return json_response({"detail": f"Unknown environment {str(named)[:80]!r}."}, 404)
        options = self._options(body)
        try:
            session = self._env.sessions.open(env_id, protocol=self._env.protocol, session_id=session_id)
        except UnknownSession as error:
            raise BadRequest(str(error)) from None
        try:
            step = await session.reset(options=options)
        except BaseException:
            self._env.sessions.close_soon(session)
            raise
        session.notes[_PROMPT] = step.request
        return json_response({"sid": session_id})

    def _options(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the task of a `/create`: an index of the split, one that `/task` showed, or a row."""
        spec = body.get("task_spec")
        chosen = spec if isinstance(spec, dict) else body
        if isinstance(spec, dict) and "responses_create_params" in spec:
            return {"task": spec}
        index, split = chosen.get("index"), chosen.get("split")
        if type(index) is not int or split is None:
            raise BadRequest("Provide either task_spec, or both split and index.")
        if split != self._split:
            raise BadRequest(f"There is no split {str(split)[:100]!r}; there is {self._split!r}.")
        return {"task_index": index}

    async def _ping(self, http: web.Request) -> web.Response:
        self._session(http)
        return json_response({"status": "ok"})

    async def _delete(self, http: web.Request) -> web.Response:
        session_id = _session_id(http)
        try:
            await self._env.sessions.close(self._session(http))
        except UnknownSession:  # it has ended, or was never begun
            pass
        return json_response({"sid": session_id})

    def _session(self, http: web.Request) -> EpisodeSession:
        session = self._env.sessions.get(_session_id(http))
        if _PROMPT not in session.notes:
            raise UnknownSession("The session is of another protocol.")
        return session

    # -- episodes ----------------------------------------------------------------------------------------------------

    async def _call(self, http: web.Request) -> web.StreamResponse:
        body, session = await read_json(http), self._session(http)
        name, given, task_id = body.get("name"), body.get("input"), body.get("task_id")
        if not isinstance(name, str) or not isinstance(given, dict) or not isinstance(task_id, str | None):
            raise NotJSON('A call is {"name": …, "input": {…}}.')
        return await stream(http, session.notes, self._turn(session, name, given), task_id)

    async def _turn(self, session: EpisodeSession, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if session.outcome is not None:
            return wire.refused(_OVER, "episode_finished")
        if name != self._answer_name(_functions(session)):
            call = {"type": "function_call", "call_id": f"call_{len(session.turn_rewards) + 1}", "name": name}
            action: Any = [{**call, "arguments": dumps(given)[:-1].decode()}]
        elif (action := wire.answer_in(given)) is None:
            return wire.refused("The answer is a text.", "input_validation")
        try:
            return wire.output(await session.step(action))
        except BadRequest as error:  # a call before this one may have ended the episode
            if session.outcome is not None:
                return wire.refused(_OVER, "episode_finished")
            return wire.refused(str(error), "input_validation")

    async def _prompt(self, http: web.Request) -> web.Response:
        return json_response(wire.prompt(_first_items(self._session(http))))

    async def _messages(self, http: web.Request) -> web.Response:
        return json_response(wire.messages(_first_items(self._session(http))))

    async def _tools(self, _: web.Request) -> web.Response:
        return json_response(wire.tools(self._env.tools, self._answer_name(self._env.tools)))

    async def _task_tools(self, http: web.Request) -> web.Response:
        functions = _functions(self._session(http))
        return json_response(wire.tools(functions, self._answer_name(functions)))

    async def _environments(self, _: web.Request) -> web.Response:
        return json_response([env_id.rpartition("/")[2] for env_id in self._env_ids.values()])

    async def _version(self, _: web.Request) -> web.Response:
        return json_response({"version": __version__, "build_sha": None})

    @staticmethod
    def _answer_name(functions: list[dict[str, Any]]) -> str:
        taken = {tool.get("name") for tool in functions}
        return "submit" if "submit" not in taken else "episode_submit"


def _session_id(http: web.Request) -> str:
    return http.headers.get(SESSION_HEADER, "").strip()


def _functions(session: EpisodeSession) -> list[dict[str, Any]]:
    functions: list[dict[str, Any]] = session.notes[_PROMPT].get("tools") or []
    return functions


def _first_items(session: EpisodeSession) -> list[Item]:
    items: list[Item] = session.notes[_PROMPT]["input"]
    return items
