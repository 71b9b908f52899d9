"""Profiles of chat templates: the message format that a template needs, found by rendering test messages."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from gym_llm.errors import EngineError

Messages: TypeAlias = list[dict[str, Any]]

_MARK = "gymllmprobe"
_NAME = "look"
_TOOL = {"type": "function", "function": {"name": _NAME, "description": "Look.", "parameters": {"type": "object"}}}
_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ROLES = ("user", "system", "assistant", "tool")


@dataclass(frozen=True, kw_only=True)
class TemplateProfile:
    """The message format that a chat template needs; most templates have the defaults.

    Attributes:
        parts: Roles whose content is a list of parts. Templates of models that see images, such as SmolVLM's, show
            nothing of a string.
        one_system: The template shows one of several system messages at the beginning, or raises: they are joined.
        text_arguments: A call's arguments are a string, as in a request (DeepSeek-V3); for most they are an object.
        nine_character_ids: Call ids have nine letters and digits (Mistral). Other ids are mapped to such ids, the same
            way in the call and in its output.
        newline_after_thinking: The template adds a newline after reasoning even if that ends in one (Nemotron 3); the
            newline of the reasoning is left out.
        newline_before_answer: The same for the newline before the answer that follows the reasoning.
        shows_calls: Later prompts show the model's calls.
    """

    parts: frozenset[str] = field(default_factory=frozenset)
    one_system: bool = False
    text_arguments: bool = False
    nine_character_ids: bool = False
    newline_after_thinking: bool = False
    newline_before_answer: bool = False
    shows_calls: bool = True

    def of(self, messages: Messages, *, objects_only: bool = False) -> Messages:
        """Return the messages in the template's format; the given ones are not changed.

        Args:
            messages: Messages from `request_to_chat`.
            objects_only: Wrap arguments that are not a JSON object in an object.

        Raises:
            EngineError: If a message has an image, a video or a file.
        """
        formed = [self._formed(message, objects_only) for message in self._merged(messages)]
        for message in formed:
            if message["role"] in self.parts:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return formed

    def _merged(self, messages: Messages) -> Messages:
        leading = list(itertools.takewhile(lambda message: message["role"] == "system", messages))
        if not self.one_system or len(leading) < 2:
            return messages
        content = "\n\n".join(text for text in map(_text, leading) if text)
        return [{"role": "system", "content": content}, *messages[len(leading) :]]

    def _formed(self, message: dict[str, Any], objects_only: bool) -> dict[str, Any]:
        message = {**message, "content": _text(message)}
        if thinking := message.get("reasoning_content"):
            if self.newline_after_thinking and thinking != "\n":
                message["reasoning_content"] = message["reasoning"] = thinking.removesuffix("\n")
            if self.newline_before_answer:
                message["content"] = message["content"].removeprefix("\n")
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [self._call(call, objects_only) for call in calls]
        if self.nine_character_ids and "tool_call_id" in message:
            message["tool_call_id"] = nine_characters(message["tool_call_id"])
        return message

    def _call(self, call: dict[str, Any], objects_only: bool) -> dict[str, Any]:
        function = call["function"]
        if not self.text_arguments:
            function = {**function, "arguments": _as_object(function["arguments"], objects_only)}
        return {
            **call,
            "function": function,
            **({"id": nine_characters(call["id"])} if self.nine_character_ids else {}),
        }


def message_form(tokenizer: Any) -> TemplateProfile:
    """The form of messages that a tokenizer's chat template wants. Never raises: what it objects to, it may."""

    def shown(messages: Messages, tools: Any = None) -> str | None:
        try:
            text: str = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
        except Exception:  # templates raise what they like
            return None
        return text

    parts = frozenset[str]()
    for role in _ROLES[:3]:
        parts |= _in_parts(role, TemplateProfile(parts=parts), shown)
    several: Messages = [{"role": "system", "content": _MARK + "1"}, {"role": "system", "content": _MARK + "2"}]
    several.append({"role": "user", "content": "Hi"})
    form = TemplateProfile(parts=parts)
    one = shown(form.of(several[1:])) or ""
    both = shown(form.of(several)) or ""
    one_system = _MARK + "2" in one and not (_MARK + "1" in both and _MARK + "2" in both)
    form = TemplateProfile(parts=parts, one_system=one_system)
    after, before = _newlines(form, shown)
    form = replace(form, newline_after_thinking=after, newline_before_answer=before)
    shows_calls = True  # a template that objects to them says so itself
    for ids, text, tool_parts in itertools.product((False, True), repeat=3):
        all_parts = parts | ({"tool"} if tool_parts else set())
        tried = replace(form, parts=all_parts, text_arguments=text, nine_character_ids=ids)
        for tools in ([_TOOL], None):
            prompt = shown(tried.of(_tool_conversation(_MARK + "1", _MARK + "2")), tools)
            if prompt is not None and _MARK + "2" in prompt:
                return replace(tried, shows_calls=_MARK + "1" in prompt)
            shows_calls = shows_calls and (prompt is None or _MARK + "1" in prompt)
    return replace(form, shows_calls=shows_calls)


def nine_characters(call_id: Any) -> str:
    """An id of nine letters and digits: this one if it is such, else one that is made from it.

    >>> nine_characters("a1B2c3D4e"), nine_characters("call_1") == nine_characters("call_1")
    ('a1B2c3D4e', True)
    """
    name = str(call_id)
    if _NINE.fullmatch(name):
        return name
    number = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    letters = []
    for _ in range(9):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def _in_parts(role: str, form: TemplateProfile, shown: Callable[[Messages], str | None]) -> set[str]:
    """The role, if the template shows its messages only when their content is a list of parts."""
    messages: Messages = [{"role": role, "content": _MARK}]
    if role != "user":
        messages.insert(0 if role == "assistant" else 1, {"role": "user", "content": "Hi"})
    if role == "assistant":
        messages.append({"role": "user", "content": "Go on."})
    if _MARK in (shown(form.of(messages)) or ""):
        return set()
    return {role} if _MARK in (shown(TemplateProfile(parts=form.parts | {role}).of(messages)) or "") else set()


def _newlines(form: TemplateProfile, shown: Callable[[Messages], str | None]) -> tuple[bool, bool]:
    """Whether the template adds a newline after thinking that ends in one; and before an answer that begins with one.

    Both have to be there without the model's own: only then is leaving that out what the model wrote.
    """

    def text(thinking: str, answer: str) -> str:
        message = {"role": "assistant", "content": answer, "reasoning_content": thinking, "reasoning": thinking}
        return shown(form.of([{"role": "user", "content": "Hi"}, message])) or ""

    thinking, answer = _MARK + "1", _MARK + "2"
    once, twice = text(thinking, answer), text(thinking + "\n", "\n" + answer)
    after = f"{thinking}\n<" in once and f"{thinking}\n\n<" in twice
    before = f">\n{answer}" in once and f">\n\n{answer}" in twice and thinking in once
    return after, before


def _tool_conversation(argument: str, output: str) -> Messages:
    function = {"name": _NAME, "arguments": json.dumps({"text": argument})}
    return [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": output},
    ]


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if any(part.get("type") != "text" for part in content or ()):
        raise EngineError("A chat template shows text only: leave images, videos and files out of the request.")
    return "".join(part["text"] for part in content or ())


def _as_object(text: str, objects_only: bool) -> Any:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return arguments
    return {"arguments": text} if objects_only else text  # show the model what it wrote
