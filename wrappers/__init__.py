"""Gymnasium wrappers for language-model environments.

Wrappers that rewrite the action go around the environment in this order, innermost first: `ToolCallParser`,
`ReasoningParser`, `TextAction`. Text becomes a message, reasoning leaves the message, and calls are parsed from the
rest. `VLLMParser` replaces one of the two parsers or both. `HarmonyParser` replaces both. `ParseActions` takes any
parsers by their names (`gym_llm.tokens.parsers`).
"""

from typing import TYPE_CHECKING, Any

from gym_llm.core.spaces import AnyText
from gym_llm.wrappers.parse_response import (
    HarmonyParser,
    ParseActions,
    ReasoningParser,
    ToolCallParser,
    VLLMParser,
    parser_wrappers,
)
from gym_llm.wrappers.record_rollouts import RecordRollouts
from gym_llm.wrappers.text_action import TextAction
from gym_llm.wrappers.text_observation import TextObservation
from gym_llm.wrappers.token_ids import TokenIdTracking

if TYPE_CHECKING:
    from gym_llm.wrappers.pettingzoo_env import PettingZooEnv

__all__ = [
    "AnyText",
    "HarmonyParser",
    "ParseActions",
    "PettingZooEnv",
    "ReasoningParser",
    "RecordRollouts",
    "TextAction",
    "TextObservation",
    "TokenIdTracking",
    "ToolCallParser",
    "VLLMParser",
    "parser_wrappers",
]


def __getattr__(name: str) -> Any:
    if name == "PettingZooEnv":  # it needs a package that few have
        from gym_llm.wrappers.pettingzoo_env import PettingZooEnv

        return PettingZooEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
