"""Python values as JSON and back: the text of a cell, before another's; never imported outside."""

import json as _json

_PLAIN = (str, bool, float, type(None))
_MANY = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_LARGE = 1 << 63


def _encoded(value: object) -> object:
    kind = type(value)
    if kind in _PLAIN or (kind is int and -_LARGE < value < _LARGE):  # type: ignore[operator]
        return value
    if kind is int:
        return ["int", hex(value)]  # type: ignore[arg-type]
    if kind.__name__ in _MANY and kind is _MANY[kind.__name__]:
        return [kind.__name__, [_encoded(part) for part in value]]  # type: ignore[attr-defined]
    if kind is dict:
        return ["dict", [[_encoded(name), _encoded(part)] for name, part in value.items()]]  # type: ignore[attr-defined]
    if kind is bytes:
        return ["bytes", value.hex()]  # type: ignore[attr-defined]
    if kind is complex:
        return ["complex", [value.real, value.imag]]  # type: ignore[attr-defined]
    if hasattr(value, "tolist"):  # numpy's
        return _encoded(value.tolist())
    raise TypeError(f"a {kind.__name__} cannot be passed as a value")


def _decoded(value: object) -> object:
    if not isinstance(value, list):
        return value
    kind, content = value
    if kind in _MANY:
        return _MANY[kind](_decoded(part) for part in content)
    if kind == "dict":
        return {_decoded(name): _decoded(part) for name, part in content}
    if kind == "int":
        return int(content, 16)
    return bytes.fromhex(content) if kind == "bytes" else complex(*content)


def _answer(name: str, value: object) -> str:
    return _json.dumps({name: value}, ensure_ascii=False)
