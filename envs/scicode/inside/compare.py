"""Comparisons that SciCode's tests import from `scicode.compare.cmp`."""

from __future__ import annotations

from typing import Any

import numpy as np


def process_symbol_in_dict(values: dict[Any, Any]) -> dict[Any, Any]:
    """Return the printed text of a value that is not a number, array or container, such as a symbolic one."""
    plain = (bool, int, float, complex, str, list, tuple, dict, set, np.ndarray, np.generic, type(None))
    return {
        name: value if isinstance(value, plain) or hasattr(value, "tocoo") else str(value)
        for name, value in values.items()
    }


def are_csc_matrix_close(first: Any, second: Any) -> bool:
    """Whether two sparse matrices are close."""
    return first.shape == second.shape and bool(np.allclose(first.toarray(), second.toarray()))


def are_dicts_close(first: dict[Any, Any], second: dict[Any, Any], atol: float = 1e-8, rtol: float = 1e-5) -> bool:
    """Whether two dicts have the same names, and close values."""
    first, second = process_symbol_in_dict(first), process_symbol_in_dict(second)
    return first.keys() == second.keys() and all(_close(first[name], second[name], atol, rtol) for name in first)


def cmp_tuple_or_list(first: Any, second: Any) -> bool:
    """Whether two sequences have as many items, and close ones."""
    return len(first) == len(second) and all(_close(*pair) for pair in zip(first, second, strict=True))


def _close(first: Any, second: Any, atol: float = 1e-8, rtol: float = 1e-5) -> bool:
    if hasattr(first, "tocoo") or hasattr(second, "tocoo"):
        return hasattr(first, "tocoo") and hasattr(second, "tocoo") and are_csc_matrix_close(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return are_dicts_close(first, second, atol, rtol)
    if isinstance(first, (str, bytes)) or isinstance(second, (str, bytes)):
        return type(first) is type(second) and bool(first == second)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)) and len(first) != len(second):
        return False
    try:
        return bool(np.allclose(first, second, atol=atol, rtol=rtol))
    except (TypeError, ValueError):
        if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
            return cmp_tuple_or_list(first, second)
        return type(first) is type(second) and bool(first == second)
