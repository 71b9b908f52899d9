"""ReasoningParser: thinking that a model wrote between tags becomes a reasoning item."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from gym_llm.parsers.message_parts import hand_over_tokens, is_message, is_text, joined_text, reasoning_item, with_text
from gym_llm.responses.actions import output_items, with_output
from gym_llm.types import Item


class ReasoningParser(gym.ActionWrapper[Any, Any, Any], RecordConstructorArgs):
    r"""Moves thinking between tags out of the model's messages into reasoning items.

    A message's text is read from its beginning:

    - `<think>…</think>`, any number of times with only whitespace around, is reasoning; one item for each block.
    - Where `</think>` comes first, everything before it is reasoning: the chat template had opened the block.
    - An unclosed `<think>` makes the rest reasoning (`status` is `"incomplete"`), and there is no message: the
      episode's answer is "".
    - From the first other text on, everything is the answer; tags in it (quoted, in code) are plain text.

    No character is lost or changed. A reasoning item's text is exactly what stood between the tags, line breaks
    included (a chat template that writes its own around the tags has to strip these, as Qwen3's does); the message's
    text is exactly what followed the end tag. Whitespace before a start tag stays where it was, as a message of its
    own. So start tag + reasoning + end tag, and the messages, joined in order, are what the model wrote (a block that
    the template opened has its start tag in the prompt, and an incomplete one has no end tag).

    Nothing happens to a turn that has reasoning items already. A message without an answer is dropped, as the
    Responses API does; the turn's token fields stay on its last item. Goes around `ToolCallParser`, so that a call
    that was only thought of is not made.

    Args:
        env: The environment to wrap.
        start: The tag that opens a block.
        end: The tag that closes it.

    Raises:
        ValueError: If a tag is empty, or both are the same.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import ReasoningParser
        >>> env = ReasoningParser(gym.make("gym_llm/Weather-v0"))
        >>> text = "<think>\nRain, I guess.\n</think>\n\nIt rains."
        >>> action = [{"type": "message", "id": "msg_1", "role": "assistant", "content": text}]
        >>> reasoning, message = env.action(action)
        >>> reasoning["id"], reasoning["summary"][0]["text"], message["content"]
        ('rs_msg_1', '\nRain, I guess.\n', '\n\nIt rains.')
    """

    def __init__(self, env: gym.Env[Any, Any], start: str = "<think>", end: str = "</think>") -> None:
        if not start or not end or start == end:
            raise ValueError(f"start and end are two different tags that are not empty; got {start!r} and {end!r}.")
        RecordConstructorArgs.__init__(self, start=start, end=end)
        gym.ActionWrapper.__init__(self, env)
        self.start = start
        self.end = end
        self._first = start[0] if start[0] == end[0] else ""

    def action(self, action: Any) -> Any:
        """The action with its thinking in reasoning items; the same object if there is nothing to do."""
        items = output_items(action)
        if not self._has_tags(items):
            return action
        parsed: list[Item] = []
        answering = False
        for index, item in enumerate(items):
            if answering or not is_message(item):
                parsed.append(item)
            else:
                pieces, answering = self._parse(item, index)
                parsed.extend(pieces)
        return with_output(action, parsed)

    def _has_tags(self, items: list[Item]) -> bool:
        found = False
        for item in items:
            kind = item.get("type")
            if kind == "reasoning":
                return False
            if kind == "message" or kind is None:
                content = item["content"]
                if content.__class__ is str:
                    found = found or self._has_tag(content)
                else:
                    for part in content:
                        text = part.get("text")
                        found = found or (text.__class__ is str and self._has_tag(text))
        return found

    def _has_tag(self, text: str) -> bool:
        # One character is found ten times as fast as a tag, and most texts do not even have that.
        return self._first in text and (self.start in text or self.end in text)

    def _parse(self, message: Item, index: int) -> tuple[list[Item], bool]:
        """The items that take a message's place, and whether the answer has begun."""
        content = message["content"]
        text = joined_text(content)
        blocks, position = split_reasoning(text, self.start, self.end)
        if not blocks:
            return [message], bool(text.strip())
        name = message.get("id") or index
        pieces: list[Item] = []
        for number, (gap, thought, closed) in enumerate(blocks):
            if gap:
                pieces.append(with_text(message, gap, number=number + 1))
            pieces.append(reasoning_item(name, number, thought, closed=closed))
        rest = content[position:] if isinstance(content, str) else _parts_from(content, position)
        if rest:
            pieces.append({**with_text(message, ""), "content": rest})
        hand_over_tokens(message, pieces)
        return pieces, bool(text[position:].strip())


def split_reasoning(text: str, start: str, end: str) -> tuple[list[tuple[str, str, bool]], int]:
    r"""Find the thinking at the beginning of a text, in linear time.

    Args:
        text: What the model wrote.
        start: The tag that opens a block.
        end: The tag that closes it.

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
        closing = text.find(end, opening + len(start))
        closed = closing >= 0
        stop = closing if closed else len(text)
        blocks.append((text[position:opening], text[opening + len(start) : stop], closed))
        position = stop + len(end) if closed else stop


def _parts_from(content: list[dict[str, Any]], position: int) -> list[dict[str, Any]]:
    """The content after `position` characters of text: parts as they are, the one in which that lies cut."""
    parts: list[dict[str, Any]] = []
    for part in content:
        if is_text(part):
            text = part["text"]
            if position >= len(text) > 0 or not text:
                position -= len(text)
                continue
            if position > 0:
                part = {**part, "text": text[position:]}
                position = 0
        parts.append(part)
    return parts
