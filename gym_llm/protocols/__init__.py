"""The APIs that programs ask models by, as pure functions over our requests and responses, streams included."""

from gym_llm.protocols.chat.dialect import CHAT
from gym_llm.protocols.dialect import Dialect, Refusal
from gym_llm.protocols.messages.dialect import MESSAGES
from gym_llm.protocols.responses.dialect import RESPONSES

__all__ = ["DIALECTS", "Dialect", "Refusal", "dialect_of"]

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (CHAT, RESPONSES, MESSAGES)}
"""By name."""


def dialect_of(path: str) -> Dialect:
    """The API that a request with this path is of: its errors have that one's shape; OpenAI's for any other path."""
    return next((dialect for dialect in DIALECTS.values() if dialect.path in path), CHAT)
