"""VLLM: vLLM's own reasoning and tool parsers, by the names that `vllm serve` has for them."""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Set
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from gymnasium.error import DependencyNotInstalled

from gym_llm.concurrency import wait
from gym_llm.concurrency.processes import shared_pool
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.tokens.parsers.parser import MessageParser, Piece, Thought, Turn, WrittenCall
from gym_llm.types import Item
from gym_llm.utils.extras import INSTALL_VLLM
from gym_llm.utils.text import nearest

if TYPE_CHECKING:
    from vllm.parser.abstract_parser import Parser
    from vllm.tokenizers import TokenizerLike

HARMONY = ("openai_gptoss", "openai")
"""vLLM's names for what gpt-oss writes, reasoning and tool calls; its parsers of these names parse nothing."""
_IN_WORKER = "gym_llm.tokens.parsers.vllm_process:read"
_DEADLINE = 30.0
"""Seconds of CPU time with which a worker loads a tokenizer, and after which one is killed that cannot be stopped."""
_LOGGERS = ("vllm.reasoning", "vllm.parser", "vllm.tool_parsers")
_WORD = re.compile(r"[^\W\d]\w*")
_TAG = re.compile(r"<[^<>\n]{1,80}>|\[/?[A-Z_]+\]")
_CALL_WORDS = {"name", "arguments", "parameters", "function", "functions", "type", "json", "python"}
_VALUES = {"True", "False", "None", "true", "false", "null"}
"""What calls are written with, in one format or another: their keys, and values that come back in other words."""


class VLLM(MessageParser):
    """A parser that runs vLLM's parsers on a model's messages.

    These are the parsers of `vllm serve` (`--reasoning-parser`, `--tool-call-parser`), so an episode sees the items
    that `vllm serve` would return. Use it for engines in this process, and for servers that run without parsers. The
    text must contain the model's special tokens. As in vLLM, calls are parsed only if the request has tools. Structured
    turns stay: a turn with a reasoning item is not searched for reasoning, one with a `function_call` not for calls.

    No text is lost. A parser may drop text after a call, or the rest of a broken call. The message then keeps
    everything but the reasoning, and the calls are made. If it finds no call, or fails, the text is not changed. The
    parsers decide about whitespace between the pieces. A call that broke off has the arguments that the parser read, as
    in vLLM.

    Some of vLLM's parsers take quadratic time. A worker process therefore reads long texts with many marks, for at most
    a second of CPU time; after that the text is not changed. The worker starts when it is first needed, and imports
    vLLM again.

    The first instance in a process imports vLLM, which takes seconds. Unless VLLM_LOGGING_LEVEL is set, vLLM's parsers
    do not log the texts that they cannot parse: the record has them.

    Args:
        model: The model whose tokenizer the parsers use: a Hugging Face name or a folder; `"pocket"` for the packaged
            one.
        reasoning_parser: E.g. `"deepseek_r1"`, `"qwen3"`, `"glm45"`; None to leave reasoning in the text.
        tool_call_parser: E.g. `"pythonic"`, `"mistral"`, `"qwen3_coder"`; None to leave calls in the text.
        chat_template_kwargs: The engine's variables for the chat template: some reasoning parsers read
            `{"enable_thinking": False}` and the like.

    Raises:
        DependencyNotInstalled: If vLLM is not installed.
        ValueError: If a parser's name is unknown, or the parser does not fit the model's tokenizer.
        OSError: If the tokenizer cannot be loaded.
    """

    def __init__(
        self,
        model: str,
        reasoning_parser: str | None = None,
        tool_call_parser: str | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if reasoning_parser is None and tool_call_parser is None:
            raise ValueError("Give a reasoning_parser, a tool_call_parser, or both; got None for both.")
        self.model = model
        self.reasoning_parser = reasoning_parser
        self.tool_call_parser = tool_call_parser
        self.chat_template_kwargs = chat_template_kwargs
        parser_class(model, reasoning_parser, tool_call_parser)

    def read(self, message: Item, text: str, turn: Turn) -> list[Piece] | None:
        """Run vLLM's parsers on a message; see `MessageParser.read`."""
        reasoning = self.reasoning_parser if turn.may_think else None
        tools = [tool for tool in turn.tools if tool.get("type") == "function"]
        calls = None if turn.has_calls or not tools else self.tool_call_parser
        if not text or not (reasoning or calls):
            return None
        turn.may_think = False
        ids = (message.get("prompt_token_ids") or [], message.get("generation_token_ids") or [])
        reading = Reading(self.model, reasoning, calls, self.chat_template_kwargs, text, tools if calls else [], *ids)
        try:
            if _is_cheap(text):
                written: Written | None = read_text(reading)
            else:
                written = wait(shared_pool(_IN_WORKER, deadline=_DEADLINE, workers=1).call(reading))
            if written is None:
                raise TimeoutError("its deadline passed")
        except Exception as error:  # of any kind: vLLM's parsers are many, and a model's text is not theirs to refuse
            names = " and ".join(filter(None, (reasoning, calls)))
            warnings.warn(f"vLLM's {names} failed on a model's text ({type(error).__name__}); it is left as it is.")  # noqa: B028 - here, so that it is shown once
            return None
        thought, answer, written_calls = written
        if thought is None and not written_calls and answer == text:
            return None
        pieces: list[Piece] = []
        if thought is not None:
            pieces.append(Thought(thought, closed=not text.rstrip().endswith(thought.rstrip())))
        if answer and not (written_calls and answer.isspace()):
            pieces.append(answer)
        return [*pieces, *(WrittenCall(name, arguments) for name, arguments in written_calls)]


class Reading(NamedTuple):
    """A text to read, as it can be sent to another process; `reasoning` and `calls` name vLLM's parsers."""

    model: str
    reasoning: str | None
    calls: str | None
    chat_template_kwargs: dict[str, Any] | None
    text: str
    tools: list[dict[str, Any]]
    prompt_ids: list[int]
    ids: list[int]


Written: TypeAlias = tuple[str | None, str | None, list[tuple[str, str]]]
"""Reasoning, answer, and the calls' names and arguments."""


def _is_cheap(text: str) -> bool:
    """Whether a text can be read here: some parsers take time quadratic in the text and the marks in it."""
    length = len(text)
    return length <= 2_000 or (length <= 50_000 and length * sum(map(text.count, "<[{(")) <= 400_000)


def read_text(reading: Reading) -> Written:
    """Run vLLM's parsers on a text; no text is lost. Raises the parsers' exceptions."""
    text, reasoning, calls = reading.text, reading.reasoning, reading.calls
    thought, answer, written_calls = _parse(reading)
    if calls and not written_calls:  # vLLM drops what only looked like a call
        without_calls = reading._replace(calls=None, tools=[])
        thought, answer = _parse(without_calls)[:2] if reasoning else (None, text)
    parts = [thought or "", answer or "", *(part for call in written_calls for part in call)]
    if lost_words(text, parts, _markup(reading.model)):
        answer = text.replace(thought, "", 1) if thought else text
    return thought, answer, written_calls


def load_parser(reading: Reading) -> Any:
    """The parser of a reading, made for it."""
    parser = parser_class(reading.model, reading.reasoning, reading.calls)
    kwargs = reading.chat_template_kwargs or {}
    return parser(_tokenizer(reading.model), _chat_request(reading).tools, chat_template_kwargs=kwargs)


def _chat_request(reading: Reading) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    chat = request_to_chat({"input": [], "tools": reading.tools})
    chat["tool_choice"] = "auto" if reading.calls else "none"  # else vLLM would believe that it had enforced a schema
    return ChatCompletionRequest(model=reading.model, **chat)


def _stream_nothing(parser: Any) -> None:
    """Keep vLLM's `ParserEngine` from working out, at every mark in a call, what it would stream of its arguments.

    That is thrown away here, and takes quadratic time: 25 s for a call with 24 KB of HTML in it.
    """
    for part in (parser, getattr(parser, "_tool_parser", None)):
        engine: Any = getattr(part, "_parser_engine", part)
        if hasattr(engine, "_stream_arg_deltas"):
            engine._stream_arg_deltas = False


def _parse(reading: Reading) -> Written:
    request, parser = _chat_request(reading), load_parser(reading)
    if not _is_cheap(reading.text):
        _stream_nothing(parser)
    parser.set_prompt_token_ids(reading.prompt_ids)
    thought, answer, calls = parser.parse(
        reading.text, request, enable_auto_tools=True, model_output_token_ids=reading.ids
    )
    return thought or None, answer or None, [(call.name, call.arguments or "{}") for call in calls or ()]


@functools.lru_cache
def parser_class(model: str, reasoning: str | None, calls: str | None) -> type[Parser]:
    """Return the parser class that `vllm serve` uses for the two names; raises as `VLLM` does."""
    if importlib.util.find_spec("vllm") is None:
        raise DependencyNotInstalled(f"VLLMParser needs vLLM: {INSTALL_VLLM}.")
    from vllm.parser.parser_manager import ParserManager
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    if "VLLM_LOGGING_LEVEL" not in os.environ:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
    _check_name("reasoning", reasoning, ReasoningParserManager.list_registered())
    _check_name("tool call", calls, ToolParserManager.list_registered())
    tokenizer = _tokenizer(model)
    try:
        parser = ParserManager.get_parser(
            tool_parser_name=calls,
            reasoning_parser_name=reasoning,
            enable_auto_tools=True,
            model_name=model,
            tokenizer=tokenizer,
        )
    except (TypeError, ImportError) as error:  # a token that the tokenizer has not, a package that the parser needs
        raise ValueError(f"vLLM: {error}") from error
    return cast("type[Parser]", parser)  # it is None only where both names are


def _check_name(kind: str, name: str | None, names: list[str]) -> None:
    if name in HARMONY:
        raise ValueError(f"vLLM's parser {name!r} only marks gpt-oss models: use HarmonyParser for them.")
    if name is not None and name not in names:
        similar = nearest(name, names)
        hint = f"did you mean {similar!r}?" if similar else f"it has {', '.join(names)}."
        raise ValueError(f"vLLM has no {kind} parser {name!r}: {hint}")


@functools.lru_cache
def _tokenizer(model: str) -> TokenizerLike:
    from vllm.tokenizers import get_tokenizer

    folder = resources.files("gym_llm").joinpath("engines", "pocket", "model")
    return get_tokenizer(str(folder) if model == "pocket" else model)


@functools.lru_cache
def _markup(model: str) -> frozenset[str]:
    """The words of the model's markup."""
    tokenizer: Any = _tokenizer(model)
    template = getattr(tokenizer, "chat_template", None)  # Mistral's own tokenizers have none; some models have several
    templates = template.values() if isinstance(template, dict) else [template or ""]
    return markup_words([*tokenizer.all_special_tokens, *tokenizer.get_added_vocab(), *templates])


def markup_words(texts: Iterable[str]) -> frozenset[str]:
    """The words of a model's markup, from the texts that have it in them: its special tokens, its chat template."""
    return frozenset(_CALL_WORDS | _VALUES).union(*map(_WORD.findall, texts))


def lost_words(text: str, pieces: Iterable[str], markup: Set[str]) -> list[str]:
    """The words of a model's text that are not in the pieces a parser made of it: texts, names, arguments as JSON.

    Only words count (a number may come back as `3.5` for `3.50`), each as often as it was written. Words of the
    format itself do not count: those in tags (`<function=f>`, `[TOOL_CALLS]`), and those in `markup` (`markup_words`).

    >>> lost_words('<tool_call>{"name": "f", "arguments": {}}</tool_call> bye', ["f", "{}"], markup_words([]))
    ['bye']
    """
    counts = Counter(_WORD.findall(_TAG.sub(" ", text)))
    if not counts:
        return []
    for piece in pieces:
        counts.subtract(_WORD.findall(piece))
    lost = [word for word, count in counts.items() if count > 0 and word not in markup]
    if lost:  # a call's arguments may have been written with other escapes, or not as JSON
        for piece in pieces:
            counts.subtract(_WORD.findall(" ".join(_strings(piece))))
        lost = [word for word in lost if counts[word] > 0]
    return lost


def _strings(piece: str) -> Iterable[str]:
    """All strings in a JSON object, keys too, which are written with escapes there."""
    if not piece.startswith("{") or "\\" not in piece:
        return
    try:
        waiting: list[Any] = [json.loads(piece)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
