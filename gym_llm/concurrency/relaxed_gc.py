"""Python's cyclic garbage collector, told that many objects are alive on purpose."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (50_000, 20, 100)


def collect_rarely() -> None:
    """Set thresholds for a process that holds thousands of waiting episodes.

    With the default (700 allocations) the collector walks the same living episodes over and over; with 16,384 of them
    that was half of the processor time of a rollout.
    """
    gc.set_threshold(*_THRESHOLDS)


def spare_the_living() -> None:
    """Have the collector pass over all that is alive now, for good: a server's modules and what it was made with.

    Going through them takes 40 ms of every collection of everything, in which nobody is answered.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def rare_collection() -> Iterator[None]:
    """`collect_rarely` for the length of a block; the thresholds of before are put back."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
