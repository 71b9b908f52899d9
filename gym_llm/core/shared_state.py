"""Lists, dicts and sets of verifier classes: all episodes share them, so what one episode adds, the others see."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from gym_llm.utils.secrets import redacted_logger

_MUTABLE = (list, dict, set, bytearray, deque)
_DELIBERATE = ("cache", "memo")
_CLOSE_LOOKS = 3
"""The first episodes compare contents, the others sizes alone: a look at a large table takes microseconds."""

_LARGEST = 1_000
logger = redacted_logger(__name__)


class SharedState:
    """Notices when episodes change what their class holds, and warns once.

    An attribute that is annotated as a `ClassVar`, or whose name says that it is a cache, is shared on purpose.

    Args:
        cls: A subclass of `VerifierEnv`.
        base: `VerifierEnv`, whose own attributes are left out.

    Attributes:
        changed: The names of what has changed.
    """

    def __init__(self, cls: type, base: type) -> None:
        self._name = cls.__name__
        self._values = dict(_mutable_values(cls, base))
        self._sizes: dict[str, int] = {}
        self._contents: dict[str, str] = {}
        self._looks = 0
        self.changed: list[str] = []

    def begin(self) -> None:
        """Take what the first episode finds."""
        if self._values and not self._sizes:
            self._contents = {name: _content(value) for name, value in self._values.items()}
            self._sizes = {name: len(value) for name, value in self._values.items()}

    def check(self) -> None:
        """Compare after an episode's verdict."""
        if not self._sizes:
            return
        self._looks += 1
        is_close = self._looks <= _CLOSE_LOOKS
        for name, value in list(self._values.items()):
            if len(value) != self._sizes[name] or (is_close and _content(value) != self._contents.get(name, "")):
                del self._values[name]
                self.changed.append(name)
                logger.warning("%s", self.sentence(name))

    def sentence(self, name: str) -> str:
        """Return what is wrong with an attribute that has changed."""
        return (
            f"An episode changed {self._name}.{name}, which all episodes share: make it in setup, or annotate it as a "
            "ClassVar if that is meant."
        )


def _mutable_values(cls: type, base: type) -> Iterator[tuple[str, Any]]:
    for parent in cls.__mro__[: cls.__mro__.index(base)]:
        annotations = vars(parent).get("__annotations__", {})
        for name, value in vars(parent).items():
            is_meant = "ClassVar" in str(annotations.get(name)) or any(word in name.lower() for word in _DELIBERATE)
            if isinstance(value, _MUTABLE) and not (is_meant or name.startswith("__") or hasattr(base, name)):
                yield name, value
            elif isinstance(value, FunctionType) and (value.__defaults__ or value.__kwdefaults__):
                for parameter in inspect.signature(value).parameters.values():
                    if isinstance(parameter.default, _MUTABLE):
                        yield f"{name}({parameter.name}=)", parameter.default


def _content(value: Any) -> str:
    return repr(value) if len(value) <= _LARGEST else ""
