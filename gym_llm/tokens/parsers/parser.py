"""The interface of parsers, and a base class for parsers that split a turn's messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, TypeAlias

from gym_llm.types import TURN_FIELDS, Item, Request

MAX_PIECES = 256
"""The most items that are made of one message: a model that repeats a tag costs no more than one that does not."""


class Parser(Protocol):
    """Makes structured items of what a model wrote as text.

    It remembers nothing between turns, so that one object serves any number of episodes, and never raises for what a
    model can write.
    """

    def parse(self, items: list[Item], request: Request) -> list[Item]:
        """Parse the model's output items of one turn; `request` is the request that they answer.

        Returns the same list if nothing is to be parsed. Neither the list nor an item is changed. The turn's token
        fields (`gym_llm.types.Item`) move to the last of the items that replace the item which had them.
        """


class Thought(NamedTuple):
    """Reasoning as a model wrote it; `closed` if it came to the end of it."""

    text: str
    closed: bool = True


class WrittenCall(NamedTuple):
    """A call as a model wrote it; a broken one with the best guess of its name, and all of it as its arguments."""

    name: str
    arguments: str
    source: str = ""
    """The whole piece of text, tags and all, where it is known."""


Piece: TypeAlias = str | Thought | WrittenCall | Item
"""A part of what a message says, or an item that is ready; a last one has the content's parts that are not text."""


class MessageParser(ABC):
    """A base class for parsers whose `read` splits each message into pieces.

    The pieces replace the message; content parts that are not text, and the turn's tokens, move to them. Calls are
    numbered `call_1`, `call_2`, …, without ids that the conversation has already. If the request's
    `parallel_tool_calls` is false, the calls after a turn's first are left out, as on a vLLM server
    (vllm/entrypoints/serve/utils/tool_calls_utils.py, `maybe_filter_parallel_tool_calls`).

    A message of more than `MAX_PIECES` pieces is not changed. A parser may return fewer pieces, of which the last has
    the rest of the text.
    """

    def concerns(self, text: str) -> bool:
        """Whether a text may have something to parse in it: asked of every one, so it has to cost next to nothing."""
        return True

    @abstractmethod
    def read(self, message: Item, text: str, turn: Turn) -> list[Piece] | None:
        """Return the pieces of one message in order (empty texts are dropped); None to leave it unchanged.

        Called for all messages of a turn in which some text `concerns` this parser; `text` is all parts joined.
        """

    def parse(self, items: list[Item], request: Request) -> list[Item]:
        """The items with the messages taken apart; see `Parser.parse`."""
        for item in items:
            kind = item.get("type")
            if kind == "message" or kind is None:
                content = item["content"]
                if isinstance(content, str):
                    if self.concerns(content):
                        return self._take_apart(Turn(items, request))
                    continue
                for part in content:
                    text = part.get("text")
                    if isinstance(text, str) and self.concerns(text):
                        return self._take_apart(Turn(items, request))
        return items

    def _take_apart(self, turn: Turn) -> list[Item]:
        parsed: list[Item] = []
        changed = False
        for index, item in enumerate(turn.items):
            pieces = self.read(item, _joined_text(item["content"]), turn) if is_message(item) else None
            if pieces is None or len(pieces) > MAX_PIECES:
                parsed.append(item)
            else:
                parsed += turn.replacement(item, index, pieces)
                changed = True
        if turn.calls and turn.request.get("parallel_tool_calls") is False:
            return _without_later_calls(parsed)
        return parsed if changed else turn.items


class Turn:
    """A turn that is being taken apart: the model's output items, and the request that they answer.

    Attributes:
        has_calls: Whether an item is a call already.
        messages: How many are messages.
        may_think: Whether thinking is looked for: not in a turn that has reasoning items, nor after its beginning.
        may_call: Whether the request lets the model call tools.
        tools: Those that it may call.
        calls: The number of the last call that was made, 0 for none.
    """

    __slots__ = ("_taken", "calls", "has_calls", "items", "may_call", "may_think", "messages", "request", "tools")

    def __init__(self, items: list[Item], request: Request) -> None:
        self.items = items
        self.request = request
        kinds = [item.get("type") for item in items]
        self.may_think = "reasoning" not in kinds
        self.has_calls = "function_call" in kinds
        self.messages = kinds.count("message") + kinds.count(None)
        self.may_call = request.get("tool_choice") != "none"
        self.tools: list[dict[str, Any]] = (self.may_call and request.get("tools")) or []
        self.calls = 0
        self._taken: set[str] = set()

    def replacement(self, message: Item, index: int, pieces: list[Piece]) -> list[Item]:
        """Return the items that replace a message, which is the turn's item `index`."""
        items: list[Item] = []
        thoughts = texts = 0
        for piece in pieces:
            if isinstance(piece, Thought):
                name = f"rs_{_id_of(message) or index}" + (f"_{thoughts}" if thoughts else "")
                summary = [{"type": "summary_text", "text": piece.text}]
                status = "completed" if piece.closed else "incomplete"
                items.append({"type": "reasoning", "id": name, "summary": summary, "status": status})
                thoughts += 1
            elif isinstance(piece, WrittenCall):
                items.append(self._function_call(piece))
            elif isinstance(piece, dict):
                items.append(piece)
            elif piece:
                items.append(with_text(message, piece, texts))
                texts += 1
        content = [] if pieces and isinstance(pieces[-1], dict) else message["content"]
        if not isinstance(content, str) and (others := [part for part in content if not is_text(part)]):
            items.append(with_content(message, others, texts))
        if not items:
            items.append(with_text(message, ""))
        _hand_over_tokens(message, items[-1])
        return items

    def _function_call(self, call: WrittenCall) -> Item:
        if not self.calls:
            conversation = [*self.request.get("input", ()), *self.items]
            call_ids = (item.get("call_id") for item in conversation if item.get("type") == "function_call")
            self._taken = {call_id for call_id in call_ids if isinstance(call_id, str)}
        self.calls += 1
        while f"call_{self.calls}" in self._taken:
            self.calls += 1
        ids = {"id": f"fc_{self.calls}", "call_id": f"call_{self.calls}"}
        return {"type": "function_call", **ids, "name": call.name, "arguments": call.arguments, "status": "completed"}


def is_message(item: Item) -> bool:
    """Whether an output item is a message, in the long form or the short one that needs no `type`."""
    return item.get("type") in ("message", None)


def is_text(part: dict[str, Any]) -> bool:
    """Whether a content part has text (a refusal, for example, has not)."""
    return isinstance(part.get("text"), str)


def with_content(message: Item, content: str | list[dict[str, Any]], number: int = 0) -> Item:
    """A message like this one with other content and without the turn's tokens; its id ends in the number, if any."""
    piece = {**message, "content": content}
    if number and (message_id := _id_of(message)):
        piece["id"] = f"{message_id}_{number}"
    for field in TURN_FIELDS:
        piece.pop(field, None)
    return piece


def with_text(message: Item, text: str, number: int = 0) -> Item:
    """Return a copy of the message with this text as content."""
    in_parts = [{"type": "output_text", "text": text, "annotations": []}]
    return with_content(message, text if isinstance(message["content"], str) else in_parts, number)


def _id_of(message: Item) -> str:
    """A message's id; "" where it is no text: some values cannot be written as such."""
    message_id = message.get("id")
    return message_id if isinstance(message_id, str) else ""


def _joined_text(content: str | list[dict[str, Any]]) -> str:
    """All text of a message, a plain `str` also where it has one of a subclass."""
    return "".join([content] if isinstance(content, str) else [part["text"] for part in content if is_text(part)])


def _without_later_calls(items: list[Item]) -> list[Item]:
    first = next(item for item in items if item.get("type") == "function_call")
    kept = [item for item in items if item.get("type") != "function_call" or item is first]
    if kept[-1] is not items[-1]:
        kept[-1] = {**kept[-1]}
        _hand_over_tokens(items[-1], kept[-1])
    return kept


def _hand_over_tokens(message: Item, item: Item) -> None:
    for field in TURN_FIELDS:
        if field in message:
            item[field] = message[field]
