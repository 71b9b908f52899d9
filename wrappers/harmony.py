"""HarmonyParser: the Harmony format that gpt-oss writes becomes reasoning, messages and function calls."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils import RecordConstructorArgs

from gym_llm.parsers.call_parser import CallParser
from gym_llm.parsers.message_parts import (
    hand_over_tokens,
    is_message,
    is_text,
    joined_text,
    reasoning_item,
    with_text,
)
from gym_llm.responses.actions import output_items, with_output
from gym_llm.types import Item

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

INSTALL = "pip install 'gym-llm[harmony]'"
_CHANNEL = "<|channel|>"
_START = re.compile(r"<\|start\|>\w*")
_MARK = "<|message|>"
"""What every message in the format has between its header and its content."""


class HarmonyParser(CallParser, RecordConstructorArgs):
    """Makes items of what gpt-oss writes, with `openai_harmony`'s own parser.

    - what is said in the channel `analysis` is a reasoning item;
    - what is said to `functions.NAME`, in any channel, is a `function_call` of NAME; what is said to another recipient
      (`python`, `browser.search`: gpt-oss's built-in tools) is one of that name;
    - all else (`final`; `commentary` to nobody, in which the model announces its calls) is a message.

    A turn is read from its `generation_token_ids`, if it is one message that has them, and from the text with its
    special tokens otherwise. A turn that has reasoning or `function_call` items is structured already and stays as it
    is, and so does text without `<|message|>`.

    Nothing that stands in a message of the format is lost: one that broke off is an item like any other (of a call
    the arguments then are no JSON, which the environment tells the model), and from the first place on that the
    format does not allow, the rest is a message as it was written. Arguments are kept as written (`"{}"` if there are
    none). Call ids are `call_1`, `call_2`, … and only the first call counts where the request has `parallel_tool_calls`
    false, as `ToolCallParser` does it. The turn's token fields stay on its last item.

    Args:
        env: The environment to wrap.

    Raises:
        DependencyNotInstalled: If `openai_harmony` is not installed, or cannot get its vocabulary.

    Source: https://cookbook.openai.com/articles/openai-harmony

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import HarmonyParser
        >>> env = HarmonyParser(gym.make("gym_llm/Weather-v0"))
        >>> text = "<|channel|>analysis<|message|>Rain?<|end|><|start|>assistant<|channel|>final<|message|>It rains."
        >>> reasoning, message = env.action([{"type": "message", "role": "assistant", "content": text}])
        >>> reasoning["summary"][0]["text"], message["content"]
        ('Rain?', 'It rains.')
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        CallParser.__init__(self, env)
        load_encoding()

    def action(self, action: Any) -> Any:
        """The action with the model's messages taken apart; the same object if there is nothing to do."""
        items = output_items(action)
        if any(item.get("type") in ("reasoning", "function_call") for item in items):
            return action
        messages = [item for item in items if is_message(item)]
        alone = len(messages) == 1
        taken: set[str] | None = None
        parsed: list[Item] = []
        for index, item in enumerate(items):
            said = _said(item, alone) if is_message(item) else []
            if said:
                taken = self._taken(items) if taken is None else taken
                parsed += self._items(item, index, said, taken)
            else:
                parsed.append(item)
        return action if taken is None else with_output(action, self._allowed(parsed))

    def _items(self, message: Item, index: int, said: list[_Said], taken: set[str]) -> list[Item]:
        """The items that take a message's place."""
        pieces: list[Item] = []
        thoughts = texts = 0
        for piece in said:
            if piece.recipient:
                name = piece.recipient.removeprefix("functions.")
                pieces.append(self._function_call(name, piece.text or "{}", taken))
            elif piece.channel == "analysis":
                pieces.append(reasoning_item(message.get("id") or index, thoughts, piece.text, closed=piece.closed))
                thoughts += 1
            elif piece.text:
                pieces.append(with_text(message, piece.text, number=texts))
                texts += 1
        if not isinstance(message["content"], str) and (rest := [p for p in message["content"] if not is_text(p)]):
            pieces.append({**with_text(message, "", number=texts), "content": rest})
        pieces = pieces or [with_text(message, "")]
        hand_over_tokens(message, pieces)
        return pieces


class _Said(NamedTuple):
    """A message of the format; `recipient` is "" for none."""

    channel: str | None
    recipient: str
    text: str
    closed: bool = True


def _said(message: Item, alone: bool) -> list[_Said]:
    """What a message says in the format; nothing if it is not in the format."""
    from openai_harmony import HarmonyError

    encoding = load_encoding()
    ids = message.get("generation_token_ids") if alone else None
    if ids and _token(_MARK) in ids:
        with contextlib.suppress(HarmonyError):  # ids of another vocabulary
            return _parse(encoding, ids)
    text = joined_text(message["content"])
    if _MARK not in text:
        return []
    text = text.encode(errors="replace").decode()  # lone surrogates are no text to the encoding
    return _parse(encoding, encoding.encode(text, allowed_special="all"))


def _parse(encoding: HarmonyEncoding, ids: Sequence[int]) -> list[_Said]:
    from openai_harmony import HarmonyError, Role, StreamableParser

    mark, ends = _token(_MARK), set(encoding.stop_tokens())
    begun = ids[0] != _token("<|start|>")  # a prompt ends with `<|start|>assistant`
    parser = StreamableParser(encoding, Role.ASSISTANT if begun else None, strict=True)
    headers: list[str] = []
    start, inside = 0, False  # where the message that is being read begins, and whether its header is over
    rest = ""
    try:
        for position, token in enumerate(ids):
            parser.process(token)
            if not inside and token == mark:
                headers.append(encoding.decode(ids[start:position]))
                inside = True
            elif inside and token in ends:
                start, inside = position + 1, False
        if start < len(ids):
            parser.process_eos()
    except HarmonyError:
        rest, inside = encoding.decode(ids[start:]), False
    said: list[_Said] = []
    for header, message in zip(headers, parser.messages, strict=False):
        # Without `to=` the parser takes other words for the recipient.
        recipient = (message.recipient or "").partition("<|")[0].strip() if "to=" in header else ""
        stray = "" if recipient else _START.sub("", header).partition(_CHANNEL)[0].strip()
        if stray:
            said.append(_Said(None, "", stray))
        text = "".join(part.text for part in message.content)  # type: ignore[attr-defined]
        said.append(_Said(message.channel, recipient, text))
    if inside:
        said[-1] = said[-1]._replace(closed=False)
    return [*said, _Said(None, "", rest)] if rest else said


@functools.lru_cache
def load_encoding() -> HarmonyEncoding:
    """The format's encoding, once for a process.

    Raises:
        DependencyNotInstalled: If `openai_harmony` is not installed, or cannot get its vocabulary.
    """
    try:
        from openai_harmony import HarmonyError, load_harmony_encoding
    except ModuleNotFoundError as error:
        raise DependencyNotInstalled(f"HarmonyParser needs {error.name}: {INSTALL}.") from error
    try:
        return load_harmony_encoding("HarmonyGptOss")
    except HarmonyError as error:
        raise DependencyNotInstalled(
            f"openai_harmony has no vocabulary ({error}): {INSTALL} brings one, in the place of openai-harmony; or set "
            "TIKTOKEN_ENCODINGS_BASE to a folder with o200k_base.tiktoken."
        ) from error


@functools.lru_cache
def _token(special: str) -> int:
    return load_encoding().encode(special, allowed_special="all")[0]
