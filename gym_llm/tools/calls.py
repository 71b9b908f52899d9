"""Answering a turn's function calls: every call gets its `function_call_output`, whatever happens in it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import Any, TypeAlias

from gym_llm.concurrency import driven, run_blocking, wait
from gym_llm.errors import ToolCallError
from gym_llm.tools.tool import Tool, error_output, tool_output
from gym_llm.types import Item

Outcome: TypeAlias = tuple[str, bool]
"""The output's text, and whether it reports an error."""


def run(env: Any, tools: Mapping[str, Tool], calls: list[Item], state: Any) -> tuple[list[Item], int]:
    """Run a turn's calls: synchronous tools one after another, then async and blocking ones all at once.

    Args:
        env: The environment whose methods the tools are.
        tools: Its tools by name; any other name is an unknown tool.
        calls: `function_call` items.
        state: The episode's state.

    Returns:
        One `function_call_output` item per call, in the calls' order, and how many of them report an error.
    """
    outcomes = [_start(env, tools, call, state) for call in calls]
    waiting = [outcome for outcome in outcomes if not isinstance(outcome, tuple)]
    results = iter(wait(_gather(waiting)) if waiting else ())
    outputs: list[Item] = []
    errors = 0
    for call, outcome in zip(calls, outcomes, strict=True):
        text, is_error = outcome if isinstance(outcome, tuple) else _finish(next(results))
        outputs.append({"type": "function_call_output", "call_id": call["call_id"], "output": text})
        errors += is_error
    return outputs, errors


def _start(env: Any, tools: Mapping[str, Tool], call: Item, state: Any) -> Outcome | Awaitable[Any]:
    """Make a call; what has to be waited for is returned as it is."""
    try:
        name = call["name"]
        tool = tools.get(name)
        if tool is None:
            raise ToolCallError(f"There is no tool named {name[:100]!r}; the tools are: {', '.join(tools) or 'none'}.")
        arguments = tool.arguments(call["arguments"])
        if tool.wants_state:
            arguments["state"] = state
        if tool.blocking and driven():
            return run_blocking(tool.function, env, **arguments)
        result = tool.function(env, **arguments)
        return result if inspect.isawaitable(result) else (tool_output(result), False)
    except (Exception, SystemExit) as error:  # a tool's failure is the model's to read
        return _failure(error)


async def _gather(awaitables: list[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*map(_without_exit, awaitables), return_exceptions=True)


async def _without_exit(awaitable: Awaitable[Any]) -> Any:
    """`gather` catches whatever a task raises, except `SystemExit`, which would end the event loop."""
    try:
        return await awaitable
    except SystemExit as error:
        return error


def _finish(result: Any) -> Outcome:
    if isinstance(result, BaseException):
        # A cancelled episode never gets here: a CancelledError among the results is of the tool's own making.
        if not isinstance(result, (Exception, SystemExit, asyncio.CancelledError)):
            raise result
        return _failure(result)
    try:
        return tool_output(result), False
    except Exception as error:  # JSON cannot say what the tool returned
        return _failure(error)


def _failure(error: BaseException) -> Outcome:
    message = str(error) if isinstance(error, ToolCallError) else f"{type(error).__name__}: {error}"
    return error_output(message), True
