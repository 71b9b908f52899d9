"""TokenCodec: a turn's token ids without those that the turn before has already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from gym_llm.types import TOKEN_FIELDS, Item, ResponseDict

_PROMPT, _SAMPLED = TOKEN_FIELDS[:2]
_SHARED = "prompt_begins_as_before"


class TokenCodec:
    """Shortens the prompts of one conversation, turn by turn, and restores them in the same order.

    A prompt usually begins with the prompt and the answer before it. A journal that wrote all of each would grow with
    the square of the turns.
    """

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: list[int] = []

    def encode(self, response: ResponseDict) -> ResponseDict:
        """Return the response, or a shallow copy without the ids that the turn before has."""
        return self._each(response, self._shorten)

    def decode(self, response: ResponseDict) -> ResponseDict:
        """Return the response that `encode` was given."""
        return self._each(response, self._restore)

    def _each(self, response: ResponseDict, change: Callable[[Item], Item]) -> ResponseDict:
        output: Any = response.get("output")
        if isinstance(output, list):
            for index, item in enumerate(output):
                if isinstance(item, dict) and _PROMPT in item:
                    if output is response["output"]:
                        output = output.copy()
                    output[index] = change(item)
            if output is not response["output"]:
                return cast(ResponseDict, {**response, "output": output})
        return response

    def _shorten(self, item: Item) -> Item:
        prompt, ids = item[_PROMPT], self._ids
        self._remember(prompt, item)
        if not ids or not isinstance(prompt, list) or prompt[: len(ids)] != ids:
            return item
        return {**item, _PROMPT: prompt[len(ids) :], _SHARED: True}

    def _restore(self, item: Item) -> Item:
        item = dict(item)
        if item.pop(_SHARED, False):
            item[_PROMPT] = self._ids + item[_PROMPT]
        self._remember(item[_PROMPT], item)
        return item

    def _remember(self, prompt: Any, item: Item) -> None:
        sampled = item.get(_SAMPLED)
        self._ids = prompt + sampled if isinstance(prompt, list) and isinstance(sampled, list) else []
