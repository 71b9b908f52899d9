"""Comparing statistics with those on disk: does the data still say what it said?"""

from __future__ import annotations

from typing import Any

_RELATIVE = 5e-3
_ABSOLUTE = 5e-4  # metrics below 1 are rounded to three digits


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where new metrics contradict old ones. What only the new ones have is no contradiction.

    Args:
        old: Metrics as they were, parsed from JSON.
        new: Metrics as they are.
        path: Where in the metrics these are.

    Returns:
        A sentence per key that is gone or differs: whole numbers and texts must be equal, other numbers agree within
        0.5 %, or within the rounding of small ones.

    >>> differences({"Average": 100.0, "Min": 1}, {"Average": 100.4, "Min": 2, "Max": 3})
    ['Min: 1 on disk, 2 now']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        disagreements = []
        for name, value in old.items():
            place = f"{path}.{name}" if path else name
            if name in new:
                disagreements += differences(value, new[name], place)
            elif value is not None:  # NeMo Gym writes null for what a configuration does not say
                disagreements.append(f"{place}: {_shown(value)} on disk, not there now")
        return disagreements
    if _agree(old, new):
        return []
    return [f"{path}: {_shown(old)} on disk, {_shown(new)} now"]


def _agree(old: Any, new: Any) -> bool:
    if _is_number(old) and _is_number(new) and (isinstance(old, float) or isinstance(new, float)):
        return abs(old - new) <= max(_RELATIVE * max(abs(old), abs(new)), _ABSOLUTE)
    return type(old) is type(new) and bool(old == new)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return f"{value!r:.100}"
