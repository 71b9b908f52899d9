"""`--reasoning-parser` and `--tool-call-parser` of `gym-llm rollout`: registered parsers, and vLLM's by its names."""

from __future__ import annotations

import argparse
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
        help="a registered parser, or one of vLLM's, e.g. deepseek_r1, instead of <think>; harmony for gpt-oss",
    )
    group.add_argument(
        "--tool-call-parser",
        metavar="NAME",
        help="a registered parser, or one of vLLM's, e.g. pythonic, instead of Hermes' and Llama's formats",
    )


def parser_wrappers(args: argparse.Namespace, part: Part) -> list[Wrap] | None:
    """See `gym_llm.wrappers.parser_wrappers`; whatever it raises is a `UsageError`."""
    from gym_llm import wrappers

    if capabilities(part.engine).loads_model:
        kind, _, model = part.engine.partition(":")
        model = model or kind
    else:
        model = str(part.engine_options.get("tokenizer") or part.engine_options.get("model") or "")
    try:
        return wrappers.parser_wrappers(args.reasoning_parser, args.tool_call_parser, model or None, engine=part.engine)
    except (DependencyNotInstalled, ValueError, OSError) as error:
        raise UsageError(str(error)) from None
