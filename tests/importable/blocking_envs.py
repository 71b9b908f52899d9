"""Environments whose hooks block, for tests; in a file of its own, because processes import them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import gymnasium as gym

from gym_llm import VerifierEnv, hook, tool
from gym_llm.concurrency import wait
from gym_llm.errors import JudgeError


class Blocking(VerifierEnv):
    """A judge that is asked without being async."""

    def verify(self, task: Any, episode: Any) -> float:
        time.sleep(0.4)
        return 1.0


class BlockingTool(VerifierEnv):
    """A tool that reads slowly."""

    @tool
    def read(self) -> str:
        """Read."""
        time.sleep(0.4)
        return "text"

    def verify(self, task: Any, episode: Any) -> float:
        return 1.0


class Waiting(VerifierEnv):
    """Waits as one should."""

    def setup(self, task: Any) -> None:
        wait(asyncio.sleep(0.3))

    async def verify(self, task: Any, episode: Any) -> float:
        await asyncio.sleep(0.3)
        return 1.0


class InThreads(VerifierEnv):
    """All of them at once, or none gets on."""

    barrier = threading.Barrier(8)

    @hook(blocking=True)
    def user_turn(self, task: Any, episode: Any) -> str | None:
        self.barrier.wait(30)
        return "And?" if episode.turn == 1 else None

    @hook(blocking="thread")
    def verify(self, task: Any, episode: Any) -> float:
        self.barrier.wait(30)
        return float(threading.current_thread() is not threading.main_thread())


class Panic(BaseException):
    """Like that of pyo3, and one that cannot be unpickled."""

    def __init__(self, *, text: str) -> None:
        super().__init__(text)


_ERRORS: dict[str, BaseException] = {
    "judge": JudgeError("the judge is down"),
    "quota": JudgeError("too many", failure_kind="provider_quota_exhausted"),
    "refused": ConnectionRefusedError("nobody is there"),
    "bug": KeyError("city"),
    "panic": Panic(text="index out of bounds"),
    "exit": SystemExit(3),
}


class InProcesses(VerifierEnv):
    """Says where it was verified, and hangs if it is told to."""

    def __init__(self, *args: Any, bonus: float = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bonus = bonus

    @hook(blocking="process", deadline=2.0)
    def verify(self, task: Any, episode: Any) -> float:
        while episode.answer == "hang":
            pass
        if error := _ERRORS.get(episode.answer):
            raise error
        return self.bonus + (os.getpid() != int(episode.answer))


for _class in (Blocking, BlockingTool, Waiting, InThreads, InProcesses):
    gym.register(f"test/{_class.__name__}-v0", _class)
