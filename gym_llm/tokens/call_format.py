"""CallFormat: how a model writes its calls, read off its chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from gym_llm.tokens.template_profile import TemplateProfile, nine_characters

_NAMES = ("firstgymllm", "secondgymllm")
_VALUES = ("onegymllm", "twogymllm")
_TEXT = "textgymllm"
_ID = re.compile(r'\s*,\s*"id"\s*:\s*"([^"]*)"')
_THOUGHT_END = "</think>"


@dataclass(frozen=True, kw_only=True)
class CallFormat:
    r"""The text of a turn of calls: everything but the names and the arguments, which are a JSON object.

    Attributes:
        start: Before the first call's name.
        middle: Between a name and its arguments.
        end: After the last call's arguments, without the token that ends the turn.
        between: Between the arguments of a call and the next call's name; None if the model makes one call a turn.

    >>> CallFormat(start='<tool_call>\n{"name": "', middle='", "arguments": ', end="}\n</tool_call>").between
    """

    start: str
    middle: str
    end: str
    between: str | None = None


def call_format(tokenizer: Any, form: TemplateProfile, stops: Collection[str]) -> CallFormat | None:
    """Return the format in which a chat template shows a turn of calls.

    The template shows turns with one and two calls, and one with a text. Their difference is the format. This works for
    any template that writes arguments as JSON (Hermes, Qwen, Llama 3, Mistral, ...).

    Args:
        tokenizer: A `transformers` tokenizer with a chat template.
        form: The template's form of messages.
        stops: The texts of the tokens that end a turn.

    Returns:
        The format; None if the template shows no calls, or their arguments are not a JSON object (Qwen3-Coder's XML).
    """

    def shown(count: int) -> str:
        message = _calls(count) if count else {"role": "assistant", "content": _TEXT}
        tools = [_tool(name) for name in _NAMES]
        messages = form.of([{"role": "user", "content": "Hi"}, message])
        text: str = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=False, tokenize=False)
        return text

    if (text := _tried(shown, 0)) is None or (one := _tried(shown, 1)) is None:
        return None
    before = "".join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, one, strict=False)))
    name, value = _found(one, len(before), 0)
    if name is None or value is None:
        return None
    _, thinks, start = one[len(before) : name[0]].rpartition(_THOUGHT_END)
    start = start.lstrip() if thinks else start
    end = one[value[1] :]
    end = _ID.sub("", end[: min((end.find(stop) for stop in stops if stop in end), default=len(end))]).rstrip()
    between = None
    if (two := _tried(shown, 2)) is not None and one[: value[1]] == two[: value[1]]:
        following = _found(two, value[1], 1)[0]
        between = following and _ID.sub("", two[value[1] : following[0]])
        if between is not None and any(stop in between for stop in stops):
            between = None  # each call is a turn of its own
    if any(mark in part for mark in (*_NAMES, *_VALUES) for part in (start, end, between or "")):
        return None
    return CallFormat(start=start, middle=one[name[1] : value[0]], end=end, between=between)


def _tried(shown: Callable[[int], str], count: int) -> str | None:
    try:
        return shown(count)
    except Exception:  # templates raise what they like: Llama 3's shows one call at once
        return None


def _found(text: str, position: int, number: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Where a call's name and its arguments stand in a text, from a position on."""
    name = text.find(_NAMES[number], position)
    if name < 0:
        return None, None
    end = name + len(_NAMES[number])
    arguments = re.compile(r'\{\s*"text"\s*:\s*"' + _VALUES[number] + r'"\s*\}').search(text, end)
    return (name, end), arguments and arguments.span()


def _calls(count: int) -> dict[str, Any]:
    calls = [
        {
            "id": nine_characters(name),
            "type": "function",
            "function": {"name": name, "arguments": json.dumps({"text": value})},
        }
        for name, value in list(zip(_NAMES, _VALUES, strict=True))[:count]
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Look.", "parameters": {"type": "object"}}}
