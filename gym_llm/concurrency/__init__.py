"""Waiting for many episodes at once, and running what blocks or hangs where it does no harm."""

from typing import Any

from gym_llm.concurrency.bridge import (
    SHUTDOWN_ERRORS,
    Waiting,
    drive,
    finish,
    in_driver,
    is_cancellation,
    is_closing,
    run_blocking,
    run_until_wait,
    wait,
)
from gym_llm.utils.deprecated import renamed

__all__ = [
    "SHUTDOWN_ERRORS",
    "Waiting",
    "drive",
    "finish",
    "in_driver",
    "is_cancellation",
    "is_closing",
    "run_blocking",
    "run_until_wait",
    "wait",
]


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
