"""Gymnasium wrappers for language-model environments.

Wrappers that rewrite the action go around the environment in this order, innermost first: `ToolCallParser`,
`ReasoningParser`, `TextAction` (text becomes a message, thinking leaves the message, what is left is searched for
calls). `VLLMParser` takes the place of one of the two parsers or of both, `HarmonyParser` that of both.
"""

from gym_llm.spaces import AnyText
from gym_llm.wrappers.harmony import HarmonyParser
from gym_llm.wrappers.reasoning import ReasoningParser
from gym_llm.wrappers.record import RecordRollouts
from gym_llm.wrappers.text_action import TextAction
from gym_llm.wrappers.text_observation import TextObservation
from gym_llm.wrappers.token_ids import TokenIdTracking
from gym_llm.wrappers.tool_calls import ToolCallParser
from gym_llm.wrappers.vllm_parser import VLLMParser

__all__ = [
    "AnyText",
    "HarmonyParser",
    "ReasoningParser",
    "RecordRollouts",
    "TextAction",
    "TextObservation",
    "TokenIdTracking",
    "ToolCallParser",
    "VLLMParser",
]
