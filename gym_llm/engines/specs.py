"""Engines named by strings, so that they can be named anywhere: ours, and other packages' (entry points)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.errors import EngineUnavailable
from gym_llm.utils.secrets import register_secrets
from gym_llm.utils.text import nearest

ENTRY_POINT_GROUP = "gym_llm.engines"
"""Other packages' engines: `theirs = "their_package.module:TheirEngine"` is the engine `theirs`, or `theirs:ARGUMENT`
if the class has a positional parameter; the others are its options."""

TRANSPORT_OPTIONS = frozenset({"timeout", "max_retries", "max_response_bytes", "session_header", "takes_weights"})
"""Options that have no part in what an engine answers."""

_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+(/|$)")
_OPENAI_MODEL = re.compile(r"(?:openai[:/])?((?:gpt-[3-9]|chatgpt-|o[1-9](?=-|$))[\w.-]*)")
"""Names of models that OpenAI alone serves."""

_OURS = {
    "pocket": ("pocket", "gym_llm.engines.pocket:PocketEngine"),
    "transformers": ("transformers:MODEL", "gym_llm.engines.transformers:TransformersEngine"),
    "vllm": ("vllm:MODEL", "gym_llm.engines.vllm:VLLMEngine"),
    "http": ("http://HOST:PORT/v1", "gym_llm.engines.http:HTTPEngine"),
    "https": ("http://HOST:PORT/v1", "gym_llm.engines.http:HTTPEngine"),
    "replay": ("replay:FILE", "gym_llm.engines.replay:ReplayEngine"),
    "random": ("random", "gym_llm.engines.random_policy:RandomPolicy"),
    "actor": ("actor:NAME", "gym_llm.rollouts.ray.engine_client:ActorEngine"),
    "actors": ("actors:NAME,NAME", "gym_llm.rollouts.ray.engine_group:ActorEngines"),
    "constant": ("constant:TEXT", "gym_llm.engines.constant:ConstantEngine"),
    "agent": ("agent", "gym_llm.agents:AgentEngine"),
    "scripted": ("scripted:TEXT", "gym_llm.author.attack.scripted_judge:ScriptedJudge"),
}
"""How each is written, and where it is: by name, so that nothing is loaded before it is asked for."""


def make_engine(spec: str, *, parsers: Sequence[str] = (), **options: Any) -> Engine:
    """Build the engine that a spec names; nothing is loaded or connected before its `start`.

    Args:
        spec: One of these:

            - `pocket`, `transformers:MODEL` or `vllm:MODEL`: a local model.
            - The base URL of an OpenAI-compatible server. Several URLs, separated by commas, share the load.
            - `replay:FILE`: recorded responses. `constant:TEXT`: always this text.
            - `actor:NAME`: an engine in a Ray actor (`gym_llm.rollouts.ray.shared_engine`). `actors:NAME,NAME`:
              several, which share the load.
            - An engine of another package (`ENTRY_POINT_GROUP`).
        parsers: Parsers of its text, in this order; see `gym_llm.engines.parsing_engine.ParsingEngine`.
        **options: Keyword arguments of the engine's class.

    Raises:
        ValueError: If the spec has an unknown form, or an option's value is invalid.
        TypeError: If the engine does not have an option.
        EngineUnavailable: If a required package is not installed.

    >>> make_engine("http://localhost:8000/v1", model="Qwen/Qwen3-4B")
    HTTPEngine('http://localhost:8000/v1', model='Qwen/Qwen3-4B', api='chat')
    >>> make_engine("vlm:Qwen/Qwen3-4B")
    Traceback (most recent call last):
    ValueError: Unknown engine 'vlm:Qwen/Qwen3-4B': did you mean vllm:MODEL?
    """
    register_secrets(spec, options)
    made_by = engine_class(spec)
    kind, _, argument = spec.strip().partition(":")
    parameters = list(inspect.signature(made_by).parameters.values())
    first = parameters.pop(0) if parameters and parameters[0].kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD else None
    if (argument and first is None) or (not argument and first is not None and first.default is first.empty):
        raise _unknown(spec, kind if first is None else f"{kind}:{first.name.upper()}")
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    for option in options:
        if option not in names and (len(names) == len(parameters) or (first is not None and option == first.name)):
            raise TypeError(f"{kind} has no option {option!r}; its options are {', '.join(names) or 'none'}.")
    arguments = [spec.strip() if kind in ("http", "https") else argument] if argument else []
    engine: Engine = made_by(*arguments, **options)
    if parsers:
        from gym_llm.engines.parsing_engine import ParsingEngine

        engine = ParsingEngine(engine, parsers)
    return engine


def engine_class(spec: str) -> type[Engine]:
    """The class of the engine that a spec names; neither it nor its packages are loaded.

    Raises:
        ValueError: If no engine is called so.
        EngineUnavailable: If its module cannot be imported.
    """
    if not isinstance(spec, str):
        raise TypeError(f"An engine spec is a string such as 'pocket', got {type(spec).__name__}.")
    kind = spec.strip().partition(":")[0]
    if kind in _OURS:
        point = EntryPoint(kind, _OURS[kind][1], ENTRY_POINT_GROUP)
    elif kind in (theirs := _theirs()):
        point = theirs[kind]
    else:
        raise _unknown(spec, nearest(kind, [*_OURS, *theirs]))
    try:
        loaded: type[Engine] = point.load()
    except ImportError as error:
        raise EngineUnavailable(f"The engine {kind} cannot be imported: {error}.") from error
    return loaded


def capabilities(spec: str) -> Capabilities:
    """Return the capabilities of the engine that a spec names.

    >>> capabilities("pocket").loads_model, capabilities("http://localhost:8000/v1").weights
    (True, False)
    """
    return engine_class(spec).capabilities


def seeded_options(engine: str, options: dict[str, Any] | None, seed: int) -> dict[str, Any]:
    """The options of the engine that a spec names, with a run's seed where all of its sampling has one.

    >>> seeded_options("pocket", None, 7), seeded_options("pocket", {"seed": 1}, 7), seeded_options("replay:a", {}, 7)
    ({'seed': 7}, {'seed': 1}, {})
    """
    options = options or {}
    inner, its_options = model_spec(engine, options)
    if inner is not engine:
        options = {**options, "engine_options": seeded_options(inner, its_options, seed)}
    return {**({"seed": seed} if capabilities(engine).seed == "always" else {}), **options}


def model_spec(engine: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The spec and the options of the engine that has the model: of one around another, as an agent is, the other's.

    >>> model_spec("agent", {"agent": "python my_agent.py", "engine": "pocket", "engine_options": {"seed": 3}})
    ('pocket', {'seed': 3})
    """
    inner = options.get("engine")
    if isinstance(inner, str):
        return inner, dict(options.get("engine_options") or {})
    return engine, dict(options)


def _theirs() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=ENTRY_POINT_GROUP))}


def _unknown(spec: str, meant: str | None) -> ValueError:
    """The error for a spec; `meant` is the kind or the form that is most like it."""
    if match := _OPENAI_MODEL.fullmatch(spec):
        how = f"the engine https://api.openai.com/v1 with the model {match[1]} and OPENAI_API_KEY"
        return ValueError(f"Unknown engine {spec!r}: for OpenAI's model give {how}.")
    if "/" in spec and meant is None and not _HOST_AND_PORT.match(spec):
        return ValueError(f"Unknown engine {spec!r}: did you mean vllm:{spec}, or a server, http://HOST:PORT/v1?")
    forms = dict.fromkeys([*(form for form, _ in _OURS.values()), *_theirs()])
    kind = meant.partition(":")[0] if meant else ""
    if _HOST_AND_PORT.match(spec):
        meant = f"http://{spec}"
    if meant:
        return ValueError(f"Unknown engine {spec!r}: did you mean {_OURS[kind][0] if kind in _OURS else meant}?")
    return ValueError(f"Unknown engine {spec!r}. Engines are {', '.join(forms)}.")
