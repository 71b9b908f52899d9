"""Convert values to JSON and back, for both sides of a process boundary: only data, never code.

JSON's own values stay unchanged. Every other value is an object with the name of its kind, `t`, and its parts. Objects
that are not data become numbers in a table (`References`): the other side gets a stand-in. What comes back is made of
exact types by this module, so it has their own equality, whatever the sender did.
"""

from __future__ import annotations

import binascii
import collections
import datetime
import decimal
import enum
import fractions
import io
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import plain_libraries  # type: ignore[import-not-found]

DEEPEST = 150
_WORD = re.compile(r"[A-Za-z_]\w{0,200}")
_UTC = datetime.timezone.utc  # noqa: UP017 - an interpreter may be older than Python 3.11
_CONTAINERS: dict[str, type] = {kind.__name__: kind for kind in (list, tuple, set, frozenset, collections.deque)}
_MAPPINGS: dict[str, type] = {kind.__name__: kind for kind in (dict, collections.OrderedDict, collections.Counter)}
_TEXTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PosixPath, pathlib.PurePosixPath)
}
_VIEWS: dict[str, Callable[[list[Any]], Any]] = {
    "dict_keys": lambda items: dict.fromkeys(items).keys(),
    "dict_values": lambda items: dict(enumerate(items)).values(),
    "dict_items": lambda items: dict(items).items(),
}
_BASES = (bool, int, float, str, bytes, bytearray, complex, list, tuple, dict, set, frozenset, collections.deque)
_PLAIN_CLASSES = ("builtins", "numpy", "pandas", "datetime", "decimal", "fractions", "collections", "pathlib", "uuid")
_text = binascii.b2a_base64
_bytes = binascii.a2b_base64


class References(Protocol):
    """The table of objects that are not data."""

    def known(self, value: Any) -> dict[str, Any] | None:
        """Return the JSON for a stand-in, and None for any other value."""

    def refer(self, value: Any) -> dict[str, Any]:
        """Return the JSON that stands for an object."""

    def referred(self, reference: dict[str, Any]) -> Any:
        """Return the object, or the stand-in, for such JSON."""

    def module(self, name: str) -> Any:
        """Return a module by its name, if this side takes modules from the other."""


class NotPlain(ValueError):
    """Raised for a value that is too deep, or JSON that no `pack` makes."""


def pack(value: Any, table: References, depth: int = 0) -> Any:
    """Return a value as JSON has it.

    Raises:
        NotPlain: If it is nested too deeply.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if depth > DEEPEST:
        raise NotPlain("a value that is nested too deeply")

    if (stand_in := table.known(value)) is not None:
        return stand_in

    def inner(one: Any) -> Any:
        return pack(one, table, depth + 1)

    name = kind.__name__
    if _CONTAINERS.get(name) is kind:
        return {"t": name, "v": [inner(item) for item in value]}
    if _MAPPINGS.get(name) is kind:
        return {"t": name, "v": [[inner(key), inner(item)] for key, item in kind.items(value)]}
    if _TEXTS.get(name) is kind:
        return {"t": name, "v": str(value)}
    if kind in (bytes, bytearray):
        return {"t": name, "v": _text(value, newline=False).decode()}
    if kind is complex:
        return {"t": name, "v": [value.real, value.imag]}
    if kind in (range, slice):
        return {"t": name, "v": [inner(part) for part in (value.start, value.stop, value.step)]}
    if name in _VIEWS and kind.__module__ == "builtins":
        return {"t": name, "v": [inner(item) for item in value]}
    packed = _packed_time(value, inner)
    if packed is None:
        packed = plain_libraries.pack(value, inner)
    if packed is None:
        packed = _packed_other(value, kind, inner)
    return table.refer(value) if packed is None else packed


def _base_value(value: Any) -> Any:
    base = next(base for base in _BASES if issubclass(type(value), base))
    if base is dict:
        return dict(dict.items(value))
    return base.__new__(base, value) if base in (int, float, str, bytes, complex) else base(value)  # type: ignore[type-var]


def _packed_time(value: Any, inner: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if kind is datetime.datetime:
        offset = value.utcoffset()
        fields = [*value.timetuple()[:6], value.microsecond, value.fold]
        return {"t": "datetime", "v": fields, "offset": inner(offset), "zone": _zone(value.tzinfo)}
    if kind is datetime.date:
        return {"t": "date", "v": [value.year, value.month, value.day]}
    if kind is datetime.time and value.tzinfo is None:
        return {"t": "time", "v": [value.hour, value.minute, value.second, value.microsecond]}
    if kind is datetime.timedelta:
        return {"t": "timedelta", "v": [value.days, value.seconds, value.microseconds]}
    if kind is datetime.timezone:
        return {"t": "timezone", "v": inner(value.utcoffset(None))}
    if kind.__module__.partition(".")[0] in ("pytz", "zoneinfo") and _zone(value):
        return {"t": "zone", "v": _zone(value)}
    return None


def _zone(zone: Any) -> Any:
    for name, attribute in (("pytz", "zone"), ("zoneinfo", "key")):
        if type(zone).__module__.partition(".")[0] == name and type(getattr(zone, attribute, None)) is str:
            return [name, getattr(zone, attribute)]
    return None


def _packed_other(value: Any, kind: type, inner: Callable[[Any], Any]) -> Any:
    if value is Ellipsis or value is NotImplemented:
        return {"t": "constant", "v": str(value)}
    if kind in (io.StringIO, io.BytesIO) and not value.closed:
        return {"t": kind.__name__, "v": inner(value.getvalue()), "at": value.tell()}
    if kind is re.Pattern:
        return {"t": "pattern", "v": inner(value.pattern), "flags": value.flags}
    if kind is types.ModuleType:
        return {"t": "module", "v": str(getattr(value, "__name__", ""))}
    if kind is type and value.__module__.partition(".")[0] in _PLAIN_CLASSES and _found(value) is value:
        return {"t": "class", "v": [value.__module__, value.__qualname__]}
    if issubclass(kind, enum.Enum) and _found(kind) is kind:
        return {"t": "enum", "v": [kind.__module__, kind.__qualname__, value.name]}
    if kind is collections.defaultdict:
        factory = inner(value.default_factory) if type(value.default_factory) is type else None
        return {"t": "defaultdict", "v": [[inner(key), inner(item)] for key, item in value.items()], "of": factory}
    fields = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and isinstance(fields, tuple) and all(type(field) is str for field in fields):
        return {"t": "namedtuple", "name": kind.__name__, "fields": list(fields), "v": [inner(item) for item in value]}
    module = kind.__module__.partition(".")[0]
    if module == "matplotlib" and (issubclass(kind, list) or kind.__name__ == "ArtistList"):
        return {"t": "list", "v": [inner(item) for item in value]}
    if issubclass(kind, _BASES):
        return inner(_base_value(value))
    return None


def _found(kind: type) -> Any:
    return found(kind.__module__, kind.__qualname__)


def found(module: str, name: str) -> Any:
    """Return what a loaded module has under a dotted name, or None."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, "__dict__", {}).get(part)
    return value


def unpack(packed: Any, table: References) -> Any:
    """Return the value that JSON of `pack` stands for; the JSON may be forged.

    Raises:
        NotPlain: If it is not such JSON.
    """
    if type(packed) is not dict:
        if type(packed) is list:
            raise NotPlain("a list without its kind")
        return packed
    try:
        return _unpacked(packed, table)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ArithmeticError, ImportError) as error:
        raise NotPlain(f"what came is no value: {type(error).__name__}: {error}"[:300]) from None


def _unpacked(packed: dict[str, Any], table: References) -> Any:
    kind: str = packed["t"]
    value: Any = packed.get("v")

    def inner(one: Any) -> Any:
        return unpack(one, table)

    if kind in _CONTAINERS:
        return _CONTAINERS[kind](map(inner, value))
    if kind in _MAPPINGS:
        return _MAPPINGS[kind]({inner(key): inner(item) for key, item in value})
    if kind in _TEXTS:
        return _TEXTS[kind](str(value))
    if kind in ("bytes", "bytearray"):
        return bytes(_bytes(value)) if kind == "bytes" else bytearray(_bytes(value))
    if kind in _VIEWS:
        return _VIEWS[kind]([inner(item) for item in value])
    if kind in _OTHERS:
        return _OTHERS[kind](packed, inner)
    if kind == "module":
        return table.module(value)
    if kind in plain_libraries.READERS:
        return plain_libraries.READERS[kind](packed, inner)
    if kind.startswith("pandas."):
        import plain_frames  # type: ignore[import-not-found]

        return plain_frames.unpack(packed, inner)
    return table.referred(packed)


def _datetime(packed: dict[str, Any], inner: Callable[[Any], Any]) -> datetime.datetime:
    *fields, fold = map(int, packed["v"])
    naive = datetime.datetime(*fields, fold=fold)  # type: ignore[arg-type, misc]
    offset = inner(packed["offset"])
    if offset is None:
        return naive
    if packed["zone"] is None:
        return naive.replace(tzinfo=_UTC if not offset else datetime.timezone(offset))
    zone = _named_zone(packed["zone"])
    return (naive - offset).replace(tzinfo=_UTC).astimezone(zone)


def _named_zone(named: list[str]) -> Any:
    if named[0] == "pytz":
        import pytz  # type: ignore[import-untyped, unused-ignore]

        return pytz.timezone(str(named[1]))
    import zoneinfo

    return zoneinfo.ZoneInfo(str(named[1]))


def _stream(packed: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    stream = io.StringIO(newline="") if packed["t"] == "StringIO" else io.BytesIO()
    stream.write(inner(packed["v"]))
    stream.seek(packed["at"])
    return stream


def _pattern(packed: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    return re.compile(inner(packed["v"]), packed["flags"])


def _class(packed: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    module, name = packed["v"]
    kind = found(module, name)
    if module.partition(".")[0] not in _PLAIN_CLASSES or not isinstance(kind, type):
        raise NotPlain("a class that is not one of data")
    return kind


def _enum(packed: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    module, name, member = packed["v"]
    kind = found(module, name)
    if not isinstance(kind, enum.EnumMeta):
        raise NotPlain("an enumeration that is not loaded")
    return kind[member]


def _defaultdict(packed: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    items = {inner(key): inner(item) for key, item in packed["v"]}
    return collections.defaultdict(None if packed["of"] is None else _class(packed["of"], inner), items)


_made: dict[tuple[str, ...], type] = {}


def _namedtuple(packed: dict[str, Any], inner: Callable[[Any], Any]) -> Any:
    names = (packed["name"], *packed["fields"])
    if not all(type(name) is str and _WORD.fullmatch(name) for name in names):
        raise NotPlain("a named tuple without names")
    if names not in _made:
        _made[names] = collections.namedtuple(names[0], names[1:])  # type: ignore[misc]
    return _made[names](*map(inner, packed["v"]))


_CONSTANTS = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
_OTHERS: dict[str, Callable[[dict[str, Any], Callable[[Any], Any]], Any]] = {
    "complex": lambda packed, inner: complex(*packed["v"]),
    "range": lambda packed, inner: range(*map(inner, packed["v"])),
    "slice": lambda packed, inner: slice(*map(inner, packed["v"])),
    "datetime": _datetime,
    "date": lambda packed, inner: datetime.date(*packed["v"]),
    "time": lambda packed, inner: datetime.time(*packed["v"]),
    "timedelta": lambda packed, inner: datetime.timedelta(*packed["v"]),
    "timezone": lambda packed, inner: datetime.timezone(inner(packed["v"])),
    "zone": lambda packed, inner: _named_zone(packed["v"]),
    "constant": lambda packed, inner: _CONSTANTS[packed["v"]],
    "StringIO": _stream, "BytesIO": _stream, "pattern": _pattern, "class": _class, "enum": _enum,
    "defaultdict": _defaultdict, "namedtuple": _namedtuple,
}  # fmt: skip
