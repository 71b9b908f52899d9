"""Engines: what produces the actions. `make_engine` builds one from a string, so that it can be named anywhere."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any

from gym_llm.engines.base import Engine
from gym_llm.errors import EngineError, EngineUnavailable

__all__ = ["Engine", "EngineError", "EngineUnavailable", "make_engine"]

_KNOWN = ("pocket", "transformers:MODEL", "vllm:MODEL", "http://HOST:PORT/v1", "replay:FILE", "actor:NAME")
_CLASSES = {
    "pocket": ("gym_llm.engines.pocket", "PocketEngine"),
    "transformers": ("gym_llm.engines.transformers", "TransformersEngine"),
    "http": ("gym_llm.engines.http", "HTTPEngine"),
    "https": ("gym_llm.engines.http", "HTTPEngine"),
    "replay": ("gym_llm.engines.replay", "ReplayEngine"),
    "vllm": ("gym_llm.engines.vllm", "VLLMEngine"),
    "actor": ("gym_llm.ray.engine_client", "ActorEngine"),
}
_LOCAL_PACKAGES = {"torch", "transformers", "safetensors", "tokenizers"}


def make_engine(spec: str, **options: Any) -> Engine:
    """Build the engine that a spec names; nothing is loaded or connected before its `start`.

    Args:
        spec: `pocket`; `transformers:MODEL`; `vllm:MODEL`; the base URL of an OpenAI-compatible server (several,
            separated by commas, share the load); `replay:FILE`; `actor:NAME`, an engine in a Ray actor
            (`gym_llm.ray.shared_engine`).
        **options: Keyword arguments of the engine's class.

    Returns:
        The engine, not started.

    Raises:
        ValueError: If the spec is of no known form, or an option's value cannot be right.
        TypeError: If the engine has no such option.
        EngineUnavailable: If a package it needs is not installed.

    >>> make_engine("http://localhost:8000/v1", model="Qwen/Qwen3-4B")
    HTTPEngine('http://localhost:8000/v1', model='Qwen/Qwen3-4B', api='chat')
    >>> make_engine("vlm:Qwen/Qwen3-4B")
    Traceback (most recent call last):
    ValueError: Unknown engine 'vlm:Qwen/Qwen3-4B': did you mean vllm:MODEL? Engines are pocket, ...
    """
    if not isinstance(spec, str):
        raise TypeError(f"An engine spec is a string such as 'pocket', got {type(spec).__name__}.")
    kind, _, argument = spec.strip().partition(":")
    if kind not in _CLASSES or (kind == "pocket") is bool(argument):
        raise ValueError(f"Unknown engine {spec!r}{_suggestion(kind)} Engines are {', '.join(_KNOWN)}.")
    module, name = _CLASSES[kind]
    try:
        engine_class = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name not in _LOCAL_PACKAGES:
            raise
        raise EngineUnavailable(f"{kind} needs {error.name}: pip install 'gym-llm[local]'.") from error
    parameters = inspect.signature(engine_class).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    arguments = [] if kind == "pocket" else [spec.strip() if kind.startswith("http") else argument]
    taken, accepted = names[: len(arguments)], names[len(arguments) :]
    for option in options:
        if option in taken or (option not in accepted and not takes_any):
            raise TypeError(f"{kind} has no option {option!r}; its options are {', '.join(accepted) or 'none'}.")
    engine: Engine = engine_class(*arguments, **options)
    return engine


def _suggestion(kind: str) -> str:
    """`: did you mean …?`, or a full stop where nothing is near."""
    names = {known.partition(":")[0]: known for known in _KNOWN}
    near = [kind] if kind in names else difflib.get_close_matches(kind, names, n=1)
    return f": did you mean {names[near[0]]}?" if near else "."
