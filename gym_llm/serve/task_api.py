"""OpenEnv's Task API, which is ORS's: which tasks an environment has, to be chosen by `reset(split=, index=)`.

Of a task it shows what a model is shown: its request. What its verifier knows stays here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from gym_llm.protocols.http.http_server import json_response
from gym_llm.serve.episode_session import BadRequest
from gym_llm.serve.frontend import Handler, Route, read_json
from gym_llm.serve.served_env import ServedEnv

_MOST_LISTED = 1_000  # at once; `num_tasks` says how many there are, `task_range` gives the others
_SPLIT = re.compile(r"(?<![a-z])(train|validation|test)(?![a-z])")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    split: str


class _TaskBody(_Body):
    index: int


class _RangeBody(_Body):
    start: int | None = None
    stop: int | None = None


def split_of(env: ServedEnv) -> str:
    """Return the split of the environment's tasks, by the name of their source; `train` if that says nothing.

    A validation set called `data/validation.jsonl` is `validation`.
    """
    source = env.factory.arguments["tasks"]
    names = _SPLIT.findall(source.lower()) if isinstance(source, str) else []
    return names[-1] if names else "train"


class TaskApi:
    """The Task API's addresses of one environment.

    Args:
        env: It.
    """

    def __init__(self, env: ServedEnv) -> None:
        self._env = env
        self._split = split_of(env)

    def routes(self) -> Iterable[Route]:
        """Return the routes."""
        yield Route("GET", "/list_environments", self._environments, {"summary": "Environments.", "tags": ["Task API"]})
        yield Route("GET", "/{env_name}/splits", self._splits, {"summary": "Splits of tasks.", "tags": ["Task API"]})
        tools = {tool.get("name") for tool in self._env.tools}
        for name, kind, answer in (
            ("tasks", _Body, self._tasks),
            ("num_tasks", _Body, self._count),
            ("task", _TaskBody, self._task),
            ("task_range", _RangeBody, self._range),
        ):
            operation = {"summary": f"{name} of a split.", "tags": ["Task API"], "requestBody": _json_body(kind)}
            handler = self._handler(kind, answer)
            yield Route("POST", f"/{{env_name}}/{name}", handler, operation)
            if name not in tools:  # NeMo Gym's protocol has an address for each tool there, known or not
                yield Route("POST", f"/{self._env.name}/{name}", handler)

    async def _environments(self, _: web.Request) -> web.Response:
        return json_response([self._env.name])

    async def _splits(self, http: web.Request) -> web.Response:
        self._check_name(http)
        return json_response([{"name": self._split, "type": self._split}])

    def _handler(self, kind: type[_Body], answer: Any) -> Handler:
        async def handler(http: web.Request) -> web.Response:
            self._check_name(http)
            try:
                body = kind.model_validate(await read_json(http))
            except ValidationError as error:
                faults = error.errors(include_url=False, include_context=False, include_input=False)
                return json_response({"detail": [{**fault, "loc": ["body", *fault["loc"]]} for fault in faults]}, 422)
            if body.split != self._split:
                raise BadRequest(f"There is no split {body.split[:100]!r}; there is {self._split!r}.")
            if self._env.verifier.tasks is None:
                return _not_supported("The environment has no tasks of its own")
            try:
                return json_response(answer(body))
            except NotImplementedError as error:
                return _not_supported(str(error))
            except IndexError:
                return json_response({"detail": "Invalid task index"}, 400)

        return handler

    def _tasks(self, _: _Body) -> dict[str, Any]:
        tasks = [self._shown(index) for index in range(min(self._size(), _MOST_LISTED))]
        return {"tasks": tasks, "env_name": self._env.name}

    def _count(self, _: _Body) -> dict[str, Any]:
        return {"num_tasks": self._size()}

    def _task(self, body: _TaskBody) -> dict[str, Any]:
        return {"task": self._shown(body.index), "env_name": self._env.name}

    def _range(self, body: _RangeBody) -> dict[str, Any]:
        indices = range(self._size())[body.start : body.stop]
        return {"tasks": [self._shown(index) for index in indices[:_MOST_LISTED]], "env_name": self._env.name}

    def _size(self) -> int:
        size: int | None = self._env.verifier.num_tasks
        if size is None:
            raise NotImplementedError("Its tasks are generated without end, each by its index; counting them")
        return size

    def _shown(self, index: int) -> dict[str, Any]:
        task = self._env.verifier.tasks[index]
        return {"id": f"{self._split}-{index}", "index": index, "split": self._split, "request": task.request}

    def _check_name(self, http: web.Request) -> None:
        if http.match_info.get("env_name", self._env.name).lower() != self._env.name.lower():
            raise web.HTTPNotFound(reason="unknown environment")


def _not_supported(what: str) -> web.Response:
    return json_response({"detail": f"{what} is not supported for this environment"}, 501)


def _json_body(kind: type[BaseModel]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": kind.model_json_schema()}}}
