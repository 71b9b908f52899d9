"""VLLMParser: vLLM's own reasoning and tool parsers, by the names that `vllm serve` has for them."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import logging
import os
import warnings
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils import RecordConstructorArgs

from gym_llm.chat.requests import request_to_chat
from gym_llm.engines.vllm import INSTALL
from gym_llm.parsers.call_parser import CallParser
from gym_llm.parsers.message_parts import (
    hand_over_tokens,
    is_message,
    is_text,
    joined_text,
    reasoning_item,
    with_text,
)
from gym_llm.parsers.written_words import lost_words, markup_words
from gym_llm.responses.actions import output_items, with_output
from gym_llm.types import Item

if TYPE_CHECKING:
    from vllm.parser.abstract_parser import Parser
    from vllm.tokenizers import TokenizerLike

HARMONY = ("openai_gptoss", "openai")
"""vLLM's names for what gpt-oss writes, reasoning and tool calls; its parsers of these names parse nothing."""
_LOGGERS = ("vllm.reasoning", "vllm.parser", "vllm.tool_parsers")
_Parsed: TypeAlias = tuple[str | None, str | None, list[tuple[str, str]]]
"""Reasoning, the rest, and the calls as (name, arguments)."""


class VLLMParser(CallParser, RecordConstructorArgs):
    """Has vLLM's parsers make reasoning, message and `function_call` items of the text in a model's messages.

    The parsers are vLLM's own (`--reasoning-parser` and `--tool-call-parser` of `vllm serve`), so an episode sees the
    items that `vllm serve` would have sent: for engines in this process, and for servers that run without parsers.
    The text has to have the model's special tokens in it. As there, calls are looked for only where the request
    offered tools. A turn keeps what is structured already: with a reasoning item in it no reasoning is looked for,
    with a `function_call` no calls.

    No word is lost. Where a parser drops something (text after a call, the rest of a broken call), the message says
    all that was written but the reasoning, and the calls that were found are made; where it finds no call, or fails,
    the text stays as it is. Whitespace at the seams is the parsers' to keep or drop. What a parser takes for a call
    although it broke off is a call with the arguments that it made out, as in vLLM.

    Call ids are `call_1`, `call_2`, … and only the first call counts where the request has `parallel_tool_calls` false,
    as `ToolCallParser` does it. The turn's token fields stay on its last item.

    The first one in a process imports vLLM, which takes seconds. Unless VLLM_LOGGING_LEVEL is set, vLLM's parsers no
    longer log what they cannot parse: it stands in the record.

    Args:
        env: The environment to wrap. With a `reasoning_parser`, `ToolCallParser` may be inside; with only a
            `tool_call_parser`, `ReasoningParser` goes around this.
        model: The model whose tokenizer the parsers are given: a Hugging Face name or a folder; `"pocket"` for the
            packaged one.
        reasoning_parser: E.g. `"deepseek_r1"`, `"qwen3"`, `"glm45"`; None for none.
        tool_call_parser: E.g. `"pythonic"`, `"mistral"`, `"qwen3_coder"`; None for none.
        chat_template_kwargs: What the engine gives the chat template, if anything: some reasoning parsers look for
            `{"enable_thinking": False}` and the like.

    Raises:
        DependencyNotInstalled: If vLLM is not installed.
        ValueError: If vLLM has no parser of a name, or it does not fit the model's tokenizer.
        OSError: If the tokenizer cannot be loaded.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import VLLMParser
        >>> env = VLLMParser(gym.make("gym_llm/Weather-v0"), "pocket", "qwen3", "pythonic")  # doctest: +SKIP
        >>> observation, info = env.reset(seed=0)  # doctest: +SKIP
        >>> text = 'Rain?</think>[get_weather(city="Oslo")]'
        >>> action = env.action([{"type": "message", "role": "assistant", "content": text}])  # doctest: +SKIP
        >>> [item["type"] for item in action]  # doctest: +SKIP
        ['reasoning', 'function_call']
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        model: str,
        reasoning_parser: str | None = None,
        tool_call_parser: str | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if reasoning_parser is None and tool_call_parser is None:
            raise ValueError("Give a reasoning_parser, a tool_call_parser, or both; got None for both.")
        RecordConstructorArgs.__init__(
            self,
            model=model,
            reasoning_parser=reasoning_parser,
            tool_call_parser=tool_call_parser,
            chat_template_kwargs=chat_template_kwargs,
        )
        CallParser.__init__(self, env)
        self.model = model
        self.reasoning_parser = reasoning_parser
        self.tool_call_parser = tool_call_parser
        self.chat_template_kwargs = chat_template_kwargs
        parser_class(model, reasoning_parser, tool_call_parser)

    def action(self, action: Any) -> Any:
        """The action with its reasoning and calls in items of their own; the same object if there are none."""
        items = output_items(action)
        kinds = {item.get("type") for item in items}
        reasoning = None if "reasoning" in kinds else self.reasoning_parser
        tools = [tool for tool in self._tools() if tool.get("type") == "function"]
        calls = None if "function_call" in kinds or not tools else self.tool_call_parser
        parsed: list[Item] = []
        taken = self._taken(items)
        for index, item in enumerate(items):
            pieces = [item]
            if is_message(item) and (reasoning or calls) and (text := joined_text(item["content"])):
                read = self._read(item, text, reasoning, calls, tools)
                pieces = self._items(item, index, text, read, taken)
                reasoning = None  # it is the beginning of a turn
            parsed += pieces
        unchanged = all(map(_same, parsed, items)) and len(parsed) == len(items)
        return action if unchanged else with_output(action, self._allowed(parsed))

    def _read(
        self, message: Item, text: str, reasoning: str | None, calls: str | None, tools: list[dict[str, Any]]
    ) -> _Parsed:
        try:
            read = self._parse(message, text, reasoning, calls, tools)
            if calls and not read[2]:  # vLLM drops what only looked like a call
                read = self._parse(message, text, reasoning, None, []) if reasoning else (None, text, [])
            thought, rest, found = read
            kept = [thought or "", rest or "", *(part for call in found for part in call)]
            if lost_words(text, kept, _markup(self.model)):
                rest = text.replace(thought, "", 1) if thought else text
            return thought, rest, found
        except Exception as error:  # of any kind: vLLM's parsers are many, and a model's text is not theirs to refuse
            names = " and ".join(filter(None, (reasoning, calls)))
            warnings.warn(f"vLLM's {names} failed on a model's text ({type(error).__name__}); it is left as it is.")  # noqa: B028 - here, so that it is shown once
            return None, text, []

    def _parse(
        self, message: Item, text: str, reasoning: str | None, calls: str | None, tools: list[dict[str, Any]]
    ) -> _Parsed:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

        chat = request_to_chat({"input": [], "tools": tools if calls else []})
        chat["tool_choice"] = "auto" if calls else "none"  # else vLLM would believe that it had enforced a schema
        request = ChatCompletionRequest(model=self.model, **chat)
        parser = parser_class(self.model, reasoning, calls)(
            _tokenizer(self.model), request.tools, chat_template_kwargs=self.chat_template_kwargs or {}
        )
        parser.set_prompt_token_ids(message.get("prompt_token_ids") or [])
        ids = message.get("generation_token_ids") or []
        thought, rest, found = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
        return thought or None, rest or None, [(call.name, call.arguments or "{}") for call in found or ()]

    def _items(self, message: Item, index: int, text: str, read: _Parsed, taken: set[str]) -> list[Item]:
        """The items that take a message's place."""
        thought, rest, calls = read
        if thought is None and not calls and rest == text:
            return [message]
        pieces: list[Item] = []
        if thought is not None:
            closed = not text.rstrip().endswith(thought.rstrip())
            pieces.append(reasoning_item(message.get("id") or index, 0, thought, closed=closed))
        if rest and not (calls and rest.isspace()):
            pieces.append(with_text(message, rest))
        pieces += [self._function_call(name, arguments, taken) for name, arguments in calls]
        if not isinstance(message["content"], str) and (others := [p for p in message["content"] if not is_text(p)]):
            pieces.append({**with_text(message, "", number=1), "content": others})
        pieces = pieces or [with_text(message, "")]
        hand_over_tokens(message, pieces)
        return pieces


def _same(new: Item, old: Item) -> bool:
    return new is old


@functools.lru_cache
def parser_class(model: str, reasoning: str | None, calls: str | None) -> type[Parser]:
    """What `vllm serve` makes of the two names.

    Args:
        model: See `VLLMParser`, as for the others.
        reasoning: The reasoning parser's name.
        calls: The tool call parser's name.

    Raises:
        DependencyNotInstalled: If vLLM is not installed.
        ValueError: If vLLM has no parser of a name, or it does not fit the model's tokenizer.
        OSError: If the tokenizer cannot be loaded.
    """
    if importlib.util.find_spec("vllm") is None:
        raise DependencyNotInstalled(f"VLLMParser needs vLLM: {INSTALL}.")
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
        made = ParserManager.get_parser(
            tool_parser_name=calls,
            reasoning_parser_name=reasoning,
            enable_auto_tools=True,
            model_name=model,
            tokenizer=tokenizer,
        )
    except (TypeError, ImportError) as error:  # a token that the tokenizer has not, a package that the parser needs
        raise ValueError(f"vLLM: {error}") from error
    return cast("type[Parser]", made)  # it is None only where both names are


def _check_name(kind: str, name: str | None, known: list[str]) -> None:
    if name in HARMONY:
        raise ValueError(f"vLLM's parser {name!r} only marks gpt-oss models: use HarmonyParser for them.")
    if name is not None and name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}."
        raise ValueError(f"vLLM has no {kind} parser {name!r}: {hint}")


@functools.lru_cache
def _tokenizer(model: str) -> TokenizerLike:
    from vllm.tokenizers import get_tokenizer

    folder = str(resources.files("gym_llm.engines.pocket") / "model")
    return get_tokenizer(folder if model == "pocket" else model)


@functools.lru_cache
def _markup(model: str) -> frozenset[str]:
    """The words of the model's markup."""
    tokenizer: Any = _tokenizer(model)
    template = getattr(tokenizer, "chat_template", None)  # Mistral's own tokenizers have none; some models have several
    templates = template.values() if isinstance(template, dict) else [template or ""]
    return markup_words([*tokenizer.all_special_tokens, *tokenizer.get_added_vocab(), *templates])
