"""Reasoning: thinking that a model wrote between tags becomes reasoning items."""

from __future__ import annotations

from typing import Any

from gym_llm.tokens.parsers.parser import (
    MAX_PIECES,
    MessageParser,
    Piece,
    Thought,
    Turn,
    is_message,
    with_content,
    with_text,
)
from gym_llm.types import Item, Request

_MOST_BLOCKS = MAX_PIECES // 2 - 1  # one may have whitespace before it, which is a piece, too


class Reasoning(MessageParser):
    r"""A parser that moves reasoning between tags out of the model's messages into reasoning items.

    The parser reads a message's text from its beginning:

    - `<think>…</think>`, any number of times with only whitespace around, is reasoning: one item for each block.
    - If `</think>` comes first, everything before it is reasoning: the chat template opened the block.
    - A text without a tag that a limit cut off (`status` is `"incomplete"`) is reasoning too: the chat template opened
      the block. An engine that knows better says so with the message's `phase`, `"final_answer"`
      (`gym_llm.engines.thoughts`).
    - An unclosed `<think>` makes the rest reasoning (`status` is `"incomplete"`). No message is left, so the episode's
      answer is "".
    - From the first other text on, everything is the answer; tags in it (quoted, in code) are plain text. The same
      holds after a hundred blocks.

    No character is lost or changed. A reasoning item's text is exactly the text between the tags, with its line breaks.
    A chat template that writes its own line breaks must strip these, as Qwen3's does. The message's text is exactly the
    text after the end tag. Whitespace before a start tag becomes a message of its own. The model's output is therefore
    the concatenation of start tag, reasoning, end tag and messages. A block that the template opened has its start tag
    in the prompt, and an incomplete block has no end tag.

    A turn that has reasoning items already is not changed. A message without an answer is dropped, as in the Responses
    API. Use this parser before `ToolCalls`, so that a call inside the reasoning is not executed.

    Args:
        start: The tag that opens a block; not empty.
        end: The tag that closes it; not empty, and not equal to `start`.

    Raises:
        ValueError: If a tag is empty, or both are equal.
    """

    def __init__(self, start: str = "<think>", end: str = "</think>") -> None:
        if not start or not end or start == end:
            raise ValueError(f"start and end are two different tags that are not empty; got {start!r} and {end!r}.")
        self.start = start
        self.end = end
        self._first = start[0] if start[0] == end[0] else ""

    def concerns(self, text: str) -> bool:
        """Whether there is a tag in it."""
        # One character is found ten times as fast as a tag, and most texts do not even have that.
        return self._first in text and (self.start in text or self.end in text)

    def parse(self, items: list[Item], request: Request) -> list[Item]:
        """The items with the messages taken apart; see `Parser.parse`."""
        if items and _is_unsettled(items[-1]):
            return self._take_apart(Turn(items, request))
        return super().parse(items, request)

    def read(self, message: Item, text: str, turn: Turn) -> list[Piece] | None:
        """The thoughts at the message's beginning, and the rest of it; see `MessageParser.read`."""
        if not turn.may_think:
            return None
        blocks, position = split_reasoning(text, self.start, self.end)
        turn.may_think = not text[position:].strip()
        if not blocks:
            is_thought = _is_unsettled(message) and message is turn.items[-1] and not turn.has_calls and text.strip()
            return [Thought(text, closed=False)] if is_thought else None
        pieces: list[Piece] = []
        for number, (gap, thought, closed) in enumerate(blocks, 1):
            if gap:
                pieces.append(with_text(message, gap, number))
            pieces.append(Thought(thought, closed))
        content = message["content"]
        if rest := content[position:] if isinstance(content, str) else _parts_from(content, position):
            pieces.append(with_content(message, rest))
        return pieces


def _is_unsettled(item: Item) -> bool:
    """Whether an item is a message that was cut off, and no engine says that it is the answer."""
    return item.get("status") == "incomplete" and is_message(item) and item.get("phase") is None


def split_reasoning(text: str, start: str, end: str) -> tuple[list[tuple[str, str, bool]], int]:
    r"""Find the thinking at the beginning of a text, in linear time.

    Returns:
        The blocks, each as the whitespace before it, what was thought, and whether the block was closed; and where in
        `text` the answer begins.

    >>> split_reasoning("\n<think>hm</think> 4", "<think>", "</think>")
    ([('\n', 'hm', True)], 18)
    >>> split_reasoning("hm</think> 4", "<think>", "</think>")
    ([('', 'hm', True)], 10)
    """
    blocks: list[tuple[str, str, bool]] = []
    position = 0
    closing = text.find(end)
    if closing >= 0 and text.find(start, 0, closing) < 0:
        blocks.append(("", text[:closing], True))
        position = closing + len(end)
    while True:
        opening = text.find(start, position)
        if opening < 0 or not (opening == position or text[position:opening].isspace()):
            return blocks, position
        if len(blocks) == _MOST_BLOCKS:
            return blocks, position
        closing = text.find(end, opening + len(start))
        closed = closing >= 0
        stop = closing if closed else len(text)
        blocks.append((text[position:opening], text[opening + len(start) : stop], closed))
        position = stop + len(end) if closed else stop


def _parts_from(content: list[dict[str, Any]], position: int) -> list[dict[str, Any]]:
    """The content after `position` characters of text: parts as they are, the one in which that lies cut."""
    parts: list[dict[str, Any]] = []
    for part in content:
        text = part.get("text")
        if isinstance(text, str):
            cut = min(position, len(text))
            position -= cut
            if cut == len(text):
                continue
            part = {**part, "text": text[cut:]} if cut else part
        parts.append(part)
    return parts
