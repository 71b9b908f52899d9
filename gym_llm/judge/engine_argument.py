"""Engines beside the policy's: an environment's argument names a judge, a simulated user, and this makes it.

The argument is JSON: an engine's spec, or `{"engine": SPEC, "kwargs": {...}}`. Keys in it are learned as secrets.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.engines import Engine, make_engine
from gym_llm.errors import EngineUnavailable, JudgeError
from gym_llm.judge.recorded_answers import ReplayedAnswers
from gym_llm.utils.deprecated import renamed
from gym_llm.utils.secrets import is_secret_key, register_secrets

EngineArgument: TypeAlias = str | dict[str, Any]
"""A spec, e.g. `http://HOST:PORT/v1`, or `{"engine": spec, "kwargs": {...}}`."""

_TRANSPORT = {"timeout", "max_retries", "max_response_bytes"}


def check_engine(name: str, argument: Any) -> None:
    """Check the argument that names an engine; nothing is loaded or connected.

    `replay:FILE` is not the policy's engine of that name, but `ReplayedAnswers`.

    Raises:
        ValueError: If it is none; one sentence that begins with the argument's name.
    """
    register_secrets(argument)
    spec, kwargs = _parts(name, argument)
    try:
        _check(json.dumps([spec, kwargs], sort_keys=True))
    except (TypeError, ValueError, EngineUnavailable) as error:
        raise ValueError(f"{name} names no engine that can be used: {error}") from None


async def auxiliary_engine(env: VerifierEnv, argument: EngineArgument) -> Engine:
    """The engine that an argument names, started, shared by all environments of the event loop.

    Args:
        env: Who asks; it closes the engine with the last of those who use it.
        argument: See `check_engine`.

    Raises:
        JudgeError: If it cannot be started.
    """
    try:
        engine: Engine = await env.shared(f"side engine {shared_name(env, argument)}", lambda: _made(argument))
    except EngineUnavailable as error:
        raise JudgeError(f"{_name(argument)} is not available: {error}") from error
    return engine


def identity(argument: EngineArgument, model: str) -> str:
    """What a cached answer depends on: the model a server has, or how a local one is made; no keys, no addresses."""
    spec, kwargs = _parts("engine", argument)
    kind = spec.partition(":")[0]
    told = {key: value for key, value in kwargs.items() if key not in _TRANSPORT and not is_secret_key(key)}
    told.pop("model", None)
    made_from = model if model and kind in ("http", "https", "actor") else spec
    return json.dumps([made_from, told], sort_keys=True)


def shared_name(env: VerifierEnv, *values: Any) -> str:
    """The name under which what is made from these values is shared: an engine's argument first, which may hold keys.

    A replay, whose answers are for one call each, is shared with nobody.
    """
    name = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]
    if _parts("engine", values[0])[0].startswith("replay:"):
        name += f" {_replaying.setdefault(env, next(_numbers))}"
    return name


_replaying: WeakKeyDictionary[VerifierEnv, int] = WeakKeyDictionary()
_numbers = count()


@lru_cache(64)
def _check(canonical: str) -> None:
    spec, kwargs = json.loads(canonical)
    _made({"engine": spec, "kwargs": kwargs})


def _made(argument: EngineArgument) -> Engine:
    spec, kwargs = _parts("engine", argument)
    if spec.partition(":")[0] == "replay":
        return ReplayedAnswers(spec.partition(":")[2], **kwargs)
    return make_engine(spec, **kwargs)


def _parts(name: str, argument: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(argument, str):
        return argument.strip(), {}
    if isinstance(argument, dict) and set(argument) <= {"engine", "kwargs"}:
        spec, kwargs = argument.get("engine"), argument.get("kwargs") or {}
        if isinstance(spec, str) and isinstance(kwargs, dict):
            return spec.strip(), kwargs
    shape = sorted(argument) if isinstance(argument, dict) else type(argument).__name__
    raise ValueError(f'{name} is an engine\'s spec or {{"engine": SPEC, "kwargs": {{...}}}}, got {shape}.')


def _name(argument: EngineArgument) -> str:
    return f"The engine {_parts('engine', argument)[0].partition(',')[0]}"


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
