"""Shorter histories: what a conversation keeps when its prompt would outgrow the model's context."""

from __future__ import annotations

from gym_llm.types import TURN_FIELDS, Item
from gym_llm.utils.json_codec import dumps

SUMMARY_PROMPT = (
    "The conversation is about to outgrow your context. Write a summary with which you can go on: the task, what you "
    "have done and found out, and what is left to do. Call no tools now."
)
_SUMMARY_START = "Summary of the conversation so far:\n"
_NOTE = "[The output, {count:,} characters, was removed to save space.]"


def is_models(item: Item) -> bool:
    """Return whether the model said this item."""
    kind = item.get("type", "message")
    return kind != "function_call_output" and (kind != "message" or item.get("role") == "assistant")


def size_of(items: list[Item]) -> int:
    """Return the number of bytes of items without their token ids, at least as many as their tokens."""
    return sum(len(dumps(without_tokens(item))) for item in items)


def without_tokens(item: Item) -> Item:
    """Return an item without token ids: they belong to a prompt that the model no longer gets."""
    if TURN_FIELDS[0] not in item:
        return item
    return {name: value for name, value in item.items() if name not in TURN_FIELDS}


def split(items: list[Item]) -> tuple[list[Item], list[list[Item]]]:
    """Split a conversation into its head, up to the first user message, and its turns.

    A turn begins with a message of the user, or with what the model says after tool outputs. Calls are in one turn with
    their outputs.
    """
    head = next((n + 1 for n, item in enumerate(items) if item.get("role") == "user"), 0)
    turns: list[list[Item]] = []
    for n in range(head, len(items)):
        item, before = items[n], items[n - 1] if n > head else None
        begins = before is None or not (is_models(item) or item.get("type") == "function_call_output")
        if begins or (is_models(item) and before is not None and before.get("type") == "function_call_output"):
            turns.append([])
        turns[-1].append(item)
    return items[:head], turns


def trimmed(items: list[Item], share: float) -> list[Item] | None:
    """Return a conversation without its oldest turns.

    Args:
        items: The conversation. Its head and its last turn stay.
        share: What is to be left of its size, if possible.

    Returns:
        The shorter conversation without token ids; None if nothing can be left out.
    """
    head, turns = split(items)
    left, most = size_of(items), share * size_of(items)
    first = 0
    while first < len(turns) - 1 and left > most:
        left -= size_of(turns[first])
        first += 1
    if first == 0:
        return None
    return [without_tokens(item) for item in (*head, *(item for turn in turns[first:] for item in turn))]


def without_results(items: list[Item], share: float) -> list[Item] | None:
    """Return a conversation with short notes in place of its oldest tool outputs; see `trimmed`."""
    head, turns = split(items)
    last = turns[-1] if turns else []
    old = [without_tokens(item) for item in items[: len(items) - len(last)]]
    left, most, has_changed = size_of(items), share * size_of(items), False
    for n in range(len(head), len(old)):
        output = old[n].get("output")
        if left <= most:
            break
        if old[n].get("type") != "function_call_output" or output is None:
            continue
        text = output if isinstance(output, str) else dumps(output).decode(errors="replace")
        note = _NOTE.format(count=len(text))
        if len(note) < len(text) and not text.startswith(_NOTE[:12]):
            shorter = {**old[n], "output": note}
            left -= size_of([old[n]]) - size_of([shorter])
            old[n], has_changed = shorter, True
    return [*old, *map(without_tokens, last)] if has_changed else None


def summarized(items: list[Item], summary: str) -> list[Item]:
    """Return a conversation's head, a user message with the summary of what followed, and the last turn."""
    head, turns = split(items)
    last = turns[-1] if turns else []
    message: Item = {"type": "message", "role": "user", "content": f"{_SUMMARY_START}{summary}"}
    return [without_tokens(item) for item in (*head, message, *last)]
