"""StateCopy: the copy of an episode's state for a fork, which shares what no episode changes."""

from __future__ import annotations

import copy
import copyreg
import functools
import random
from collections import deque
from collections.abc import Iterable
from enum import EnumMeta
from tempfile import TemporaryDirectory
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any, TypeVar, cast

import numpy as np

from gym_llm.errors import CannotFork
from gym_llm.tokens.segments import Turn
from gym_llm.types import Episode

T = TypeVar("T")

_SHARED = frozenset(
    {int, float, bool, str, bytes, complex, NoneType, type, range, FunctionType, BuiltinFunctionType, ModuleType, Turn}
)
_HEAP_TYPE = 1 << 9  # a class that Python code has made, as CPython's `Py_TPFLAGS_HEAPTYPE` says
_MISSING = object()


class StateCopy:
    """Copies values that refer to each other: an object that occurs twice is copied once, as by `copy.deepcopy`.

    Dicts, lists and objects of plain classes are copied here, several times as fast as there. What a class says of its
    own copies (`__deepcopy__`, `__reduce__`, `__getstate__`) counts, and its `check_fork` may refuse. The copy of an
    `Episode` has a list of its own, with the same items.

    Args:
        shared: Objects that the copies refer to as the originals do.
        seed: Seeds the `random.Random` and numpy's generators among the values, each in another way. None: their copies
            draw what the originals draw.
    """

    def __init__(self, shared: Iterable[Any] = (), *, seed: int | None = None) -> None:
        self.memo: dict[int, Any] = {id(value): value for value in shared}
        self._seed = seed

    def replace(self, original: Any, copied: Any) -> None:
        """Use this copy wherever a value refers to the original."""
        self.memo[id(original)] = copied

    def of(self, value: T) -> T:
        """Return the copy of a value.

        Raises:
            CannotFork: If the value has something that lives outside of it, such as a temporary folder.
            Exception: If a class cannot copy its objects. `copy.deepcopy` raises TypeError for locks, files and
                processes.
        """
        kind = type(value)
        if kind in _SHARED:
            return value
        memo = self.memo
        if (known := memo.get(id(value), _MISSING)) is not _MISSING:
            return cast(T, known)
        made: Any
        if kind is dict:
            made = memo[id(value)] = {}
            for name, each in cast("dict[Any, Any]", value).items():
                made[name if type(name) in _SHARED else self.of(name)] = (
                    each if type(each) in _SHARED else self.of(each)
                )
            return cast(T, made)
        if kind is list:
            made = memo[id(value)] = []
            made += [each if type(each) in _SHARED else self.of(each) for each in cast("list[Any]", value)]
            return cast(T, made)
        if kind is Episode:
            return cast(T, self._episode(cast(Episode, value)))
        if kind is set or kind is deque:
            made = memo[id(value)] = kind() if kind is set else deque(maxlen=cast("deque[Any]", value).maxlen)
            for each in cast("set[Any]", value):
                (made.add if kind is set else made.append)(self.of(each))
            return cast(T, made)
        if self._seed is not None and kind in (random.Random, np.random.Generator):
            made = memo[id(value)] = self._generator(kind)
            return cast(T, made)
        if kind is TemporaryDirectory:
            raise CannotFork("a temporary folder is not copied")
        if (slots := _plain_slots(cast(Any, kind))) is None:
            if (check_fork := getattr(value, "check_fork", None)) is not None:
                check_fork()
            return copy.deepcopy(value, memo)
        made = memo[id(value)] = object.__new__(kind)
        if attributes := getattr(value, "__dict__", None):
            vars(made).update({name: self.of(each) for name, each in attributes.items()})
        for name in slots:
            if (each := getattr(value, name, _MISSING)) is not _MISSING:
                object.__setattr__(made, name, self.of(each))  # a frozen dataclass has no other way
        return cast(T, made)

    def _episode(self, episode: Episode) -> Episode:
        made = self.memo[id(episode)] = Episode(
            episode.task_index,
            episode.row,
            episode.request,
            items=episode.items.copy(),
            turn=episode.turn,
            turn_start=episode.turn_start,
            reasoning_turns=episode.reasoning_turns,
            tool_errors=episode.tool_errors,
            usage=None if episode.usage is None else episode.usage.copy(),
            last_response=episode.last_response,
            step_reward=episode.step_reward,
        )
        for value in (episode.row, episode.request, *episode.request.values()):
            self.memo.setdefault(id(value), value)
        self.replace(episode.items, made.items)
        made.state = self.of(episode.state)
        return made

    def _generator(self, kind: type) -> random.Random | np.random.Generator:
        assert self._seed is not None
        self._seed += 1
        return random.Random(self._seed) if kind is random.Random else np.random.default_rng(self._seed)


@functools.lru_cache(maxsize=1024)
def _plain_slots(kind: type) -> tuple[str, ...] | None:
    """Return the slots of a class of which objects are their attributes; None if it says how they are copied."""
    bases = kind.__mro__[:-1]
    is_plain = (
        all(base.__flags__ & _HEAP_TYPE for base in bases)
        and not isinstance(kind, EnumMeta)
        and kind not in copyreg.dispatch_table
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and kind.__getstate__ is object.__getstate__
        and not any(
            hasattr(kind, name) for name in ("__deepcopy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
        )
    )
    if not is_plain:
        return None
    slots = [base.__dict__.get("__slots__", ()) for base in bases]
    names = [name for each in slots for name in ((each,) if isinstance(each, str) else each)]
    if any(name.startswith("__") and name not in ("__dict__", "__weakref__") for name in names):
        return None  # the names of private slots are mangled
    return tuple(name for name in names if not name.startswith("__"))
