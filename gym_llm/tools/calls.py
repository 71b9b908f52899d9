"""Answering a turn's function calls: every call gets its `function_call_output`, whatever happens in it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import Any

from gym_llm.concurrency import driven, run_blocking, wait
from gym_llm.errors import ToolCallError
from gym_llm.tools.tool import Tool, error_output, tool_output
from gym_llm.types import Item


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
    errors = 0
    texts: list[str | None] = []
    waiting: list[tuple[int, Awaitable[Any]]] = []
    for index, call in enumerate(calls):
        text, failed = None, False
        try:
            result = _call(env, tools, call, state)
            if isinstance(result, _Waiting):
                waiting.append((index, result.awaitable))
            else:
                text = tool_output(result)
        except (Exception, SystemExit) as error:  # a tool's failure is the model's to read
            text, failed = error_output(_describe(error)), True
        texts.append(text)
        errors += failed
    if waiting:
        results = wait(_gather([awaitable for _, awaitable in waiting]))
        for (index, _), result in zip(waiting, results, strict=True):
            texts[index], failed = _finish(result)
            errors += failed
    outputs: list[Item] = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": text}
        for call, text in zip(calls, texts, strict=True)
    ]
    return outputs, errors


class _Waiting:
    __slots__ = ("awaitable",)

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self.awaitable = awaitable


def _call(env: Any, tools: Mapping[str, Tool], call: Item, state: Any) -> Any:
    name = call["name"]
    tool = tools.get(name)
    if tool is None:
        raise ToolCallError(f"There is no tool named {name[:100]!r}; the tools are: {', '.join(tools) or 'none'}.")
    arguments = tool.arguments(call["arguments"])
    if tool.wants_state:
        arguments["state"] = state
    if tool.blocking and driven():
        return _Waiting(run_blocking(tool.function, env, **arguments))
    result = tool.function(env, **arguments)
    return _Waiting(result) if inspect.isawaitable(result) else result


async def _gather(awaitables: list[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*map(_staying, awaitables), return_exceptions=True)


async def _staying(awaitable: Awaitable[Any]) -> Any:
    """What a task raises `gather` catches, but for `SystemExit`, which ends the event loop."""
    try:
        return await awaitable
    except SystemExit as error:
        return error


def _finish(result: Any) -> tuple[str, bool]:
    if isinstance(result, BaseException):
        # A cancelled episode never gets here: a CancelledError among the results is of the tool's own making.
        if not isinstance(result, (Exception, SystemExit, asyncio.CancelledError)):
            raise result
        return error_output(_describe(result)), True
    try:
        return tool_output(result), False
    except Exception as error:  # what the tool returned cannot be said in JSON
        return error_output(_describe(error)), True


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, ToolCallError) else f"{type(error).__name__}: {error}"
