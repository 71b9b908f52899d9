"""Waiting for many episodes at once, and running what blocks or hangs where it does no harm."""

from gym_llm.concurrency.bridge import Suspended, begin, drive, driven, finish, run_blocking, wait

__all__ = ["Suspended", "begin", "drive", "driven", "finish", "run_blocking", "wait"]
