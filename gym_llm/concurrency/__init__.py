"""Waiting for many episodes at once, and running what blocks or hangs where it does no harm."""

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
