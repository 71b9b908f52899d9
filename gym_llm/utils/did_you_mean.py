"""The nearest name, for errors about one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most like another, None where none is; `cutoff` is `difflib.get_close_matches`'s."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """` Did you mean …?` with the `nearest`, or nothing where nothing is near.

    >>> did_you_mean("temprature", ["temperature", "top_p"])
    ' Did you mean temperature?'
    """
    suggestion = nearest(name, known, cutoff=cutoff)
    return f" Did you mean {suggestion}?" if suggestion else ""
