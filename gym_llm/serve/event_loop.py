"""The event loop that servers run in: uvloop's where it is installed, which takes an eighth less of the processor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory() -> LoopFactory | None:
    """Return the factory of uvloop's event loop, for `asyncio.Runner`; None if uvloop is not installed.

    The extra `gym-llm[serve]` installs it.
    """
    try:
        import uvloop
    except ImportError:
        return None
    factory: LoopFactory = uvloop.new_event_loop
    return factory
