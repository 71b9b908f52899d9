"""The two sides of an agent's episode: the environment asks and answers, the agent acts, each when it is ready.

The environment's side is `next_action` and `give`, in turns: an action is taken, the environment makes a step with it,
and its next request is given. The agent's side is `call` and `step`, at any time and several at once: what it does
waits in a queue. Calls that wait together are one action, as a model's parallel calls are; a step is one by itself.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gym_llm.errors import CallerError
from gym_llm.types import Item, Request

_MOST_WAITING = 4_096
_TOGETHER_SECONDS = 0.02


class EpisodeOver(CallerError):
    """The agent did something when its episode had ended already."""

    def __init__(self) -> None:
        super().__init__("The episode is over.")


@dataclass(slots=True, eq=False)
class _Call:
    item: Item
    output: asyncio.Future[str]


@dataclass(slots=True, eq=False)
class _Step:
    response: dict[str, Any]
    request: asyncio.Future[Request | None]


class AgentMailbox:
    """One episode's. Used from one event loop.

    Args:
        request: The environment's first.
        missing: How many calls of tools the model has asked for that the agent has not made: where it makes one of
            several, the others are waited for, for a moment.

    Attributes:
        request: The environment's latest.
        is_over: Whether the episode has ended.
    """

    def __init__(self, request: Request, missing: Callable[[], int]) -> None:
        self.request = request
        self.is_over = False
        self._missing = missing
        self._waiting: deque[_Call | _Step] = deque()
        self._given: list[_Call | _Step] = []
        self._something = asyncio.Event()

    # -- the agent's side ----------------------------------------------------------------------------------------------

    async def call(self, name: str, arguments: str, call_id: str = "") -> str:
        """Call a tool of the environment; its output.

        Raises:
            EpisodeOver: If there is no output any more.
        """
        item = {
            "type": "function_call",
            "name": name,
            "arguments": arguments,
            "call_id": call_id or _new_id(),
            "status": "completed",
        }
        output: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._put(_Call(item, output))
        return await output

    async def step(self, response: dict[str, Any]) -> Request | None:
        """Answer; the environment's next request, None if that ended the episode.

        Raises:
            EpisodeOver: If it had ended already.
        """
        request: asyncio.Future[Request | None] = asyncio.get_running_loop().create_future()
        self._put(_Step(response, request))
        return await request

    def _put(self, action: _Call | _Step) -> None:
        if self.is_over:
            raise EpisodeOver
        if len(self._waiting) >= _MOST_WAITING:
            raise CallerError(f"{_MOST_WAITING:,} calls are waiting already: wait for their outputs.")
        self._waiting.append(action)
        self._something.set()

    # -- the environment's side ----------------------------------------------------------------------------------------

    @property
    def has_action(self) -> bool:
        """Whether something that the agent has done is to be taken."""
        return bool(self._waiting)

    async def next_action(self) -> dict[str, Any]:
        """Wait until the agent does something; the action as a response's fields."""
        while not self._waiting:
            self._something.clear()
            await self._something.wait()
        if isinstance(first := self._waiting[0], _Step):
            self._waiting.popleft()
            self._given = [first]
            return first.response
        await self._others()
        calls: list[_Call] = []
        while self._waiting and isinstance(self._waiting[0], _Call):
            calls.append(self._waiting.popleft())  # type: ignore[arg-type]
        ids: set[str] = set()
        for call in calls:  # models do write one id twice: each call has an output of its own
            if call.item["call_id"] in ids:
                call.item["call_id"] = _new_id()
            ids.add(call.item["call_id"])
        self._given = [*calls]
        return {"output": [call.item for call in calls]}

    def give(self, request: Request) -> None:
        """Tell the agent what came of its last action."""
        self.request = request
        given, self._given = self._given, []
        outputs = {item.get("call_id"): item.get("output") for item in reversed(_news(request["input"]))}
        for action in given:
            if isinstance(action, _Step):
                _resolve(action.request, request)
            else:
                output = outputs.get(action.item["call_id"])
                _resolve(action.output, output if isinstance(output, str) else _written(output))

    def end(self) -> None:
        """The episode is over: whoever waits is told."""
        self.is_over = True
        for action in (*self._given, *self._waiting):
            if isinstance(action, _Step):
                _resolve(action.request, None)
            elif not action.output.done():
                action.output.set_exception(EpisodeOver())
                action.output.exception()  # nobody need be left who looks at it
        self._given.clear()
        self._waiting.clear()

    async def _others(self) -> None:
        """Wait for calls that are being made at the same time: for a moment, if the model asked for several."""
        await asyncio.sleep(0)
        now = asyncio.get_running_loop().time
        deadline = now() + _TOGETHER_SECONDS
        while self._missing() and (left := deadline - now()) > 0:
            self._something.clear()
            try:
                async with asyncio.timeout(left):
                    await self._something.wait()
            except TimeoutError:
                return
            await asyncio.sleep(0)


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex}"


def _news(items: list[Item]) -> list[Item]:
    start = len(items)
    while start and (items[start - 1].get("type") == "function_call_output" or _is_told(items[start - 1])):
        start -= 1
    return items[start:]


def _is_told(item: Item) -> bool:
    return item.get("type", "message") == "message" and item.get("role") != "assistant"


def user_text(request: Request) -> str:
    """What the user has said since the last action, as a text."""
    return "\n".join(text for item in _news(request["input"]) if _is_told(item) for text in [item_text(item)] if text)


def item_text(item: Item) -> str:
    """The texts of an item's content, one in a line."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _written(output: Any) -> str:
    if output is None:
        return '{"error": "The call was not answered."}'
    return item_text({"content": output})


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():  # whoever waited may have been cancelled
        future.set_result(value)
