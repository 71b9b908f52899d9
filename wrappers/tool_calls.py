"""ToolCallParser: tool calls that a model wrote as text become function_call items."""

from __future__ import annotations

import re
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from gym_llm.parsers import tool_call_formats
from gym_llm.parsers.call_parser import CallParser
from gym_llm.parsers.message_parts import hand_over_tokens, is_message, is_text, joined_text, with_text
from gym_llm.parsers.tool_call_formats import WrittenCall
from gym_llm.responses.actions import output_items, with_output
from gym_llm.types import Item
from gym_llm.wrappers.reasoning import ReasoningParser

_FORMATS = ("auto", "hermes", "llama")
_MAYBE_LLAMA = re.compile(r"\s*(?:\{|<\|python_tag\|>)")


class ToolCallParser(CallParser, RecordConstructorArgs):
    """Turns tool calls written as text into `function_call` items.

    - `"hermes"`: `<tool_call>{"name": …, "arguments": …}</tool_call>`, any number in a message, as Nous Hermes and
      Qwen write them. What is said before, between and after the calls stays there, word for word, as messages;
      whitespace alone beside a call is part of the format and dropped.
    - `"llama"`: the whole message is `{"name": …, "parameters": …}`, several separated by `;`, after an optional
      `<|python_tag|>`. This is a call only if the request offered tools; elsewhere a JSON answer is an answer.
    - `"auto"`: Hermes where there is a `<tool_call>`, else Llama.

    Arguments are kept as the model wrote them (`"{}"` if it wrote none); whether they fit is the environment's to
    say. A broken call is a `function_call` too: under the name that can be made out, or `invalid_tool_call`, with
    everything that was written as its arguments. So nothing is lost, and the environment answers with an error for
    the model to read.

    As with `vllm serve`, only the first call is made if the request has `parallel_tool_calls` false, and none if its
    `tool_choice` is "none".

    Call ids are `call_1`, `call_2`, … in each episode, skipping ids that are taken. The turn's token fields stay on
    its last item. `ReasoningParser` goes around this wrapper, so that a call that was only thought of is not made.

    Args:
        env: The environment to wrap.
        format: `"auto"`, `"hermes"` or `"llama"`.

    Raises:
        ValueError: If the format is unknown, or `env` is wrapped in a `ReasoningParser` already.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import ToolCallParser
        >>> env = ToolCallParser(gym.make("gym_llm/Weather-v0"))
        >>> observation, info = env.reset(seed=0)
        >>> text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
        >>> action = [{"type": "message", "role": "assistant", "content": text}]
        >>> observation, reward, terminated, truncated, info = env.step(action)
        >>> [item["type"] for item in observation["input"][-2:]], terminated
        (['function_call', 'function_call_output'], False)
    """

    def __init__(self, env: gym.Env[Any, Any], format: Literal["auto", "hermes", "llama"] = "auto") -> None:
        if format not in _FORMATS:
            raise ValueError(f"format is one of {', '.join(_FORMATS)}; got {format!r}.")
        layer = env
        while isinstance(layer, gym.Wrapper):
            if isinstance(layer, ReasoningParser):
                raise ValueError(
                    "ToolCallParser was put around ReasoningParser and would make calls that were only thought of; "
                    "put it on first, then ReasoningParser."
                )
            layer = layer.env
        RecordConstructorArgs.__init__(self, format=format)
        CallParser.__init__(self, env)
        self.format = format
        self._hermes = format != "llama"
        self._llama = format != "hermes"

    def action(self, action: Any) -> Any:
        """The action with its calls in `function_call` items; the same object if there are none."""
        items = output_items(action)
        for item in items:
            kind = item.get("type")
            if (kind == "message" or kind is None) and self._may_call(item["content"]):
                break
        else:
            return action
        if self._forbidden():
            return action
        parsed: list[Item] = []
        found = False
        taken = self._taken(items)
        for item in items:
            written = self._read(item) if is_message(item) else []
            if any(isinstance(piece, WrittenCall) for piece in written):
                parsed.extend(self._items(item, written, taken))
                found = True
            else:
                parsed.append(item)
        return with_output(action, self._allowed(parsed)) if found else action

    def _may_call(self, content: Any) -> bool:
        if content.__class__ is str:
            return self._may_call_in(content)
        for part in content:
            text = part.get("text")
            if text.__class__ is str and self._may_call_in(text):
                return True
        return False

    def _may_call_in(self, text: str) -> bool:
        # One character is found ten times as fast as a tag, and most texts do not even have that.
        return (self._hermes and "<" in text and tool_call_formats.OPEN in text) or (
            self._llama and _MAYBE_LLAMA.match(text) is not None and bool(self._names())
        )

    def _names(self) -> set[str]:
        """Names of the tools that the request offered."""
        return {tool["name"] for tool in self._tools() if isinstance(tool.get("name"), str)}

    def _read(self, message: Item) -> list[Any]:
        """The texts and calls that a message consists of."""
        text = joined_text(message["content"])
        if self._hermes and tool_call_formats.OPEN in text:
            return tool_call_formats.hermes(text)
        if self._llama and _MAYBE_LLAMA.match(text) and (names := self._names()):
            return list(tool_call_formats.llama(text, names) or ())
        return []

    def _items(self, message: Item, written: list[Any], taken: set[str]) -> list[Item]:
        """The items that take a message's place."""
        items: list[Item] = []
        number = 0
        for piece in written:
            if isinstance(piece, WrittenCall):
                items.append(self._function_call(piece.name, piece.arguments, taken))
            elif not piece.isspace():
                items.append(with_text(message, piece, number=number))
                number += 1
        if not isinstance(message["content"], str) and (rest := [p for p in message["content"] if not is_text(p)]):
            items.append({**with_text(message, "", number=number), "content": rest})
        hand_over_tokens(message, items)
        return items
