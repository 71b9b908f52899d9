"""ToolCalls: calls that a model wrote as text, in Hermes/Qwen tags or Llama's JSON, become function_call items."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from json import JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Literal, TypeAlias

from gym_llm.tokens.parsers.parser import MAX_PIECES, MessageParser, Piece, Turn, WrittenCall
from gym_llm.types import Item
from gym_llm.utils.limits import VALUES, count_values, limit

_FORMATS = ("auto", "hermes", "llama")
_MAYBE_LLAMA = re.compile(r"\s*(?:\{|<\|python_tag\|>)")
OPEN, CLOSE = "<tool_call>", "</tool_call>"
PYTHON_TAG = "<|python_tag|>"
INVALID_CALL = "invalid_tool_call"
"""The name of a call whose name cannot be made out."""

# Numbers stay text: only where values end matters here, and int() refuses very long ones.
# Not strict: models do write raw line breaks in strings; whether the arguments are JSON is the environment's to judge.
_DECODER = JSONDecoder(strict=False, parse_int=str, parse_float=str)
_SPACE = re.compile(r"[ \t\n\r]*")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\\ud800-\udfff]{1,100})"')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LLAMA_CALL = re.compile(r'\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"([^"\\]*)"')

_MOST_MEMBERS = 64
"""Of a call, which has four: reading the members of an object one by one takes a while where there are many."""
_Members: TypeAlias = dict[str, tuple[Any, str]]
"""An object's members by key: value, and the value as it was written."""


class _TooManyMembers(ValueError):
    """An object is too large to be a call."""


class ToolCalls(MessageParser):
    """Turns tool calls written as text, in one of these formats (another is a ValueError), into `function_call` items.

    - `"hermes"`: `<tool_call>{"name": …, "arguments": …}</tool_call>`, any number in a message, as Nous Hermes and Qwen
      write them. Text before, between and after the calls stays in its place, unchanged, as messages. White space alone
      beside a call is part of the format and dropped.
    - `"llama"`: the whole message is `{"name": …, "parameters": …}`, several separated by `;`, after an optional
      `<|python_tag|>`. This is a call only if the request offered tools; elsewhere a JSON answer is an answer.
    - `"auto"`: Hermes where there is a `<tool_call>`, else Llama.

    Arguments are kept as the model wrote them (`"{}"` if it wrote no arguments); the environment checks them. A broken
    call is a `function_call`, too. Its name is the one that can be read, or `invalid_tool_call`, and its arguments are
    the whole text. So no text is lost, and the environment replies with an error for the model. A call with more JSON
    values than `utils/limits.py` allows is broken, too.

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
        return (self._hermes and "<" in text and OPEN in text) or (self._llama and _MAYBE_LLAMA.match(text) is not None)

    def read(self, message: Item, text: str, turn: Turn) -> list[Piece] | None:
        """The calls, and the texts around them; see `MessageParser.read`."""
        if not turn.may_call or not self.concerns(text):
            return None
        pieces: Sequence[str | WrittenCall]
        if self._hermes and OPEN in text:
            pieces = hermes(text)
        else:
            names = {tool["name"] for tool in turn.tools if isinstance(tool.get("name"), str)}
            pieces = (llama(text, names) if names else None) or ()
        return [piece for piece in pieces if not (isinstance(piece, str) and piece.isspace())] or None


def hermes(text: str) -> list[str | WrittenCall]:
    """Split a text at its `<tool_call>` tags (Nous Hermes 2 Pro, Qwen 2.5 and 3).

    A call is `{"name": …, "arguments": …}` between the tags; the end tag may be missing at the end of the text and
    before the next start tag. A tag in one of the JSON's strings belongs to the string. The texts and the calls'
    `source`s, joined, are `text`.

    >>> hermes('Hm. <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>')[1].arguments
    '{"x": 1}'
    """
    pieces: list[str | WrittenCall] = []
    position = 0
    left = limit(VALUES)  # that are read
    is_crowded = len(text) > left and count_values(text, left) > left
    look_ahead = not is_crowded
    while (opening := text.find(OPEN, position)) >= 0 and len(pieces) < MAX_PIECES - 2:
        if opening > position:
            pieces.append(text[position:opening])
        body = opening + len(OPEN)
        following = text.find(OPEN, body)
        stop = following if following >= 0 else len(text)
        closing = text.find(CLOSE, body, stop)
        inner = text[body : closing if closing >= 0 else stop]
        position = closing + len(CLOSE) if closing >= 0 else stop
        if is_crowded:
            if (count := count_values(inner, left)) > left:
                pieces.append(WrittenCall(*_broken(inner, is_crowded), text[opening:position]))
                continue
            left -= count
        try:
            name, arguments, _ = _read_call(inner, 0)
        except (ValueError, RecursionError) as error:
            name, arguments = _broken(inner)
            if look_ahead and body + len(inner) < len(text) and "Unterminated string" in str(error):
                # The tag may stand in a string. Reading on from every such place could take quadratic time; the first
                # call that is broken nevertheless ends it.
                try:
                    name, arguments, position = _read_call(text, body)
                except (ValueError, RecursionError):
                    look_ahead = False
        pieces.append(WrittenCall(name, arguments, text[opening:position]))
    if position < len(text):
        pieces.append(text[position:])
    return pieces


def llama(text: str, tools: Collection[str]) -> list[WrittenCall] | None:
    """Read a message that is nothing but calls in the JSON of Llama 3.

    The format is one or more `{"name": …, "parameters": …}`, also with `"type": "function"`, separated by `;`, after an
    optional `<|python_tag|>`. A message may begin with the tag, or with a call of one of the request's `tools`, and
    then break the format. Such a message is one broken call.

    Returns the calls, whose `source`s joined are `text`; None if the message is not meant as a call.

    >>> llama('{"name": "f", "parameters": {"x": 1}}', ["f"])[0].arguments
    '{"x": 1}'
    >>> llama('{"name": "Ada", "born": 1815}', ["f"])
    """
    start = _skip_space(text, 0)
    tagged = text.startswith(PYTHON_TAG, start)
    if tagged:
        start = _skip_space(text, start + len(PYTHON_TAG))
    most = limit(VALUES)
    is_crowded = len(text) > most and count_values(text, most) > most
    try:
        if not is_crowded:
            return _llama_calls(text, start)
    except (ValueError, RecursionError):
        pass
    call = _LLAMA_CALL.match(text, start)
    if tagged or (call and call[1] in tools):
        return [WrittenCall(*_broken(text[start:], is_crowded), text)]
    return None


def _llama_calls(text: str, position: int) -> list[WrittenCall]:
    calls: list[WrittenCall] = []
    source_start = 0
    while True:
        members, position = _read_object(text, position)
        if not ("parameters" in members or "arguments" in members or members.get("type", ("",))[0] == "function"):
            raise ValueError("not a call")
        name, arguments = _call(members)
        position = _skip_space(text, position)
        separator = text[position : position + 1]
        if separator not in ("", ";"):
            raise ValueError("more than calls")
        position = _skip_space(text, position + len(separator))
        calls.append(WrittenCall(name, arguments, text[source_start:position]))
        if not separator:
            return calls
        if len(calls) == MAX_PIECES:
            raise ValueError("too many calls")
        source_start = position


def _read_call(text: str, start: int) -> tuple[str, str, int]:
    """Name and arguments of a call that begins at `start` and may have tags in its strings; and where it ends."""
    members, end = _read_object(text, _skip_space(text, start))
    name, arguments = _call(members)
    end = _skip_space(text, end)
    if text.startswith(CLOSE, end):
        return name, arguments, end + len(CLOSE)
    if end < len(text) and not text.startswith(OPEN, end):
        raise ValueError("more than a call")
    return name, arguments, end


def _call(members: _Members) -> tuple[str, str]:
    name, source = members.get("name", ("", ""))
    if not name or not source.startswith('"'):
        raise ValueError("no name")
    value, arguments = members.get("arguments") or members.get("parameters") or ({}, "{}")
    if isinstance(value, str) and arguments.startswith('"'):
        arguments = value
    if _LONE_SURROGATE.search(name) or _LONE_SURROGATE.search(arguments):
        raise ValueError("an escaped half of a character")  # cannot be sent or stored; as it was written it can
    return name, arguments


def _broken(text: str, is_crowded: bool = False) -> tuple[str, str]:
    """The name and arguments for a call that cannot be made, such that no tool takes them; a large one is not read."""
    is_object = False
    try:
        if text.rstrip().endswith("}"):
            if is_crowded:
                raise _TooManyMembers
            _, end = _read_object(text, _skip_space(text, 0))
            is_object = _skip_space(text, end) == len(text)
    except _TooManyMembers:
        is_object = True
    except (ValueError, RecursionError):
        pass
    guess = None if is_object else _NAME.search(text)  # an object might be taken for the guessed tool's arguments
    return (guess[1] if guess else INVALID_CALL), text


def _read_object(text: str, start: int) -> tuple[_Members, int]:
    """Read one JSON object, keeping how its members were written, which `json.loads` would not.

    Raises:
        ValueError: If there is no object at `start`.
        RecursionError: If it is nested too deeply.
    """
    members: _Members = {}
    position = _expect(text, start, "{")
    if text.startswith("}", position):
        return members, position + 1
    for _ in range(_MOST_MEMBERS):
        if not text.startswith('"', position):
            raise ValueError("no key")
        key, position = scanstring(text, position + 1, False)
        begin = _expect(text, _skip_space(text, position), ":")
        value, position = _DECODER.raw_decode(text, begin)
        members[key] = (value, text[begin:position])
        position = _skip_space(text, position)
        if text.startswith("}", position):
            return members, position + 1
        position = _expect(text, position, ",")
    raise _TooManyMembers("more members than a call has")


def _expect(text: str, position: int, character: str) -> int:
    """Where the next token begins after `character`, which must stand at `position`."""
    if not text.startswith(character, position):
        raise ValueError(f"no {character}")
    return _skip_space(text, position + 1)


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position
