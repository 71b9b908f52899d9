"""Convert reasoning items to thinking blocks of Anthropic's Messages API and back.

Clients return a thinking block unchanged. Its signature, which clients do not read, holds the rest of the item: its id,
and content that another provider has encrypted. Foreign signatures are ignored.
"""

from __future__ import annotations

from typing import Any

from gym_llm.types import Item

UNPARSED = "unparsed_arguments"
"""The key of a call's arguments that are not a JSON object: a client's own parser would fail on them."""

_OURS = "gym_llm:"


def thinking_blocks(item: Item) -> list[dict[str, Any]]:
    """The blocks of a reasoning item: one for its content, or one for each of its summaries."""
    encrypted = item.get("encrypted_content") or ""
    signature = f"{_OURS}{item.get('id') or ''}:{encrypted}"
    if parts := item.get("content"):
        thoughts = ["\n".join(part["text"] for part in parts)]
    else:
        thoughts = [part["text"] for part in item.get("summary") or ()]
    if not thoughts and encrypted:
        return [{"type": "redacted_thinking", "data": signature}]
    return [{"type": "thinking", "thinking": thought, "signature": signature} for thought in thoughts]


def reasoning_item(block: dict[str, Any]) -> Item | None:
    """The reasoning item of a block; None for one that only its own provider can read.

    >>> reasoning_item({"type": "thinking", "thinking": "2+2", "signature": "EqQBCg"})
    {'type': 'reasoning', 'summary': [{'type': 'summary_text', 'text': '2+2'}]}
    """
    redacted = block["type"] == "redacted_thinking"
    item: Item = {"type": "reasoning", "summary": []}
    if not redacted:
        if not isinstance(block["thinking"], str):
            raise TypeError("the `thinking` of a thinking block is not a string")
        item["summary"].append({"type": "summary_text", "text": block["thinking"]})
    signature = block.get("data" if redacted else "signature")
    if isinstance(signature, str) and signature.startswith(_OURS):
        name, _, encrypted = signature.removeprefix(_OURS).rpartition(":")
        item |= {"id": name} if name else {}
        item |= {"encrypted_content": encrypted} if encrypted else {}
    elif redacted:
        return None
    return item
