"""`--reasoning-parser` and `--tool-call-parser` of `gym-llm rollout`: vLLM's parsers, by its names for them."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from gymnasium.error import DependencyNotInstalled

from gym_llm.engines import capabilities
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from gym_llm.cli.parts import Part
    from gym_llm.rollout.factory import Wrap


def add_parser_options(group: argparse._ArgumentGroup) -> None:
    """Add the two options."""
    group.add_argument(
        "--reasoning-parser",
        metavar="NAME",
        help="one of vLLM's, e.g. deepseek_r1, instead of looking for <think>; openai_gptoss for gpt-oss",
    )
    group.add_argument(
        "--tool-call-parser",
        metavar="NAME",
        help="one of vLLM's, e.g. pythonic, instead of looking for Hermes' and Llama's formats",
    )


def parser_wrappers(args: argparse.Namespace, part: Part) -> list[Wrap] | None:
    """What the environments of a part are wrapped with; None for the usual.

    Raises:
        UsageError: If a parser is unknown, cannot be used, or no model says which tokenizer it is for.
    """
    from gym_llm.wrappers import HarmonyParser, ReasoningParser, TokenIdTracking, ToolCallParser, VLLMParser
    from gym_llm.wrappers.harmony import load_encoding
    from gym_llm.wrappers.vllm_parser import HARMONY, parser_class

    reasoning, calls = args.reasoning_parser, args.tool_call_parser
    names = {reasoning, calls} - {None}
    if not names:
        return None
    try:
        if names <= set(HARMONY):  # either stands for both
            load_encoding()
            return [HarmonyParser, TokenIdTracking]
        model = _model(part)
        parser_class(model, reasoning, calls)
    except (DependencyNotInstalled, ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    own = partial(VLLMParser, model=model, reasoning_parser=reasoning, tool_call_parser=calls)
    if reasoning is None:
        return [own, ReasoningParser, TokenIdTracking]
    return [own, TokenIdTracking] if calls else [ToolCallParser, own, TokenIdTracking]


def _model(part: Part) -> str:
    """Whose tokenizer the parsers are given."""
    if capabilities(part.engine).loads_model:
        kind, _, model = part.engine.partition(":")
        return model or kind
    named = part.engine_options.get("tokenizer") or part.engine_options.get("model")
    if not named:
        raise UsageError(f"vLLM's parsers need the tokenizer of the model that {part.engine} serves: give --model.")
    return str(named)
