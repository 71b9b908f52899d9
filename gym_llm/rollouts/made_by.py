"""MadeBy: everything that decides the rewards and tokens of a run, so that two runs can be compared.

The summary of a run has it in words (`identity`), each record as short hashes (`made_by`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gym_llm.agents.agent_program import Program
from gym_llm.agents.agent_specs import FunctionSpec, agent_name, parse_agent_spec
from gym_llm.agents.harnesses import Harness
from gym_llm.core.env_config import WRITTEN
from gym_llm.engines import Engine
from gym_llm.engines.specs import TRANSPORT_OPTIONS, engine_class, seeded_options
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import is_secret_key, mask
from gym_llm.utils.source_code import code_digests, digest, path_digest
from gym_llm.version import __version__

_LONGEST = 1_024
_PATH_ENDINGS = ("path", "file", "dir", "folder")


@dataclass(frozen=True)
class MadeBy:
    """The identity of a run.

    Attributes:
        identity: For its summary: `engine`, `engine_options`, and hashes of files by name. `verifier_files` are those
            of the verifier and its arguments, `files` those of the engine, the agent and wrappers.
        key: For its records: versions, the seed, and a hash of each part of the identity.
    """

    identity: dict[str, Any]
    key: dict[str, Any]


def made_by(
    factory: EnvFactory, engine: str | Engine, engine_options: Mapping[str, Any] | None, settings: RolloutSettings
) -> MadeBy:
    """Return the identity of a run.

    Args:
        factory: Makes its environments.
        engine: Its engine, or the spec.
        engine_options: The arguments of the spec's engine.
        settings: How its episodes are played.
    """
    scored = scored_by(factory)
    spec, options = _engine_identity(engine, engine_options, settings.seed)
    engine_files = _digests(_paths({"engine": spec, **options}))
    engine_code = _engine_code(engine, engine_options or {})
    agent_code, agent_files = _agent_files(settings.agent)
    wrappers = None if settings.wrappers is None else [wrapper_name(wrap) for wrap in settings.wrappers]
    wrapper_code = [wrap for wrap in settings.wrappers or () if not _is_ours(wrap)]
    parts: dict[str, Any] = {
        "engine": [spec, options, engine_files, code_digests(*engine_code)],
        "sampling": mask(settings.sampling) if settings.sampling else None,
        "wrappers": None if wrappers is None else [wrappers, code_digests(*wrapper_code)],
        "budgets": settings.budgets,
        "compaction": settings.compaction,
        "agent": None if settings.agent is None else [settings.agent_name, agent_files, code_digests(*agent_code)],
        "agent_machine": settings.agent_machine,
    }
    key = {
        **scored.key,
        **{name: _hash(value) for name, value in parts.items() if value is not None},
        "seed": settings.seed,
    }
    files = {**code_digests(*engine_code, *agent_code, *wrapper_code), **engine_files, **agent_files}
    return MadeBy({"engine": spec, "engine_options": options, **scored.identity, "files": files}, key)


def scored_by(factory: EnvFactory) -> MadeBy:
    """Return the part of an identity that decides rewards: the verifier's code, its arguments, and the versions."""
    classes = factory.scoring_classes
    kwargs = mask(factory.arguments["env_kwargs"] or {})
    arguments = {name: value for name, value in {**dict(factory.config), **kwargs}.items() if _is_read(factory, name)}
    argument_files, code = _digests(_paths(arguments)), code_digests(*classes)
    environment = _package_version(classes[0].__module__)
    key = {
        "gym_llm": __version__,
        **({} if environment is None else {"environment": environment}),
        "verifier": _hash(code),
        **({"arguments": _hash([kwargs, argument_files])} if kwargs or argument_files else {}),
    }
    return MadeBy({"verifier_files": {**code, **argument_files}}, key)


def wrapper_name(wrap: Any) -> str:
    """Return a wrapper's name for a run's files, with the plain arguments of a partial.

    >>> wrapper_name(functools.partial(dict, start="[THINK]"))
    "dict(start='[THINK]')"
    """
    if not isinstance(wrap, functools.partial):
        return str(wrap.__qualname__)
    plain = [f"{name}={value!r}" for name, value in wrap.keywords.items() if isinstance(value, str | int | float)]
    return f"{wrapper_name(wrap.func)}({', '.join(plain)})" if plain else wrapper_name(wrap.func)


def _hash(value: Any) -> str:
    return digest(dumps(_sorted(value)))


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _sorted(value[name]) for name in sorted(value, key=str)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


def _is_ours(wrap: Any) -> bool:
    while isinstance(wrap, functools.partial):
        wrap = wrap.func
    return str(getattr(wrap, "__module__", "")).startswith("gym_llm.")


def _is_read(factory: EnvFactory, name: str) -> bool:
    field = type(factory.config).model_fields.get(name)
    return field is None or WRITTEN not in field.metadata


def _engine_identity(engine: str | Engine, options: Mapping[str, Any] | None, seed: int) -> tuple[str, dict[str, Any]]:
    """An engine's spec without its address, and its options without those that only concern the transport."""
    if isinstance(engine, Engine):
        return f"{type(engine).__module__}:{type(engine).__qualname__}", {}
    kind = engine.strip().partition(":")[0]
    is_served = kind in ("http", "https")  # then its model is known when it has started
    kept: dict[str, Any] = {
        name: agent_name(value) if callable(value) else value
        for name, value in seeded_options(engine, dict(options or {}), seed).items()
        if name not in TRANSPORT_OPTIONS and not is_secret_key(name) and not (is_served and name == "model")
    }
    if isinstance(kept.get("engine"), str):
        inner: Any = kept.get("engine_options")
        kept["engine"], kept["engine_options"] = _engine_identity(kept["engine"], inner, seed)
    return "http" if is_served else mask(engine.strip()), mask(kept)


def _engine_code(engine: str | Engine, options: Mapping[str, Any]) -> list[Any]:
    """The class of another package's or a user's engine, and the code of the agent that it lets play."""
    agent = options.get("agent")
    kind = type(engine) if isinstance(engine, Engine) else engine_class(engine)
    code = [] if _is_ours(kind) else [kind]
    return code + (_agent_files(parse_agent_spec(agent))[0] if callable(agent) or isinstance(agent, str) else [])


def _agent_files(agent: Any) -> tuple[list[Any], dict[str, str]]:
    """The code of an agent, and the hashes of the other files that its command names."""
    if agent is None:
        return [], {}
    if isinstance(agent, Harness):
        return [], {agent.harness: agent.digest}
    if isinstance(agent, Program):
        words = {word: os.path.join(agent.folder, word) for word in agent.command}
        files = {word: path for word, path in words.items() if os.path.isfile(path)}
        others = [(word, path) for word, path in files.items() if not path.endswith(".py")]
        return [path for path in files.values() if path.endswith(".py")], _digests(others)
    if isinstance(agent, FunctionSpec):
        file = Path(agent.folder, *agent.module.split(".")).with_suffix(".py")
        return [agent.module] if agent.is_file else [file] if file.is_file() else [], {}
    return [agent], {}


def _paths(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The files and folders that the texts in arguments name, also as `replay:FILE`: as they are written, and where."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not is_secret_key(str(key)):
                yield from _paths(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item, name)
    elif isinstance(value, str) and 0 < len(value) <= _LONGEST and "\n" not in value and "\0" not in value:
        named = name.lower().endswith(_PATH_ENDINGS)
        for text, is_path in ((value, named), (value.partition(":")[2], named or name == "engine")):
            is_path = is_path or os.sep in text
            if text and ((os.path.isfile(text) and (is_path or "." in text)) or (is_path and os.path.isdir(text))):
                yield text, text


def _digests(paths: Iterable[tuple[str, str]]) -> dict[str, str]:
    found = {}
    for shown, path in paths:
        try:
            found[shown] = path_digest(path)
        except OSError:
            continue  # what needs it will say so
    return found


@functools.cache
def _package_version(module: str) -> str | None:
    """The version of the package that a module is from; None for a file that is not installed."""
    top = module.partition(".")[0]
    if top == "gym_llm":
        return __version__
    try:
        return version(top)
    except (PackageNotFoundError, ValueError):
        return None
