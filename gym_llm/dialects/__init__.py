"""The APIs that programs ask models by, as pure functions over our requests and responses, streams included."""

from gym_llm.dialects.chat import CHAT
from gym_llm.dialects.dialect import Dialect
from gym_llm.dialects.refusal import Refusal
from gym_llm.dialects.responses import RESPONSES

__all__ = ["DIALECTS", "Dialect", "Refusal"]

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (CHAT, RESPONSES)}
"""By name."""
