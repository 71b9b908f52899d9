"""fork_env: several environments that continue an episode from where it stands."""

from __future__ import annotations

import copy
import functools
import inspect
from collections import deque
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import gymnasium as gym
from gymnasium.error import ResetNeeded

from gym_llm.concurrency import wait
from gym_llm.core.forgotten_await import await_hook, call_hook
from gym_llm.core.seeding import copy_generator
from gym_llm.core.state_copy import StateCopy
from gym_llm.errors import CannotFork

if TYPE_CHECKING:
    from gym_llm.core.verifier_env import VerifierEnv

EnvT = TypeVar("EnvT", bound="gym.Env[Any, Any]")
VerifierT = TypeVar("VerifierT", bound="VerifierEnv[Any, Any]")

Randomness: TypeAlias = Literal["own", "same"]
"""What the generators of a fork draw: each fork other numbers, or all of them what the original will draw."""

_CONTAINERS = (list, dict, set, deque)
_OF_ONE_INSTANCE = ("verify", "_tools")  # whoever traces an environment wraps these


def fork_env(env: EnvT, n: int, *, randomness: Randomness = "own") -> list[EnvT]:
    """Return `n` environments in which the episode under way stands at the same turn; this one does not change.

    ```python
    for fork in gym_llm.fork_env(env, 4):
        observation, reward, terminated, truncated, info = fork.step(response)
    ```

    Each fork has its own state, list of items, and wrappers. The items, the task, the task source and shared resources
    are the same objects. `teardown` runs once for each fork. Close every fork.

    - The state is copied like `copy.deepcopy` does, or by the class's hook `fork_state`.
    - Attributes of the environment itself are shared, except those that the class names in `episode_attributes`.
    - A wrapper is copied, with the lists, dicts and sets that it holds. It may define `fork_onto(env)` instead.

    Args:
        env: A `VerifierEnv`, perhaps with wrappers, between two steps of an episode.
        n: The number of forks, 1 or more.
        randomness: `"own"`: each fork draws other numbers, from `np_random` and from the generators in the state. They
            are the same ones if the same episode is forked again. `"same"`: each fork draws what the original draws.

    Raises:
        CannotFork: If a hook is running, or the state or a wrapper cannot be copied.
        ResetNeeded: If no episode is under way.
        ValueError: If an argument is invalid.
        Exception: If `fork_state` raises. Forks that were made already are closed.
    """
    if type(n) is not int or n < 1:
        raise ValueError(f"n is the number of forks, 1 or more; got {n!r}.")
    if randomness not in ("own", "same"):
        raise ValueError(f'randomness is "own" or "same"; got {randomness!r}.')
    forks: list[EnvT] = []
    try:
        while len(forks) < n:
            forks.append(_fork(env, randomness))
    except BaseException:
        for fork in forks:
            with suppress(Exception):  # the first error is the one to show
                fork.close()
        raise
    return forks


def _fork(env: Any, randomness: Randomness) -> Any:
    if not isinstance(env, gym.Wrapper):
        if not hasattr(env, "fork_once"):
            raise CannotFork(f"Only a gym_llm.VerifierEnv can be forked, not {type(env).__name__}.")
        return env.fork_once(randomness)
    inner = _fork(env.env, randomness)
    if (fork_onto := getattr(type(env), "fork_onto", None)) is not None:
        return fork_onto(env, inner)
    made = copy.copy(env)
    made.env = inner
    copies = StateCopy()
    copies.replace(env.env, inner)
    try:
        vars(made).update({name: copies.of(value) for name, value in vars(env).items() if type(value) in _CONTAINERS})
    except Exception as error:
        inner.close()
        raise CannotFork(f"{type(env).__name__} cannot be copied ({error}); define its fork_onto(env).") from error
    return made


def fork_verifier(verifier: VerifierT, randomness: Randomness) -> VerifierT:
    """Return one fork of an environment without its wrappers; see `fork_env`."""
    episode, name = verifier.episode, type(verifier).__name__
    if episode is None or verifier.is_over:
        raise ResetNeeded("No episode is running: call reset() before fork().")
    if verifier.phase != "env":
        raise CannotFork(f"{name} is inside of {verifier.phase}: fork it between two steps.")
    made = object.__new__(type(verifier))
    attributes = vars(made)
    attributes.update(vars(verifier))
    for wrapped in _OF_ONE_INSTANCE:
        attributes.pop(wrapped, None)
    number = verifier._forks[1] if verifier._forks is not None and verifier._forks[0] is episode else 0
    verifier._forks = episode, number + 1
    seed = _seed(verifier, episode.turn, number) if randomness == "own" else None
    if randomness == "own":
        made._np_random_made, made._np_random_seed = None, seed
    elif verifier._np_random_made is not None:
        made._np_random_made = copy_generator(verifier._np_random_made)
    resources = verifier._resources
    shared = [verifier._task, verifier.tasks, verifier.config, *(resources.values() if resources else ())]
    copies = StateCopy(shared, seed=seed)
    copies.replace(verifier, made)
    if verifier.fork_state is not None:
        state = call_hook(verifier.fork_state, episode.state)
        if inspect.isawaitable(state):
            state = wait(await_hook(state))
        copies.replace(episode.state, state)
    made._forks = None
    try:
        own = _episode_attributes(cast(Any, type(verifier)))
        if own:
            copies.memo.update((id(tool), tool) for tool in verifier._tools.values())
        made.episode = copies.of(episode)
        for attribute in own:
            setattr(made, attribute, copies.of(getattr(verifier, attribute)))
        opened = verifier.open_episode
        if opened is not None:
            made.open_episode = copies.of(opened)
    except Exception as error:
        raise CannotFork(f"The state of {name} cannot be copied ({error}); define fork_state(self, state).") from error
    made._resources = None if resources is None else resources.used_by_another()
    return made


@functools.cache
def _episode_attributes(kind: type) -> tuple[str, ...]:
    """Return what a class and all of its parents name in `episode_attributes`."""
    return tuple(dict.fromkeys(name for base in kind.__mro__ for name in vars(base).get("episode_attributes", ())))


def _seed(verifier: VerifierEnv[Any, Any], turn: int, number: int) -> int | None:
    """Return a seed that no other fork of the episode has; None if the environment was never seeded."""
    made, seed = verifier._np_random_made, verifier._np_random_seed
    if made is None and seed is None:
        return None
    drawn_from = seed if made is None else made.bit_generator.state
    digest = blake2b(f"{drawn_from}/{turn}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
