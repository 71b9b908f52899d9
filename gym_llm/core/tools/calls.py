"""Answering a turn's function calls: every call gets its `function_call_output`, whatever the model wrote in it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import PydanticSerializationError

from gym_llm.concurrency import in_driver, run_blocking, wait
from gym_llm.concurrency.answered_once import answered_once, current_memory
from gym_llm.core.forgotten_await import await_hook, call_hook
from gym_llm.core.tools.tool import Tool, error_output, tool_output
from gym_llm.errors import ToolError
from gym_llm.types import Item
from gym_llm.utils.limits import CALLS, FEW, LIMITS, VALUES, count_values, limit

_Result: TypeAlias = tuple[str, bool]
"""The output's text, and whether it reports an error."""


class _Finished(NamedTuple):
    """A `_Result` that a tool's own return value cannot be taken for."""

    text: str
    is_error: bool


def run_calls(env: Any, tools: Mapping[str, Tool], calls: list[Item], state: Any) -> tuple[list[Item], int]:
    """Run a turn's calls: synchronous tools one after another, then async and blocking ones all at once.

    Calls beyond the limits of a turn (`gym_llm.utils.limits`) do not run; their outputs say so.

    Args:
        env: The environment whose methods the tools are.
        tools: Its tools by name; any other name is an unknown tool.
        calls: `function_call` items.
        state: The episode's state.

    Returns:
        One `function_call_output` item per call, in the calls' order, and how many of them report an error.

    Raises:
        Exception: The first exception of a tool that is not a `ToolError`, or JSON's error about a return value. It is
            raised after all tools have ended.
    """
    outcomes: list[_Result | Awaitable[Any]] = []
    refused = beyond_limits(calls, tools)
    try:
        for index, call in enumerate(calls):
            outcomes.append(refused[index] if index in refused else _start(env, tools, call, state))
    except BaseException:
        for outcome in outcomes:
            if inspect.iscoroutine(outcome):
                outcome.close()  # it was never begun
        raise
    waiting = [outcome for outcome in outcomes if not isinstance(outcome, tuple)]
    results = iter(wait(_gather(waiting)) if waiting else ())
    outputs: list[Item] = []
    errors = 0
    for call, outcome in zip(calls, outcomes, strict=True):
        text, is_error = outcome if isinstance(outcome, tuple) else _finish(next(results))
        outputs.append({"type": "function_call_output", "call_id": call["call_id"], "output": text})
        errors += is_error
    return outputs, errors


def beyond_limits(calls: list[Item], tools: Container[str]) -> dict[int, _Result]:
    """Return the outputs of the calls, by index, that are beyond the limits of a turn; `tools` has the tools' names."""
    refused: dict[int, _Result] = {}
    if len(calls) > FEW and len(calls) > (most := limit(CALLS)):
        output = error_output(f"It was not made: of a turn the first {most:,} calls are.")
        refused = dict.fromkeys(range(most, len(calls)), (output, True))
        calls = calls[:most]
    size = sum([len(call["arguments"]) for call in calls])
    if size > LIMITS[VALUES].least and size > (most := limit(VALUES)):
        left = most
        for index, call in enumerate(calls):
            if call["name"] not in tools:
                continue  # nobody reads its arguments
            if (count := count_values(call["arguments"], left)) <= left:
                left -= count
            else:
                said = f"are too many: those of a turn have at most {most:,} JSON values."
                refused[index] = error_output(f"The arguments of {call['name'][:100]} {said}"), True
    return refused


def _start(env: Any, tools: Mapping[str, Tool], call: Item, state: Any) -> _Result | Awaitable[Any]:
    """Make a call; what has to be waited for is returned as it is."""
    try:
        name = call["name"]
        tool = tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool named {name[:100]!r}; the tools are: {', '.join(tools) or 'none'}.")
        python = {"as_python": True} if env is not None and env.reads_python_json else {}
        arguments = tool.arguments(call["arguments"], **python)
        if tool.wants_state:
            arguments["state"] = state
        if tool.blocking and in_driver():
            if not tool.wants_state and current_memory() is not None:
                return _once(call, lambda: run_blocking(call_hook, tool.function, env, **arguments))
            return run_blocking(call_hook, tool.function, env, **arguments)
        if tool.is_async and not tool.wants_state and current_memory() is not None:
            return _once(call, lambda: call_hook(tool.function, env, **arguments))
        result = call_hook(tool.function, env, **arguments)
        return result if inspect.isawaitable(result) else (_output(result), False)
    except ToolError as error:
        return error_output(str(error)), True


async def _once(call: Item, make: Callable[[], Awaitable[Any]]) -> _Finished:
    """Make a call that waits for something outside, or return the output that it had before its episode was killed.

    A call with the episode's state is made again instead: it may change the state.
    """

    async def ask() -> list[Any]:
        return [*_finish(await await_hook(make()))]

    return _Finished(*await answered_once("tool", [call["name"], call["arguments"]], ask))


async def _gather(awaitables: list[Awaitable[Any]]) -> list[Any]:
    try:
        return await asyncio.gather(*map(_without_exit, awaitables), return_exceptions=True)
    finally:
        for awaitable in awaitables:
            if inspect.iscoroutine(awaitable):
                awaitable.close()  # a call that was cancelled before it had begun; nothing happens to the others


async def _without_exit(awaitable: Awaitable[Any]) -> Any:
    try:
        return await await_hook(awaitable)
    except SystemExit as error:
        return error


def _finish(result: Any) -> _Result:
    if isinstance(result, _Finished):
        return result
    if isinstance(result, ToolError):
        return error_output(str(result)), True
    if isinstance(result, BaseException):
        raise result
    try:
        return _output(result), False
    except ToolError as error:
        return error_output(str(error)), True


def _output(result: Any) -> str:
    try:
        return tool_output(result)
    except PydanticSerializationError:
        raise
    except (RecursionError, ValueError) as error:  # only what the model gave nests so deeply, or has so many digits
        if str(error).startswith("Circular"):
            raise
        raise ToolError(f"The result cannot be written: {str(error)[:100]}") from None
