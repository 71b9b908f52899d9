"""What an environment says as the user."""

from __future__ import annotations

from typing import Any

from gym_llm.types import Item


def user_items(said: Any, hook: str) -> list[Item]:
    """What a hook says as the user, as items.

    Raises:
        TypeError: If it is neither a text, nor items, nor None.
    """
    if isinstance(said, str):
        return [{"type": "message", "role": "user", "content": said}]
    if said is None:
        return []
    if not isinstance(said, list) or not all(isinstance(item, dict) for item in said):
        raise TypeError(f"{hook} returns a str, a list of items or None; got {type(said).__name__}.")
    return said
