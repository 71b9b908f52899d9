"""Arguments that name an engine beside the policy: a judge or a simulated user.

An argument is JSON: an engine's spec, or `{"engine": SPEC, "kwargs": {...}}`. Its keys are registered as secrets.
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
from gym_llm.engines.specs import TRANSPORT_OPTIONS
from gym_llm.errors import EngineUnavailable, JudgeError
from gym_llm.judge.answering_once import AnsweringOnce
from gym_llm.judge.recorded_answers import ReplayedAnswers
from gym_llm.utils.secrets import is_secret_key, register_secrets

EngineArgument: TypeAlias = str | dict[str, Any]
"""A spec, e.g. `http://HOST:PORT/v1`, or `{"engine": spec, "kwargs": {...}}`."""


def check_engine(name: str, argument: Any) -> None:
    """Check the argument that names an engine; nothing is loaded or connected.

    `replay:FILE` means `ReplayedAnswers`, not the engine of that name for policies.

    Raises:
        ValueError: If the argument does not name an engine.
    """
    register_secrets(argument)
    spec, kwargs = _parts(name, argument)
    try:
        _check(json.dumps([spec, kwargs], sort_keys=True))
    except (TypeError, ValueError, EngineUnavailable) as error:
        raise ValueError(f"{name} names no engine that can be used: {error}") from None


async def auxiliary_engine(env: VerifierEnv, argument: EngineArgument) -> Engine:
    """Return the engine that an argument names, started, shared by all environments of the event loop.

    Args:
        env: The environment that asks. The engine is closed with the last of its environments.
        argument: See `check_engine`.

    Raises:
        JudgeError: If it cannot be started.
    """
    try:
        engine: Engine = await env.shared(f"side engine {shared_name(env, argument)}", lambda: _made_durable(argument))
    except EngineUnavailable as error:
        is_named = _parts("engine", argument)[0].partition(",")[0] in str(error)
        raise JudgeError(str(error) if is_named else f"{_name(argument)} is not available: {error}") from error
    return engine


def identity(argument: EngineArgument, model: str) -> str:
    """Return what a cached answer depends on: a server's model, or a local engine's arguments."""
    spec, kwargs = _parts("engine", argument)
    kind = spec.partition(":")[0]
    fields = {key: value for key, value in kwargs.items() if key not in TRANSPORT_OPTIONS and not is_secret_key(key)}
    fields.pop("model", None)
    made_from = model if model and kind in ("http", "https", "actor") else spec
    return json.dumps([made_from, fields], sort_keys=True)


def shared_name(env: VerifierEnv, *values: Any) -> str:
    """Return the name of a resource that is made from these values, the first of which is an engine's argument.

    A replay is not shared: each of its answers is for one call.
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


def _made_durable(argument: EngineArgument) -> Engine:
    engine = _made(argument)
    return engine if isinstance(engine, ReplayedAnswers) else AnsweringOnce(engine)


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
