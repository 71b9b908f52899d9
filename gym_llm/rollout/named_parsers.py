"""vLLM's reasoning and tool call parsers, by its names for them, as wrappers."""

from __future__ import annotations

from functools import partial

from gym_llm.rollout.factory import Wrap
from gym_llm.wrappers import HarmonyParser, ReasoningParser, TokenIdTracking, ToolCallParser, VLLMParser
from gym_llm.wrappers.harmony import load_encoding


def parser_wrappers(
    reasoning_parser: str | None, tool_call_parser: str | None, model: str | None, *, engine: str
) -> list[Wrap] | None:
    """What environments are wrapped with; None for the usual.

    Args:
        reasoning_parser: Instead of looking for `<think>`; None for that.
        tool_call_parser: Instead of looking for Hermes' and Llama's formats; None for these.
        model: Whose tokenizer vLLM's parsers are given; Harmony needs none.
        engine: Who needs to be told it, for messages.

    Raises:
        gymnasium.error.DependencyNotInstalled: If vLLM or openai_harmony is missing.
        ValueError: If a parser is unknown.
        OSError: If the tokenizer cannot be loaded.
    """
    from gym_llm.wrappers.vllm_parser import HARMONY, parser_class

    names = {reasoning_parser, tool_call_parser} - {None}
    if not names:
        return None
    if names <= set(HARMONY):  # either stands for both
        load_encoding()
        return [HarmonyParser, TokenIdTracking]
    if model is None:
        raise ValueError(f"vLLM's parsers need the tokenizer of the model that {engine} serves: give --model.")
    parser_class(model, reasoning_parser, tool_call_parser)
    own = partial(VLLMParser, model=model, reasoning_parser=reasoning_parser, tool_call_parser=tool_call_parser)
    if reasoning_parser is None:
        return [own, ReasoningParser, TokenIdTracking]
    return [own, TokenIdTracking] if tool_call_parser else [ToolCallParser, own, TokenIdTracking]
