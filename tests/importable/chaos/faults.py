"""Faults of an episode: their place, their kind, and the record that has to follow."""

from __future__ import annotations

import asyncio
import copy
import functools
import math
import random
from typing import Any, NamedTuple

import gymnasium as gym

from chaos.faulty_server import SERVED
from gym_llm.errors import EngineError, JudgeError
from gym_llm.records.failures import TRANSIENT
from gym_llm.types import FailureKind, Verdict

HOOKS = ("setup", "tool", "respond", "verify", "teardown")


class Panic(BaseException):
    """An error like pyo3's PanicException, which is not an `Exception`."""


_ERRORS: dict[str, tuple[BaseException, FailureKind | None]] = {
    "bug": (KeyError("chaos"), None),
    "exits": (SystemExit(3), None),
    "panics": (Panic("chaos"), None),
    "cancelled": (asyncio.CancelledError(), "cancelled"),
    "refused": (ConnectionRefusedError("chaos"), "transport_unreachable"),
    "cut off": (ConnectionResetError("chaos"), "transport_peer_drop"),
    "too late": (TimeoutError("chaos"), "transport_timeout"),
    "no memory": (MemoryError("chaos"), "transport_local_resource"),
    "judge down": (JudgeError("chaos"), "judge_failed"),
    "answers 429": (EngineError("chaos", failure_kind="provider_quota_exhausted"), "provider_quota_exhausted"),
    "answers 503": (EngineError("chaos", failure_kind="provider_unavailable"), "provider_unavailable"),
}
"""Errors to raise, and their kinds in a record; None for the kind of an unknown error of that place."""

_JUNK: dict[str, tuple[Any, ...]] = {
    "tool": (object(), {1: object()}),
    "respond": (5, {"role": "user"}, object()),
    "verify": (math.nan, math.inf, None, "1.0", [1.0], 10**400, Verdict(math.nan), Verdict(1.0, None), object()),  # type: ignore[arg-type]
    "engine": (None, "text", [3], {"output": 5}, {"output": [{"type": "function_call"}]}, 7, object()),
}
_UNKNOWN = {"engine": "agent_run_error", "teardown": "session_release_failed"}


class Fault(NamedTuple):
    """A fault for one episode.

    Attributes:
        place: `engine`, `http` (a real server, asked by a real HTTP engine) or one of `HOOKS`.
        kind: How it fails.
        once: Whether it is gone when the episode is played again.
        later: Whether it comes after some waiting.
        number: Which junk.
    """

    place: str
    kind: str
    once: bool
    later: bool
    number: int

    @property
    def failure_kind(self) -> str:
        """The failure kind that the record must have."""
        if self.place == "http":
            return SERVED[self.kind]
        if self.kind == "hangs":
            return "agent_timeout"
        if (self.place, self.kind) == ("teardown", "cancelled"):
            return "session_release_failed"  # it is not the episode that was cancelled
        known = _ERRORS[self.kind][1] if self.kind in _ERRORS else None
        return known or _UNKNOWN.get(self.place, "verifier_error")

    @property
    def phase(self) -> str:
        """The phase that the record must have."""
        return "engine" if self.place == "http" else self.place

    @property
    def passes(self) -> bool:
        """Whether the episode has to be scored after all, at its second try."""
        return self.once and self.failure_kind in TRANSIENT

    def strike(self) -> Any:
        """Raise the error, or return junk; an awaitable that does so, if that is to come later."""
        return self._later() if self.later else self._now()

    async def _later(self) -> Any:
        await asyncio.sleep(3600 if self.kind == "hangs" else 0.001)
        return self._now()

    def _now(self) -> Any:
        if self.kind == "junk":
            junk = _JUNK[self.place]
            return junk[self.number % len(junk)]
        error = _ERRORS[self.kind][0]
        raise copy.copy(error)


def all_faults() -> list[tuple[str, str]]:
    """Every place with every kind of fault that there can be."""
    pairs = [(place, kind) for place in ("engine", *HOOKS) for kind in _ERRORS]
    pairs += [(place, "junk") for place in _JUNK]
    pairs += [("http", kind) for kind in SERVED]
    return pairs + [(place, "hangs") for place in HOOKS if place != "teardown"]  # that has 30 seconds of its own


def choose(env_seed: int, fault_seed: int, share: float) -> Fault | None:
    """The fault of the episode with this seed, the same in every process; None for most, as `share` has it."""
    rng = random.Random(f"{fault_seed}/{env_seed}")
    if rng.random() >= share:
        return None
    place, kind = rng.choice(all_faults())
    return Fault(place, kind, rng.random() < 0.5, kind == "hangs" or rng.random() < 0.5, rng.randrange(1000))


class Faulty(gym.Wrapper[Any, Any, Any, Any]):
    """Has each episode's fault strike in the environment's hooks and tools; `info["reached"]` lists those that ran.

    Args:
        env: The environment; nothing else is between this wrapper and its `VerifierEnv`.
        fault_seed: Chooses the faults.
        share: The share of episodes that have one; 0.0 for none.
    """

    def __init__(self, env: gym.Env[Any, Any], fault_seed: int = 0, share: float = 0.0) -> None:
        super().__init__(env)
        self._fault_seed = fault_seed
        self._share = share
        self._attempts: dict[int, int] = {}
        self._fault: Fault | None = None
        self._reached: set[str] = set()
        verifier: Any = env.unwrapped
        for name in HOOKS:
            if name != "tool":
                method = "user_turn" if name == "respond" else name
                setattr(verifier, method, self._around(name, getattr(verifier, method)))
        tools = {}
        for name, tool in type(verifier)._tools.items():
            tools[name] = copy.copy(tool)
            tools[name].function = self._around("tool", tool.function, tool.blocking)
        verifier._tools = tools
        verifier._tears_down = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, with its fault."""
        key = seed or 0
        attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        fault = choose(key, self._fault_seed, self._share)
        self._fault = None if fault is None or (fault.once and attempt > 1) else fault
        self._reached = set()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a turn."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "reached": sorted(self._reached)}

    def _around(self, place: str, function: Any, blocking: bool = False) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._reached.add(place)
            fault = self._fault
            if fault is None or fault.place != place:
                return function(*args, **kwargs)
            self._fault = None  # once in each episode
            return fault._now() if blocking and fault.kind != "hangs" else fault.strike()

        return call
