"""Environments of Gymnasium that do what a peer must not do, and one that is good."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium as gym


class Good(gym.Env[int, int]):
    """Three steps, each worth 1."""

    observation_space = gym.spaces.Discrete(10)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.turn = 0
        return 0, {}

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.turn += 1
        time.sleep(0.01)
        if self.turn == 2:
            self.misbehave()
        return self.turn, self.reward(), self.turn == 3, False, {}

    def reward(self) -> float:
        return 1.0

    def misbehave(self) -> None:
        """Do nothing bad."""


class Raises(Good):
    def misbehave(self) -> None:
        raise RuntimeError("I raise.")


class Exits(Good):
    def misbehave(self) -> None:
        raise SystemExit(4)


class Dies(Good):
    def misbehave(self) -> None:
        os._exit(3)


class DiesBeforeItsChild(Good):
    def misbehave(self) -> None:
        if os.fork():
            os._exit(3)
        time.sleep(10_000)


class Hangs(Good):
    def misbehave(self) -> None:
        time.sleep(10_000)


class NotANumber(Good):
    def reward(self) -> float:
        return float("nan")


class TooLong(Good):
    observation_space = gym.spaces.Text(1 << 30)

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return "x" * (1 << 30), 1.0, False, False, {}


class NoTurn(Good):
    def step(self, action: int) -> Any:
        return None


for _kind in (Good, Raises, Exits, Dies, DiesBeforeItsChild, Hangs, NotANumber, TooLong, NoTurn):
    gym.register(f"{_kind.__name__}-v0", entry_point=_kind, disable_env_checker=True)
