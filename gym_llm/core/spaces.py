"""The observation space of requests, the action space of responses, and the space of all texts.

They have no shape. Gymnasium's vector environments batch them into tuples, so observations may differ in length.
`AsyncVectorEnv` needs `shared_memory=False`: text does not fit into memory of a fixed size.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np
from gymnasium import Space

from gym_llm.protocols.responses.actions import output_items, with_output
from gym_llm.types import Item, Request, ResponseDict

T = TypeVar("T")

_SAMPLE_CHARACTERS = string.ascii_letters + string.digits + " .,?!\n"
_MAX_SAMPLE_LENGTH = 64
_ROLES = frozenset({"user", "assistant", "system", "developer"})
_WORDS = (
    r"the answer is not what you think because we add two and three to get five then check again so it must be A or B "
    r"7 42 \boxed{C} \boxed{12} yes no maybe Paris Kyoto"
)
_TOOL: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Look up the weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class _TextSpace(Space[T]):
    """A space without a fixed size or finite choices; all spaces of one class are equal."""

    def __init__(self, seed: int | np.random.Generator | None = None, *, dtype: type | None = None) -> None:
        super().__init__(dtype=dtype, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed size."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> T:
        """A random member, made anew.

        Raises:
            ValueError: If `mask` or `probability` is not None: there is nothing to mask.
        """
        if mask is not None or probability is not None:
            raise ValueError(f"{self} has no finite choices, so `mask` and `probability` must be None.")
        return self._sample(self.np_random)

    def _sample(self, rng: np.random.Generator) -> T:
        raise NotImplementedError

    def to_jsonable(self, sample_n: Iterable[T]) -> list[Any]:
        """The samples as a list of JSON values."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        """The inverse of `to_jsonable`; response objects have become plain dicts."""
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RequestSpace(_TextSpace[Request]):
    """All requests: the body of `POST /v1/responses`, as a plain dict.

    Args:
        seed: Seeds `sample`: one to three messages, in some cases with a tool.

    >>> space = RequestSpace(seed=0)
    >>> space.sample() in space, {"input": [{"role": "user", "content": "Hi"}]} in space, {"input": 3} in space
    (True, True, False)
    """

    def _sample(self, rng: np.random.Generator) -> Request:
        user, assistant, system = (
            {"role": role, "content": _random_text(rng)} for role in ("user", "assistant", "system")
        )
        conversations: tuple[list[Item], ...] = (
            [user],
            [system, user],
            [user, assistant, {"role": "user", "content": _random_text(rng)}],
        )
        request: Request = {"input": conversations[rng.integers(len(conversations))]}
        if rng.random() < 0.25:
            request["tools"] = [deepcopy(_TOOL)]
        return request

    def contains(self, x: Any) -> bool:
        """Whether `x` is shaped like a request; what its texts say does not matter. Never raises."""
        if not isinstance(x, dict):
            return False
        items, tools = x.get("input"), x.get("tools")
        return (
            (isinstance(items, str) or (isinstance(items, list) and all(map(_is_input_item, items))))
            and isinstance(x.get("instructions"), str | None)
            and (tools is None or (isinstance(tools, list) and all(map(_is_tool, tools))))
        )


class ResponseSpace(_TextSpace[ResponseDict]):
    """All responses, in any form that `env.step` takes: see `gym_llm.protocols.responses.actions`.

    Args:
        seed: Seeds `sample`: a completed response of random words without calls, so that a single turn ends the
            episode.

    >>> space = ResponseSpace(seed=0)
    >>> space.sample() in space, [{"type": "message", "role": "assistant", "content": "4"}] in space, "4" in space
    (True, True, False)
    """

    def _sample(self, rng: np.random.Generator) -> ResponseDict:
        name = f"{int(rng.integers(2**63)):016x}"
        content = [{"type": "output_text", "text": _random_text(rng), "annotations": []}]
        message = {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed"}
        return {
            "id": f"resp_{name}",
            "object": "response",
            "created_at": 0.0,
            "model": "random",
            "status": "completed",
            "output": [{**message, "content": content}],
        }

    def contains(self, x: Any) -> bool:
        """Whether `env.step` would take `x`; what the model says in it does not matter. Never raises."""
        try:
            output_items(x)
        except Exception:  # `InvalidAction`; but the `to_dict` of a foreign object may raise anything
            return False
        return True

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        """The samples as a list of JSON values: response objects become dicts."""
        return [with_output(sample, output_items(sample)) for sample in sample_n]


class AnyText(_TextSpace[str]):
    """Every `str`, of any length and any characters; `gymnasium.spaces.Text` has a length limit and an alphabet.

    Args:
        seed: Seeds `sample`: ASCII texts of 0 to 64 characters.

    >>> AnyText().contains("¿Qué?"), AnyText().contains(4)
    (True, False)
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(seed, dtype=str)

    def _sample(self, rng: np.random.Generator) -> str:
        length = rng.integers(_MAX_SAMPLE_LENGTH + 1)
        return "".join(_SAMPLE_CHARACTERS[i] for i in rng.integers(len(_SAMPLE_CHARACTERS), size=length))

    def contains(self, x: Any) -> bool:
        """Whether `x` is a `str`."""
        return isinstance(x, str)


def _is_input_item(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    if kind is None or kind == "message":
        role = item.get("role")
        return isinstance(role, str) and role in _ROLES and isinstance(item.get("content"), str | list)
    return isinstance(kind, str)


def _is_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("type"), str)


def _random_text(rng: np.random.Generator) -> str:
    words = _WORDS.split()
    return " ".join(words[index] for index in rng.integers(len(words), size=rng.integers(1, 13)))
