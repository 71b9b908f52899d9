"""ToolCalls: calls that a model wrote as text become function_call items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from gym_llm.parsers import tool_call_formats
from gym_llm.parsers.base import MessageParser, Piece, Turn, WrittenCall
from gym_llm.types import Item

_FORMATS = ("auto", "hermes", "llama")
_MAYBE_LLAMA = re.compile(r"\s*(?:\{|<\|python_tag\|>)")


class ToolCalls(MessageParser):
    """Turns tool calls written as text, in one of these formats (another is a ValueError), into `function_call` items.

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
    `tool_choice` is "none". Comes after `Reasoning`, so that a call that was only thought of is not made.
    """

    def __init__(self, format: Literal["auto", "hermes", "llama"] = "auto") -> None:
        if format not in _FORMATS:
            raise ValueError(f"format is one of {', '.join(_FORMATS)}; got {format!r}.")
        self._hermes = format != "llama"
        self._llama = format != "hermes"

    def concerns(self, text: str) -> bool:
        """Whether there is a tag in it, or what may be a call in Llama's JSON."""
        # One character is found ten times as fast as a tag, and most texts do not even have that.
        return (self._hermes and "<" in text and tool_call_formats.OPEN in text) or (
            self._llama and _MAYBE_LLAMA.match(text) is not None
        )

    def read(self, message: Item, text: str, turn: Turn) -> list[Piece] | None:
        """The calls, and the texts around them; see `MessageParser.read`."""
        if not turn.may_call or not self.concerns(text):
            return None
        pieces: Sequence[str | WrittenCall]
        if self._hermes and tool_call_formats.OPEN in text:
            pieces = tool_call_formats.hermes(text)
        else:
            names = {tool["name"] for tool in turn.tools if isinstance(tool.get("name"), str)}
            pieces = (tool_call_formats.llama(text, names) if names else None) or ()
        return [piece for piece in pieces if not (isinstance(piece, str) and piece.isspace())] or None
