"""Model APIs, as pure functions over our requests and responses, with their streams."""

from gym_llm.protocols.chat.dialect import CHAT
from gym_llm.protocols.dialect import Dialect, Refusal
from gym_llm.protocols.messages.dialect import MESSAGES
from gym_llm.protocols.responses.dialect import RESPONSES

__all__ = ["DIALECTS", "Dialect", "Refusal", "dialect_of"]

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (CHAT, RESPONSES, MESSAGES)}
"""The dialects by name."""


def dialect_of(path: str) -> Dialect:
    """Return the API of a request's path, for the form of its errors; OpenAI's chat for any other path."""
    return next((dialect for dialect in DIALECTS.values() if dialect.path in path), CHAT)
