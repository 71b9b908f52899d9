"""AgentMailbox: where an environment and its agent exchange actions and results, each when it is ready.

The environment calls `next_action` and `give` in turns: it takes an action, makes a step with it, and gives its next
request. The agent calls `call` and `step` at any time, several at once; its actions wait in a queue. Calls that wait
together become one action, like a model's parallel calls; a step is an action by itself.
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
    """Raised when an agent acts after the end of its episode."""

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
    """The mailbox of one episode. Used from one event loop.

    Args:
        request: The environment's first request.
        missing: Returns the number of tool calls that the model has asked for and the agent has not made yet. If the
            agent makes one of several, the mailbox waits a moment for the others.

    Attributes:
        request: The environment's latest request.
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
        """Call a tool of the environment; return its output.

        Raises:
            EpisodeOver: If the episode has ended, or ends with this call.
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
        """Answer; return the environment's next request, or None if the answer ended the episode.

        Raises:
            EpisodeOver: If the episode had ended already.
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
        """Whether an action of the agent waits."""
        return bool(self._waiting)

    async def next_action(self) -> dict[str, Any]:
        """Wait for the agent's next action; return it as a response's fields."""
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
        """Deliver the results of the agent's last action."""
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
        """End the episode, and wake all waiting calls."""
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
    """Return the user's messages since the last action, as one text."""
    return "\n".join(text for item in _news(request["input"]) if _is_told(item) for text in [item_text(item)] if text)


def item_text(item: Item) -> str:
    """Return the texts of an item's content, one per line."""
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
