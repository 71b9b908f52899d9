"""Stand-ins in the tests' process for objects of the program that are not data.

One never compares: it is equal to itself alone, and a method of it that is called with arguments returns no verdict
about them. So an object that claims to equal, contain or start with something is of no use to the program.
"""

from __future__ import annotations

import collections
import inspect
import sys
import types
import unittest
import unittest.mock
from typing import Any

import plain_values  # type: ignore[import-not-found]
import two_sides  # type: ignore[import-not-found]

_PROGRAM = "__test__"
_NAMES = ("__name__", "__qualname__", "__doc__")
_COMPARING = "equals eq ne lt gt le ge isin contains match fullmatch all any item sum mean between compare"
_METHODS_OF_DATA = {
    *(name for kind in (str, bytes, list, tuple, dict, set, frozenset, float) for name in dir(kind)),
    *_COMPARING.split(),
}
_MOST_ITEMS = 1_000_000


class Undecidable(TypeError):
    """Raised when a test would have to believe what an object of the program says about an expected value."""


class StandIn(two_sides.StandIn):  # type: ignore[misc]
    """Stands for an object of the program."""

    __slots__ = ()
    _gym_class: type | None = None

    def __getattr__(self, name: str) -> Any:
        known = type(self)._gym_class
        if name.startswith("_" if known is None else "__") and name not in _NAMES:
            raise AttributeError(name)
        if known is not None and inspect.isroutine(inspect.getattr_static(known, name, None)):
            return Method(self, name)
        value = operate(self, "getattr", name)
        is_method = issubclass(type(value), StandIn) and type(value)._gym_callable
        return Method(self, name) if is_method else value

    def __setattr__(self, name: str, value: Any) -> None:
        operate(self, "setattr", name, value)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, item: Any) -> bool:
        return any(one is item or one == item for one, _ in zip(self, range(_MOST_ITEMS)))  # noqa: B905

    def __len__(self) -> int:
        return _exactly(int, operate(self, "__len__"))  # type: ignore[no-any-return]

    def __iter__(self) -> Any:
        return operate(self, "__iter__")

    def __next__(self) -> Any:
        return operate(self, "__next__")

    def __getitem__(self, key: Any) -> Any:
        return operate(self, "__getitem__", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        operate(self, "__setitem__", key, value)

    def __enter__(self) -> Any:
        return operate(self, "__enter__")

    def __exit__(self, *error: object) -> None:
        operate(self, "__exit__", None, None, None)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it."""
        return operate(self, "__call__", *arguments, **named)

    def __str__(self) -> str:
        return _exactly(str, operate(self, "__str__"))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return _exactly(str, operate(self, "__repr__"))  # type: ignore[no-any-return]


class Method:
    """A method of an object of the program."""

    def __init__(self, owner: StandIn, name: str) -> None:
        self._owner, self._name = owner, name
        self.__name__ = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it."""
        given = arguments or named
        if given and type(self._owner)._gym_class is None:
            raise Undecidable(f"{self._name}() of an object of the program is called with arguments")
        value = _ask(self._owner, "method", arguments, named, name=self._name)
        kind = type(value).__name__
        if given and ("bool" in kind or (self._name in _METHODS_OF_DATA and ("int" in kind or "float" in kind))):
            raise Undecidable(f"{self._name}() of an object of the program judges what it is given")
        return value


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"a value of {kind.__name__} was expected")
    return value


def operate(stand_in: StandIn, op: str, *arguments: Any, **named: Any) -> Any:
    """Have the program's process do an operation with the object."""
    return _ask(stand_in, op, arguments, named)


def _ask(stand_in: StandIn, op: str, arguments: tuple[Any, ...], named: dict[str, Any], **more: Any) -> Any:
    line = object.__getattribute__(stand_in, "_gym_line")
    return line.have(op, object.__getattribute__(stand_in, "_gym_number"), arguments, named, **more)


def _is_data(kind: type) -> bool:
    numpy, frame = sys.modules.get("numpy"), sys.modules.get("pandas")
    kinds: list[Any] = [str, bytes, bytearray, int, float, complex, list, tuple, dict, set, frozenset, BaseException]
    kinds += [collections.UserString, collections.UserList, collections.UserDict, collections.deque, type]
    kinds += [unittest.mock.NonCallableMock, unittest.TestCase, type(unittest.mock.ANY), types.ModuleType]
    if numpy is not None:
        kinds += [numpy.ndarray, numpy.generic]
    if frame is not None:
        kinds += [frame.core.base.PandasObject, frame.api.extensions.ExtensionArray, frame.Timestamp, frame.Timedelta]
        allowed = (frame.core.groupby.GroupBy,)
        return issubclass(kind, tuple(kinds)) and not issubclass(kind, allowed)
    return issubclass(kind, tuple(kinds))


def stand_in(line: Any, number: int, described: dict[str, Any]) -> Any:
    """Return the stand-in for an object, of the nearest of its classes that is loaded here and is not one of data."""
    if described["coroutine"] is True:

        async def awaited() -> Any:
            return line.have("__await__", number, (), {})

        return awaited()
    found = [plain_values.found(str(module), str(name)) for module, name in described["of"]]
    kinds = [one for one in found if isinstance(one, type) and one is not object]
    known = next((one for one in kinds if one.__module__ != _PROGRAM), None)
    if described["generator"] is True:
        known = types.GeneratorType
    if described["function"] is True:
        known = types.FunctionType
    if known is not None and _is_data(known):
        known = None
    body: dict[str, Any] = {"__slots__": (), "_gym_class": known, "_gym_callable": described["callable"] is True}
    name = str(described["name"])[:200]
    if known is not None:
        body.update(
            __class__=property(lambda self: known), __module__=known.__module__, __qualname__=known.__qualname__
        )
        name = known.__name__
    return type(name, (StandIn,), body)(line, number)
