"""Both ends of the line between the tests and the program: messages, stand-ins, and the state that both share.

The tests run in one process and the program in another. Data crosses as data (`plain_values`). Any other object stays
where it is: the other side gets a `StandIn`, whose operations are messages. A side answers messages while it waits for
the answer to its own. So the program can call a mock of the tests during a call.
"""

# A message is a length (4 bytes, big-endian) and JSON. A request has "op", the number of an object of the receiver, its
# arguments and what the two sides share ("world"). The answer has "value" or "error", the arguments that were changed,
# and "world" again. What both sides share, as far as it changed since the last message: the folder, the environment
# variables, and the states of the random generators. A side answers only while it waits itself.

from __future__ import annotations

import json
import os
import random
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import plain_values  # type: ignore[import-not-found]

_LENGTH = struct.Struct(">I")
_MOST_BYTES = 1 << 28
_MOST_NUMBERS = 1 << 20
_MOST_TRACE = 1500
_SPECIAL = (
    *("__enter__", "__exit__", "__len__", "__iter__", "__next__", "__getitem__", "__setitem__", "__delitem__"),
    *("__call__", "__str__", "__repr__", "__int__", "__float__", "__bool__", "__contains__", "__await__"),
    *("__lt__", "__gt__", "__le__", "__ge__", "__add__", "__sub__", "__mul__", "__truediv__", "__pow__", "__neg__"),
    *("__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__floordiv__", "__mod__", "__and__", "__or__", "__iadd__"),
)
_CHANGEABLE = (
    *("list", "dict", "set", "bytearray", "deque", "OrderedDict", "Counter", "defaultdict"),
    *("ndarray", "DataFrame", "Series", "StringIO", "BytesIO"),
)
# kept here, because tests and programs replace these by mocks
_dumps, _loads = json.JSONEncoder().encode, json.JSONDecoder().decode
_read, _write, _getcwd, _chdir, _environ = os.read, os.write, os.getcwd, os.chdir, os.environ
_getstate, _setstate = random.getstate, random.setstate


class Closed(Exception):
    """Raised when the other side is gone, or sent no message."""


class Line:
    """An end of the line.

    Args:
        reading: The descriptor to read from.
        writing: The descriptor to write to.
        make: Makes the stand-in for an object of the other side, from its number and its description.
        describe: Describes an object of this side to the other.
    """

    def __init__(
        self,
        reading: int,
        writing: int,
        make: Callable[[Line, int, dict[str, Any]], Any],
        describe: Callable[[Any], dict[str, Any]],
    ) -> None:
        self.reading, self.writing = reading, writing
        self.make, self.describe = make, describe
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.stand_ins: dict[int, Any] = {}
        self.world = World()
        self.lock = threading.RLock()

    def known(self, value: Any) -> dict[str, Any] | None:
        """Return the JSON for a stand-in, and None for any other value."""
        number = number_of(value, self)
        return None if number is None else {"t": "yours", "n": number}

    def refer(self, value: Any) -> dict[str, Any]:
        """Return the JSON for an object that is not data."""
        number = self.numbers.get(id(value))
        if number is None or self.objects[number] is not value:
            number = len(self.objects) + 1
            if number > _MOST_NUMBERS:
                raise plain_values.NotPlain("too many objects")
            self.objects[number], self.numbers[id(value)] = value, number
        return {"t": "mine", "n": number, "of": self.describe(value)}

    def referred(self, reference: dict[str, Any]) -> Any:
        """Return the object of this side, or the stand-in for one of the other."""
        number = reference["n"]
        if type(number) is not int:
            raise plain_values.NotPlain("an object without a number")
        if reference["t"] == "yours":
            return self.objects[number]
        if reference["t"] != "mine":
            raise plain_values.NotPlain(f"a value of an unknown kind: {str(reference['t'])[:50]}")
        if number not in self.stand_ins:
            self.stand_ins[number] = self.make(self, number, reference["of"])
        return self.stand_ins[number]

    def module(self, name: str) -> Any:
        """Return a loaded module by its name."""
        return sys.modules[name]

    def pack(self, value: Any) -> Any:
        """Return a value as JSON."""
        return plain_values.pack(value, self)

    def unpack(self, value: Any) -> Any:
        """Return the value of JSON."""
        return plain_values.unpack(value, self)

    def send(self, message: dict[str, Any]) -> None:
        """Write a message."""
        data = _dumps(message).encode()
        if len(data) > _MOST_BYTES:
            raise plain_values.NotPlain("a value that is too large")
        view = memoryview(_LENGTH.pack(len(data)) + data)
        try:
            while view:
                view = view[_write(self.writing, view) :]
        except OSError:
            raise Closed("the other side has ended") from None

    def receive(self) -> dict[str, Any]:
        """Read a message."""
        (size,) = _LENGTH.unpack(self._bytes(_LENGTH.size))
        if size > _MOST_BYTES:
            raise Closed("a message that is too large")
        try:
            message = _loads(self._bytes(size).decode())
        except (ValueError, RecursionError):
            raise Closed("a message that is not JSON") from None
        if type(message) is not dict:
            raise Closed("a message of another form")
        return message

    def _bytes(self, size: int) -> bytes:
        parts = []
        while size:
            part = _read(self.reading, min(size, 1 << 20))
            if not part:
                raise Closed("the other side has ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def ask(
        self, op: str, number: int, arguments: tuple[Any, ...], named: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        """Have the other side do something, answer what it asks meanwhile, and return its answer."""
        with self.lock:
            packed = [self.pack(one) for one in arguments], [[name, self.pack(one)] for name, one in named.items()]
            self.send(
                {"op": op, "n": number, "args": packed[0], "named": packed[1], "world": self.world.changes(), **more}
            )
            while True:
                message = self.receive()
                if "op" not in message:
                    break
                self.answer(message)
            self.world.apply(message.get("world") or {})
            for place, value in message.get("changed") or []:
                change(named[place] if type(place) is str else arguments[place], self.unpack(value))
        return message

    def answer(self, message: dict[str, Any]) -> None:
        """Do what the other side asks, and send the result."""
        self.send(self.result(message))

    def result(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what the other side asks, and return the answer."""
        raise NotImplementedError

    def changed(self, message: dict[str, Any], arguments: list[Any], named: dict[str, Any]) -> list[Any]:
        """Return the arguments that are not any longer as they came, by their places, as JSON."""
        given: list[tuple[int | str, Any, Any]] = [
            *((place, *pair) for place, pair in enumerate(zip(arguments, message["args"]))),  # noqa: B905
            *((name, named[name], packed) for name, packed in message["named"]),
        ]
        again = [
            (place, self.pack(value), before) for place, value, before in given if type(value).__name__ in _CHANGEABLE
        ]
        return [[place, after] for place, after, before in again if after != before]


class World:
    """The state that both processes share, as it was at the last message."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.changes()

    def _now(self) -> dict[str, Any]:
        numpy = getattr(sys.modules.get("numpy"), "random", None)
        version, state, gauss = _getstate()
        now: dict[str, Any] = {"environ": dict(_environ), "random": [version, list(state), gauss]}
        try:
            now["folder"] = _getcwd()
        except OSError:
            pass  # it was removed
        if numpy is not None:
            name, keys, *rest = numpy.mtrand._rand.get_state(legacy=True)
            now["numpy"] = [name, keys.tolist(), *rest]
        return now

    def changes(self) -> dict[str, Any]:
        """Return what has changed since the last message."""
        now = self._now()
        changed = {name: value for name, value in now.items() if self.known.get(name) != value}
        self.known = now
        return changed

    def apply(self, changed: dict[str, Any]) -> None:
        """Make this process as the other says that it is."""
        if type(changed.get("folder")) is str:
            try:
                _chdir(changed["folder"])
            except OSError:
                pass
        if type(changed.get("environ")) is dict:
            for name in [name for name in _environ if name not in changed["environ"]]:
                del _environ[name]
            _environ.update({str(name): str(value) for name, value in changed["environ"].items()})
        try:
            if "random" in changed:
                version, state, gauss = changed["random"]
                _setstate((version, tuple(state), gauss))
            if "numpy" in changed and "numpy" in sys.modules:
                import numpy

                name, keys, *rest = changed["numpy"]
                numpy.random.mtrand._rand.set_state((name, numpy.array(keys, "uint32"), *rest))
        except (TypeError, ValueError, KeyError, OverflowError):
            raise Closed("an invalid state of random numbers") from None
        self.known = self._now()


def change(old: Any, new: Any) -> None:
    """Make an argument equal to what the other side made of its copy."""
    kind = type(old).__name__
    if type(new).__name__ != kind or kind not in _CHANGEABLE:
        return
    if kind in ("list", "bytearray"):
        old[:] = new
    elif kind == "ndarray":
        if old.shape == new.shape and old.flags.writeable:
            old[...] = new
    elif kind in ("DataFrame", "Series"):
        old._update_inplace(new)
    elif kind in ("StringIO", "BytesIO"):
        old.seek(0)
        old.truncate()
        old.write(new.getvalue())
        old.seek(new.tell())
    else:
        old.clear()
        (old.extend if kind == "deque" else old.update)(new)


class StandIn:
    """Stands for an object of the other side. It is equal to itself alone, and true."""

    __slots__ = ("__weakref__", "_gym_line", "_gym_number")

    def __init__(self, line: Any, number: int) -> None:
        object.__setattr__(self, "_gym_line", line)
        object.__setattr__(self, "_gym_number", number)


def number_of(value: Any, line: Line) -> int | None:
    """Return the number of the object that a value stands for, if it is a stand-in of this line."""
    if not issubclass(type(value), StandIn) or object.__getattribute__(value, "_gym_line") is not line:
        return None
    return object.__getattribute__(value, "_gym_number")  # type: ignore[no-any-return]


def special(operate: Callable[..., Any]) -> dict[str, Any]:
    """Return the special methods of a class of stand-ins.

    Args:
        operate: Takes the stand-in, the name of the operation and its arguments.
    """

    def method(name: str) -> Callable[..., Any]:
        def special_method(self: StandIn, *arguments: Any, **named: Any) -> Any:
            return operate(self, name, *arguments, **named)

        return special_method

    return {name: method(name) for name in _SPECIAL}


def perform(value: Any, op: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Do an operation with an object of this side.

    Raises:
        TypeError: If there is no such operation.
    """
    if op == "getattr":
        return getattr(value, *arguments)
    if op == "setattr":
        return setattr(value, *arguments)
    if op == "__call__":
        return value(*arguments, **named)
    if op == "__iter__":
        return iter(value)
    if op == "__bool__":
        return bool(value)
    if op == "__contains__":
        return arguments[0] in value
    if op == "__str__":
        return str(value)
    if op == "__repr__":
        return repr(value)
    if op == "__await__":
        import asyncio

        return asyncio.new_event_loop().run_until_complete(value)
    if op in _SPECIAL and hasattr(type(value), op):
        return getattr(type(value), op)(value, *arguments)
    raise TypeError(f"no operation {str(op)[:50]!r}")


def bases_of(kind: type) -> list[list[str]]:
    """Return the classes of an object by name, of those that a module has under this name."""
    found = plain_values.found
    names = [[one.__module__, one.__qualname__] for one in kind.__mro__[:-1] if type(one.__module__) is str]
    return [[module, name] for module, name in names if isinstance(found(module, name), type)]


def error_of(error: BaseException, line: Line) -> dict[str, Any]:
    """Return an exception as JSON: its classes, arguments, attributes that are data, and text."""
    kind = type(error)
    attributes = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    try:
        text = str(error)
    except Exception:
        text = ""
    return {
        "of": bases_of(kind),
        "name": kind.__name__,
        "args": line.pack(list(error.args)),
        "attributes": line.pack(attributes),
        "text": text[:100_000],
        "trace": _trace(error)[-_MOST_TRACE:],
    }


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        return ""


class InOtherProcess(Exception):
    """The cause of an exception that came from the other side: its traceback, as text."""


_errors: dict[tuple[type, str], type] = {}


def error_from(packed: dict[str, Any], line: Line) -> BaseException:
    """Return the exception that JSON of `error_of` stands for, of the nearest class that is loaded here."""
    error = _error_from(packed, line)
    error.__cause__ = InOtherProcess(str(packed["trace"])[-_MOST_TRACE:])
    return error


def _error_from(packed: dict[str, Any], line: Line) -> BaseException:
    bases = [plain_values.found(str(module), str(name)) for module, name in packed["of"]]
    kinds = [one for one in bases if isinstance(one, type) and issubclass(one, (Exception, SystemExit))]
    kind = next((one for one in kinds if not one.__module__.startswith("unittest")), RuntimeError)
    arguments, attributes, text = tuple(line.unpack(packed["args"])), line.unpack(packed["attributes"]), packed["text"]
    if kind.__module__ == "builtins" and not issubclass(kind, UnicodeError) and packed["name"] == kind.__name__:
        error = kind(*arguments)
        if str(error) == text:
            return error  # type: ignore[no-any-return]
    name = str(packed["name"])[:200]
    if (kind, name) not in _errors:
        _errors[kind, name] = type(
            name, (kind,), {"__init__": lambda self, *_: None, "__str__": lambda self: self._text}
        )
    error = _errors[kind, name].__new__(_errors[kind, name], *arguments)
    error.args = arguments
    for attribute, value in {**attributes, "_text": str(text)}.items():
        try:
            setattr(error, attribute, value)
        except (AttributeError, TypeError):
            pass
    return error  # type: ignore[no-any-return]
