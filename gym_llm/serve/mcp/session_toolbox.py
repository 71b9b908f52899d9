"""The toolboxes of a served environment: one for each session, and one for clients that have none yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gym_llm.protocols.mcp import McpError, ToolResult
from gym_llm.protocols.mcp.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed, EpisodeSession, Step
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import AtCapacity, UnknownSession
from gym_llm.types import Item
from gym_llm.utils.json_codec import dumps

SUBMIT, RESET = "submit", "reset"
_NO_SESSION = (
    "There is no session yet: call `reset`, and send the `session` of its structured result with what you call then."
)
_OVER = "The episode is over."
_FAILED = "The episode is over: the environment has failed, and there is no reward."
_RESET_ARGUMENTS = {
    "task_index": {"type": "integer", "description": "The number of a task; without it one is drawn."},
    "seed": {"type": "integer", "description": "Seeds which task is drawn."},
    "task": {"type": "object", "description": "A task itself, as a row of the environment's task files has it."},
}
_ANSWER = {
    "description": "The answer: a text, or (from programs) Responses output items.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}],
}


class EpisodeToolbox:
    """The tools of one session. Each call is a turn of its episode; they are made one after the other.

    Args:
        env: The environment.
        session: The client's.
        task: What its address says of the task, as `reset`'s arguments; empty for nothing, and there is a `reset`.
    """

    def __init__(self, env: ServedEnv, session: EpisodeSession, task: dict[str, Any]) -> None:
        self._env = env
        self._session = session
        self._task = task
        self._begun: Step | None = None
        self._lock = asyncio.Lock()

    async def instructions(self) -> str:
        """Return what the environment is and how to play it, with the task if the address names one."""
        if not self._task:
            return instructions(self._env, self._names())
        task = "\n\n".join(part["text"] for part in _parts(await self.task()) if "text" in part)
        return f"{instructions(self._env, self._names(), begun=True)}\n\n{task}"

    async def task(self) -> list[Item]:
        """Return the first prompt of the episode; empty before the first episode."""
        return [] if self._begun is None else self._begun.request["input"]

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the episode's tools, `submit`, and `reset` unless the address names a task."""
        return [*self._tools(), *_own_tools(self._names(), reset=not self._task)]

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Take a turn that calls this tool or submits an answer, or begin an episode."""
        names = self._names()
        if name == names[RESET] and not self._task:
            return await self.reset(arguments)
        if name == names[SUBMIT]:
            answer = arguments.get("answer")
            if not isinstance(answer, str | list | dict):
                return ToolResult("Submit an `answer`: a text, or a list of Responses output items.", is_error=True)
            return await self._told(self._submit, answer)
        return await self._told(self._call, name, dumps(arguments).decode().strip())

    async def reset(self, arguments: dict[str, Any]) -> ToolResult:
        """Begin an episode; an episode under way is abandoned."""
        return await self._told(self._reset, arguments)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _tools(self) -> list[dict[str, Any]]:
        return self._env.tools if self._begun is None else [*self._begun.request.get("tools", [])]

    def _names(self) -> dict[str, str]:
        return own_names(self._tools())

    async def _told(self, work: Callable[..., Awaitable[ToolResult]], *args: Any) -> ToolResult:
        return await asyncio.shield(asyncio.ensure_future(self._alone(work, *args)))

    async def _alone(self, work: Callable[..., Awaitable[ToolResult]], *args: Any) -> ToolResult:
        async with self._lock:
            try:
                self._env.sessions.get(self._session.id)  # it may have ended since
                return await work(*args)
            except UnknownSession as error:
                raise McpError(str(error), status=404) from None
            except BadRequest as error:
                wrong = isinstance(error, _Wrong) or self._session.is_playing
                return ToolResult(str(error) if wrong else self._no_episode(), is_error=True)
            except EpisodeFailed as error:
                # What the author got wrong is not told to the model.
                failure = {"done": True, "masked": True, "failure_kind": error.failure.kind}
                return ToolResult(_FAILED, is_error=True, structured=failure)

    def _no_episode(self) -> str:
        over = "" if self._begun is None else _OVER
        return f"{over} {'' if self._task else f'Call `{self._names()[RESET]}` for a task first.'}".strip()

    async def _reset(self, arguments: dict[str, Any]) -> ToolResult:
        seed, options = _choice(arguments)
        self._begun, begun = None, await self._start(seed, options)
        self._begun = begun
        structured = {"task_index": begun.info.get("task_index"), "input": begun.request["input"]}
        return ToolResult(_parts(begun.request["input"]), structured={**structured, "tools": self._tools()})

    async def _start(self, seed: int | None, options: dict[str, Any] | None) -> Step:
        try:
            return await self._session.reset(seed=seed, options=options)
        except BadRequest as error:
            raise _Wrong(str(error)) from None

    async def _call(self, name: str, arguments: str) -> ToolResult:
        before = self._errors()
        call_id = f"call_{len(self._session.turn_rewards)}"
        call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        step = await self._session.step([call])
        outputs = [item["output"] for item in step.new_items if item.get("type") == "function_call_output"]
        others = [item for item in step.new_items if item.get("type") != "function_call_output"]
        parts = [part for output in outputs for part in ([_text(output)] if isinstance(output, str) else output)]
        return self._result([*parts, *_parts(others)], step, is_error=self._errors() > before)

    async def _submit(self, answer: str | list[Any] | dict[str, Any]) -> ToolResult:
        before = self._errors()
        step = await self._session.step(answer)
        return self._result(_parts(step.new_items), step, is_error=self._errors() > before, items=step.new_items)

    def _errors(self) -> int:
        last = self._session.last
        return 0 if last is None else int(last.info.get("tool_errors", 0))

    def _result(self, parts: list[dict[str, Any]], step: Step, *, is_error: bool, **more: Any) -> ToolResult:
        structured: dict[str, Any] = {"done": step.done, "reward": step.reward, **more}
        if step.done:
            total = self._session.total_reward
            structured |= {"reward": total, "terminated": step.terminated, "truncated": step.truncated}
            if "reward_components" in step.info:
                structured["reward_components"] = step.info["reward_components"]
            cut = " It was cut short." if step.truncated else ""
            parts = [*parts, _text(f"{_OVER}{cut} The reward is {total:g}.")]
        return ToolResult(parts, is_error=is_error, structured=structured)


class UnopenedToolbox:
    """The tools of a client without a session: `reset` opens one, and any other call is refused.

    Args:
        env: The environment.
        open_session: Opens a session; returns its id and its toolbox.
        task: The task of the address, as `reset`'s arguments; it replaces the client's arguments.
    """

    def __init__(
        self, env: ServedEnv, open_session: Callable[[], tuple[str, EpisodeToolbox]], task: dict[str, Any]
    ) -> None:
        self._env = env
        self._open_session = open_session
        self._task = task

    async def instructions(self) -> str:
        """Return what the environment is and how to play it."""
        return instructions(self._env, own_names(self._env.tools))

    async def task(self) -> list[Item]:
        """Return nothing: there is no episode yet."""
        return []

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the environment's tools, `submit` and `reset`."""
        return [*self._env.tools, *_own_tools(own_names(self._env.tools), reset=True)]

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Begin an episode in a new session, or answer that `reset` has to come first."""
        if name != own_names(self._env.tools)[RESET]:
            return ToolResult(_NO_SESSION, is_error=True)
        try:
            session_id, toolbox = self._open_session()
        except AtCapacity as error:
            return ToolResult(str(error), is_error=True)
        try:
            result = await toolbox.reset(self._task or arguments)
        except asyncio.CancelledError:  # the client has left, and nobody else knows of the session
            self._env.sessions.close_soon(self._env.sessions.get(session_id))
            raise
        if result.is_error:
            await self._env.sessions.close(self._env.sessions.get(session_id))
            return result
        return ToolResult(result.output, structured={**(result.structured or {}), "session": session_id})


class _Wrong(BadRequest):
    """Raised when the arguments of `reset` are invalid."""


def instructions(env: ServedEnv, names: dict[str, str], *, begun: bool = False) -> str:
    """Return what an environment is, and how its episodes are played over MCP."""
    first = "The task is below." if begun else f"Call `{names[RESET]}` for a task."
    how = f"{first} Use the tools as it needs them, and call `{names[SUBMIT]}` with your answer."
    return f"{env.description} {how}"


def own_names(tools: list[dict[str, Any]]) -> dict[str, str]:
    """Return the names of `submit` and `reset`, which differ if the tools have the names already."""
    taken = {tool.get("name") for tool in tools}
    return {name: f"episode_{name}" if name in taken else name for name in (SUBMIT, RESET)}


def _own_tools(names: dict[str, str], *, reset: bool) -> list[dict[str, Any]]:
    answer = {"type": "object", "properties": {"answer": _ANSWER}, "required": ["answer"]}
    said = "Give your answer. It is scored, unless the task goes on: then the result says how."
    tools = [{"type": "function", "name": names[SUBMIT], "description": said, "parameters": answer}]
    if reset:
        said = "Begin a task, and read what it asks. One that is under way is given up."
        arguments = {"type": "object", "properties": _RESET_ARGUMENTS}
        tools.append({"type": "function", "name": names[RESET], "description": said, "parameters": arguments})
    return tools


def _choice(arguments: dict[str, Any]) -> tuple[int | None, dict[str, Any] | None]:
    given = {name: value for name, value in arguments.items() if value is not None}
    if unknown := given.keys() - _RESET_ARGUMENTS.keys():
        raise _Wrong(f"A reset takes {', '.join(_RESET_ARGUMENTS)}; got {', '.join(map(repr, sorted(unknown)))[:200]}.")
    seed = given.pop("seed", None)
    if isinstance(seed, bool) or not isinstance(seed, int | None) or (seed or 0) < 0:
        raise _Wrong("The seed must be a whole number of 0 or more.")
    return seed, given or None


def _parts(items: list[Item]) -> list[dict[str, Any]]:
    """Return the content of items as content parts; with several items the role stands before each."""
    parts: list[dict[str, Any]] = []
    for item in items:
        content: Any = item.get("content") if item.get("type", "message") == "message" else dumps(item).decode().strip()
        said = (
            [_text(content)] if isinstance(content, str) else [part for part in content or [] if isinstance(part, dict)]
        )
        if len(items) > 1 and item.get("role") is not None:
            said.insert(0, _text(f"{item['role']}:"))
        parts += said
    return parts


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def failed(result: ToolResult) -> McpError:
    """Return the error of a handshake whose task could not begin: it is invalid, or the environment failed."""
    return McpError(str(result.output), INVALID_PARAMS if result.structured is None else INTERNAL_ERROR)
