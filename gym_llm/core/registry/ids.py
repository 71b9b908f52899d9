"""Environment ids: one for each folder of `gym_llm/envs`, and those of other packages' entry points.

A folder with a `config.yaml` is a verifier. Its id is the file's first `env:` line, read without a YAML parser so that
`import gym_llm` stays fast. Entry points stay strings until `gym.make`.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from importlib.metadata import entry_points
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from gym_llm.errors import ConfigError, UsageError
from gym_llm.utils.text import nearest

ENTRY_POINT_GROUP = "gym_llm.envs"

_VECTOR_MODULE = "gym_llm.vector.make_vector"
_THEIRS = Path(__file__).parents[2] / "envs" / "theirs" / "peers"
_THEIR_MODULE = "gym_llm.envs.theirs.classes"
_THEIR_ID = re.compile(r"""^ENV_ID = "([^"]+)"$""", re.MULTILINE)
_ENV_LINE = re.compile(r"""^( +)env: *["']?([^\s"'#]+)""", re.MULTILINE)


def register_envs() -> None:
    """Register every id with Gymnasium."""
    for config in sorted(Path(__file__).parents[2].joinpath("envs").glob("[a-z]*/config.yaml")):
        lines = _ENV_LINE.findall(config.read_text("utf-8"))
        if not lines:
            raise ConfigError(f"{config} has no `env:` line, which names the verifier of its folder.")
        _, env_id = min(lines, key=lambda line: len(line[0]))  # a section's, not one nested in its kwargs
        register(env_id, f"gym_llm.envs.{config.parent.name}.env:{parse_id(env_id)[1]}")
    for env_id in their_names().values():
        register(env_id, f"{_THEIR_MODULE}:{parse_id(env_id)[1]}")
    for point in entry_points(group=ENTRY_POINT_GROUP):
        register(point.name, point.value)


def register(env_id: str, entry_point: str) -> None:
    """Register a verifier with Gymnasium, `RayVectorEnv` as its vector environment."""
    gym.register(env_id, entry_point=entry_point, vector_entry_point=f"{_VECTOR_MODULE}:{env_id}")


def env_ids() -> list[str]:
    """The registered verifier ids, ours and other packages', sorted by name and version.

    The ids of other frameworks' environments are not among them: `their_names`.

    >>> "gym_llm/MultipleChoice-v0" in env_ids()
    True
    """
    known = (
        env_id
        for env_id, spec in gym.registry.items()
        if not _is_theirs(spec)
        and (env_id.startswith("gym_llm/") or str(spec.vector_entry_point).startswith(f"{_VECTOR_MODULE}:"))
    )
    return sorted(known, key=parse_id)


@functools.cache
def their_names() -> dict[str, str]:
    """The ids of the environments that other frameworks play, by the framework's name.

    >>> their_names()["textarena"]
    'gym_llm/TextArena-v0'
    """
    files = sorted(_THEIRS.glob("[a-z]*.py"))
    found = {file.stem: _THEIR_ID.search(file.read_text("utf-8")) for file in files}
    return {name: match[1] for name, match in found.items() if match}


def _is_theirs(spec: EnvSpec) -> bool:
    return str(spec.entry_point).startswith(_THEIR_MODULE)


def parse_id(env_id: str) -> tuple[str, str, int]:
    """An id's namespace, name and version.

    >>> parse_id("gym_llm/Counter-v12"), parse_id("Multi-verse")
    (('gym_llm', 'Counter', 12), ('', 'Multi-verse', 0))
    """
    namespace, _, rest = env_id.rpartition("/")
    name, _, version = rest.rpartition("-v")
    return (namespace, name, int(version)) if version.isdecimal() else (namespace, rest, 0)


def verifier_folder(env_id: str) -> Path | None:
    """Return the folder of a verifier's module and `config.yaml`, without an import; None if there is no folder."""
    entry_point = gym.spec(env_id).entry_point
    module = entry_point.partition(":")[0] if isinstance(entry_point, str) else getattr(entry_point, "__module__", "")
    package, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # `__main__`
        return None
    if spec is None:
        return None
    locations = spec.submodule_search_locations
    path = Path(locations[0], *inner) if locations else Path(spec.origin or "")
    return (path if path.is_dir() else path.parent).resolve()


def id_of_folder(name: str) -> str | None:
    """Return the id of the registered verifier whose folder has this name; None if no or several ids have it.

    >>> id_of_folder("multiple_choice"), id_of_folder("gym_llm/MultipleChoice-v0")
    ('gym_llm/MultipleChoice-v0', None)
    """
    if not name.isidentifier() or name in gym.registry:
        return None
    entries = ((env_id, gym.registry[env_id].entry_point) for env_id in env_ids())
    found = [env_id for env_id, entry in entries if isinstance(entry, str) and _folder_name(entry) == name]
    return found[0] if len(found) == 1 else None


def _folder_name(entry_point: str) -> str:
    return entry_point.partition(":")[0].removesuffix(".env").rpartition(".")[2]


def unknown_env(env_id: str) -> UsageError:
    """Return the error for an unregistered id, with the nearest registered one; `textarena` lacks a game's name.

    >>> print(unknown_env("arithmetic"))
    There is no environment 'arithmetic'. Did you mean gym_llm/Arithmetic-v0? `gym-llm list` names all.
    """
    if (framework := env_id.lower().replace("-", "_").rstrip(":")) in their_names():
        return UsageError(f"{env_id!r} is a framework: give {framework}:NAME, one of its environments.")
    names = {form: name for name in env_ids() for form in (parse_id(name)[1].lower(), name.lower())}
    suggestion = nearest(env_id.lower(), names) or nearest(parse_id(env_id)[1].lower(), names)
    hint = f" Did you mean {names[suggestion]}?" if suggestion else ""
    return UsageError(f"There is no environment {env_id!r}.{hint} `gym-llm list` names all.")


register_envs()  # here, because `gym_llm` imports this module for it, as soon as there is a Gymnasium to register with
