"""VLLM: vLLM's own reasoning and tool parsers, by the names that `vllm serve` has for them."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import logging
import os
import warnings
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from gymnasium.error import DependencyNotInstalled

from gym_llm.chat.completions import request_to_chat
from gym_llm.extras import INSTALL_VLLM
from gym_llm.parsers.base import MessageParser, Piece, Thought, Turn, WrittenCall
from gym_llm.parsers.written_words import lost_words, markup_words
from gym_llm.types import Item

if TYPE_CHECKING:
    from vllm.parser.abstract_parser import Parser
    from vllm.tokenizers import TokenizerLike

HARMONY = ("openai_gptoss", "openai")
"""vLLM's names for what gpt-oss writes, reasoning and tool calls; its parsers of these names parse nothing."""
_LOGGERS = ("vllm.reasoning", "vllm.parser", "vllm.tool_parsers")


class VLLM(MessageParser):
    """Has vLLM's parsers make items of what is written in a model's messages.

    They are vLLM's own (`--reasoning-parser` and `--tool-call-parser` of `vllm serve`), so an episode sees the
    items that `vllm serve` would have sent: for engines in this process, and for servers that run without parsers.
    The text has to have the model's special tokens in it. As there, calls are looked for only where the request
    offered tools. A turn keeps what is structured already: with a reasoning item in it no reasoning is looked for,
    with a `function_call` no calls.

    No word is lost. Where a parser drops something (text after a call, the rest of a broken call), the message says
    all that was written but the reasoning, and the calls that were found are made; where it finds no call, or fails,
    the text stays as it is. Whitespace at the seams is the parsers' to keep or drop. What a parser takes for a call
    although it broke off is a call with the arguments that it made out, as in vLLM.

    The first one in a process imports vLLM, which takes seconds. Unless VLLM_LOGGING_LEVEL is set, vLLM's parsers no
    longer log what they cannot parse: it stands in the record.

    Args:
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
        """What vLLM's parsers make of a message; see `MessageParser.read`."""
        reasoning = self.reasoning_parser if turn.may_think else None
        tools = [tool for tool in turn.tools if tool.get("type") == "function"]
        calls = None if "function_call" in turn.kinds or not tools else self.tool_call_parser
        if not text or not (reasoning or calls):
            return None
        turn.may_think = False
        try:
            thought, rest, made = self._parse(message, text, reasoning, calls, tools)
            if calls and not made:  # vLLM drops what only looked like a call
                thought, rest = self._parse(message, text, reasoning, None, [])[:2] if reasoning else (None, text)
            kept = [thought or "", rest or "", *(part for call in made for part in call)]
            if lost_words(text, kept, _markup(self.model)):
                rest = text.replace(thought, "", 1) if thought else text
        except Exception as error:  # of any kind: vLLM's parsers are many, and a model's text is not theirs to refuse
            names = " and ".join(filter(None, (reasoning, calls)))
            warnings.warn(f"vLLM's {names} failed on a model's text ({type(error).__name__}); it is left as it is.")  # noqa: B028 - here, so that it is shown once
            return None
        if thought is None and not made and rest == text:
            return None
        pieces: list[Piece] = []
        if thought is not None:
            pieces.append(Thought(thought, closed=not text.rstrip().endswith(thought.rstrip())))
        if rest and not (made and rest.isspace()):
            pieces.append(rest)
        return [*pieces, *made]

    def _parse(
        self, message: Item, text: str, reasoning: str | None, calls: str | None, tools: list[dict[str, Any]]
    ) -> tuple[str | None, str | None, list[WrittenCall]]:
        """Reasoning, the rest, and the calls."""
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

        chat = request_to_chat({"input": [], "tools": tools if calls else []})
        chat["tool_choice"] = "auto" if calls else "none"  # else vLLM would believe that it had enforced a schema
        request = ChatCompletionRequest(model=self.model, **chat)
        parser = parser_class(self.model, reasoning, calls)(
            _tokenizer(self.model), request.tools, chat_template_kwargs=self.chat_template_kwargs or {}
        )
        parser.set_prompt_token_ids(message.get("prompt_token_ids") or [])
        ids = message.get("generation_token_ids") or []
        thought, rest, made = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
        return thought or None, rest or None, [WrittenCall(call.name, call.arguments or "{}") for call in made or ()]


@functools.lru_cache
def parser_class(model: str, reasoning: str | None, calls: str | None) -> type[Parser]:
    """What `vllm serve` makes of the two names; `VLLM` says what is raised."""
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

    folder = resources.files("gym_llm").joinpath("engines", "pocket", "model")
    return get_tokenizer(str(folder) if model == "pocket" else model)


@functools.lru_cache
def _markup(model: str) -> frozenset[str]:
    """The words of the model's markup."""
    tokenizer: Any = _tokenizer(model)
    template = getattr(tokenizer, "chat_template", None)  # Mistral's own tokenizers have none; some models have several
    templates = template.values() if isinstance(template, dict) else [template or ""]
    return markup_words([*tokenizer.all_special_tokens, *tokenizer.get_added_vocab(), *templates])
