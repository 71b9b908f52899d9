"""Converting Python and numpy values to JSON and back, for both sides of a sandbox: only data, never code.

JSON's own values stay unchanged. Other values are objects with one of these names:

- `tuple` and `set` (lists), `dict` (a list of pairs), `complex` (two numbers), `bytes` (base64);
- `array`: nested lists, or base64 with `dtype` and `shape`;
- `sparse`: its format, with the arrays `data`, `row` and `col`, and `shape`;
- `opaque`: the printed text of any other value.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np

_DTYPE = re.compile(r"[<>|=]?[biufc]\d{1,2}")
_SPARSE = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
_DEEPEST = 100
_SHOWN = 2000


class Opaque:
    """A value that could not be passed; it equals nothing, and prints as the original did."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def encode(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it."""
    if depth > _DEEPEST:
        return {"opaque": "…"}
    if value is None or type(value) in (bool, int, float, str):
        return value
    inner = depth + 1
    if isinstance(value, (np.ndarray, np.generic)):
        return _array(np.asarray(value), inner)
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [encode(item, inner) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item, inner) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": [encode(item, inner) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(name, inner), encode(item, inner)] for name, item in value.items()]}
    if isinstance(value, (bool, int, float, str)):  # a class that derives from one
        return next(kind(value) for kind in (bool, int, float, str) if isinstance(value, kind))
    if hasattr(value, "tocoo") and hasattr(value, "format"):
        coo = value.tocoo()
        parts = {name: _array(np.asarray(getattr(coo, name)), inner) for name in ("data", "row", "col")}
        return {"sparse": str(value.format), **parts, "shape": [int(side) for side in coo.shape]}
    return {"opaque": str(value)[:_SHOWN]}


def _array(array: Any, depth: int) -> Any:
    if _DTYPE.fullmatch(array.dtype.str):
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return {"array": data, "dtype": array.dtype.str, "shape": list(array.shape)}
    return {"array": encode(array.tolist(), depth), "dtype": "O" if array.dtype.hasobject else "U"}


def decode(value: Any) -> Any:
    """Return the value of an object of `encode`, which may be forged.

    Raises:
        ValueError: If it is not such an object.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _decoded_array(value)
    if "dict" in value:
        return {decode(name): decode(item) for name, item in value["dict"]}
    if "sparse" in value:
        import scipy.sparse

        if value["sparse"] not in _SPARSE:
            raise ValueError(f"a sparse matrix is one of {', '.join(_SPARSE)}; got {value['sparse']!r}")
        data, row, column = (decode(value[name]) for name in ("data", "row", "col"))
        return scipy.sparse.coo_matrix((data, (row, column)), shape=value["shape"]).asformat(value["sparse"])
    for name, kind in (("tuple", tuple), ("set", set)):
        if name in value:
            return kind(decode(item) for item in value[name])
    if "complex" in value:
        return complex(*value["complex"])
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    if "opaque" in value:
        return Opaque(str(value["opaque"]))
    raise ValueError(f"an object is one of tuple, set, dict, complex, bytes, array, sparse, opaque; got {list(value)}")


def _decoded_array(value: dict[str, Any]) -> Any:
    data = value["array"]
    if not isinstance(data, str):
        dtype = value.get("dtype")
        items = decode(data)
        return np.array(items, dtype=object if dtype == "O" else None)
    if not _DTYPE.fullmatch(value["dtype"]):
        raise ValueError(f"an array's dtype is one of numbers, got {value['dtype']!r}")
    array = np.frombuffer(base64.b64decode(data), dtype=value["dtype"]).reshape(value["shape"])
    return array.copy() if array.shape else array[()]
