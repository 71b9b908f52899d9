"""Environments in files that are not installed: `./my_env.py`, `./my_env.py:mine/Quiz-v0`, `my_env:mine/Quiz-v0`.

A process loads a file once. Its environments get entry points that every process can look up, such as
`gym_llm.core.registry.env_files:/a/my_env.py|ID`: the attributes of this module are files with an id. So Ray's workers
load the file themselves, though they cannot import it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import quote, unquote

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from gym_llm.core.registry.ids import env_ids, id_of_folder, parse_id, their_names, unknown_env
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.recipes.catalogue import benchmark_names
from gym_llm.data.recipes.recipe import canonical
from gym_llm.errors import UsageError
from gym_llm.records.failures import reason
from gym_llm.utils.text import did_you_mean, nearest

_CREATORS: dict[str, Callable[..., Any]] = {}
"""What makes the environments of the files that were loaded, by their attribute of this module."""

_BY_DATASET = {"harbor": "gym_llm/Harbor-v0"}
"""Other frameworks that a verifier of ours plays: its argument `dataset` names what."""

_MOST_READ = 1 << 20
_MOST_MEANT = 3


def find_env(name: str) -> str | EnvSpec:
    """Resolve a name: return the spec of an environment in a file, or the id for Gymnasium to look up.

    Args:
        name: An id, or the name of a registered verifier's folder (`multiple_choice`). `FILE.py` for a file with one
            environment: one that it registers, or else a subclass of `VerifierEnv`. `FILE.py:NAME` for one of several,
            by id or class. `FRAMEWORK:NAME` for an environment of another framework (`textarena:TicTacToe-v0`,
            `harbor:terminal-bench@2.0`).
            `module:ID` is Gymnasium's form; the module may be in the current folder even if that is not
            on Python's path.

    Raises:
        UsageError: If the file or module does not exist, the file cannot be loaded, or it has not exactly one
            environment that matches.
    """
    head, colon, wanted = name.partition(":")
    if wanted and (spec := _their_spec(head, wanted)) is not None:
        return spec
    if head.endswith(".py"):
        return _one_of(Path(head), wanted)
    top = head.partition(".")[0]
    if colon and not wanted and head.lower().replace("-", "_") in their_names():
        raise unknown_env(name)
    if colon and top.isidentifier():
        module_file, file = _module_file(top), Path(f"{head}.py")
        if file.is_file() and module_file in (None, file.resolve()):
            return _one_of(file, wanted)
        if module_file is None and not Path(top).is_dir():
            near = nearest(head, their_names(), cutoff=0.8)
            hint = f" Did you mean {near.replace('_', '-')}:{wanted}?" if near else ""
            raise UsageError(
                f"There is no module {head!r}: it is not installed, and no {top}.py lies in this folder.{hint}"
            )
        if module_file is None:
            sys.path.append(str(Path.cwd()))
    return id_of_folder(name) or name


def _their_spec(framework: str, name: str) -> EnvSpec | None:
    """The spec of a framework's environment; None if the framework is unknown, or the name is one of our ids."""
    if framework in _BY_DATASET:
        spec = gym.spec(_BY_DATASET[framework])
        return replace(spec, kwargs={**spec.kwargs, "dataset": name})
    env_id = their_names().get(framework.lower().replace("-", "_"))
    if env_id is None or env_id.partition("/")[0] == name.partition("/")[0]:
        return None
    spec = gym.spec(env_id)
    main: str = load_env_creator(cast(str, spec.entry_point)).main_argument  # type: ignore[union-attr]
    return replace(spec, kwargs={**spec.kwargs, main: name})


def env_spec(env: str | EnvSpec) -> EnvSpec:
    """The spec that a name stands for (`find_env`), or Gymnasium's error where no environment has it."""
    name = find_env(env) if isinstance(env, str) else env
    if isinstance(name, EnvSpec):
        return name
    module, _, env_id = name.rpartition(":")
    if module:
        importlib.import_module(module)
    return gym.spec(env_id)


def dry_run_kwargs(env: str | EnvSpec) -> dict[str, Any]:
    """Arguments with which an environment plays without any service, as its class says: for checks.

    Raises:
        gymnasium.error.Error: If there is no such environment.
        UsageError: If a file has no such environment.
        ImportError: If its module cannot be imported.
    """
    entry = env_spec(env).entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    return dict(getattr(creator, "dry_run_kwargs", {}))


def not_found(name: str) -> UsageError:
    """Return the error for an unknown name, with the file of the current folder that defines it, if any."""
    wanted = name.rpartition(":")[2]
    for path in sorted(Path().glob("*.py")):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                mentions = f'"{wanted}"' in (text := file.read(_MOST_READ)) or f"'{wanted}'" in text
        except OSError:
            continue
        if mentions and wanted and "register" in text:
            return UsageError(f"There is no environment {name!r} yet: {path} here may register it; give ./{path}.")
    if (near := _near_benchmark(wanted)) is not None:
        return UsageError(
            f"There is no environment {name!r}. Did you mean the benchmark {near}? `gym-llm list --benchmarks` "
            f"names all."
        )
    return unknown_env(name)


def _near_benchmark(name: str) -> str | None:
    """Return the benchmarks that an unknown name may mean: those that begin with it, else the most similar one.

    >>> _near_benchmark("gym_llm/AIME-v0"), _near_benchmark("aim25"), _near_benchmark("arithmetic")
    ('aime24, aime25 or aime26', 'aime25', None)
    """
    head, known = canonical(parse_id(name)[1]), benchmark_names()
    if any(parse_id(env_id)[1].lower().startswith(head.replace("_", "")) for env_id in env_ids()):
        return None
    family = sorted((each for each in known if head and each.startswith(head)), key=lambda each: (len(each), each))
    family = family[:_MOST_MEANT]
    if family:
        return " or ".join(filter(None, (", ".join(family[:-1]), family[-1])))
    return nearest(head, known if "/" not in name else [])


def _one_of(path: Path, wanted: str) -> EnvSpec:
    specs = _specs(_existing(path))
    if not wanted and len(specs) == 1:
        return next(iter(specs.values()))
    choices = ", ".join(f"{path}:{env_id}" for env_id in specs)
    if not wanted:
        raise UsageError(f"{path} has several environments; say which: {choices}.")
    for env_id, spec in specs.items():
        if wanted in (env_id, parse_id(env_id)[1], getattr(_CREATORS[_attribute(spec)], "__name__", None)):
            return spec
    hint = did_you_mean(wanted, [*specs, *(parse_id(env_id)[1] for env_id in specs)])
    raise UsageError(f"{path} has no environment {wanted!r}.{hint} It has {choices}.")


def _existing(path: Path) -> Path:
    if not path.is_file():
        others = [other.name for other in path.parent.glob("*.py")]
        raise UsageError(f"There is no file {str(path)!r}.{did_you_mean(path.name, others)}")
    return path.resolve()


@cache
def _specs(path: Path) -> dict[str, EnvSpec]:
    """The environments of a file, by id: its own that it registers; its own verifiers; what else it registers."""
    before = dict(gym.registry)
    module = _load(path)
    specs = {env_id: spec for env_id, spec in gym.registry.items() if _module(spec.entry_point) == module.__name__}
    if not specs:
        specs = _verifiers(module, re.sub(r"\W", "_", path.stem))
    if not specs:  # it may register what it imports
        specs = {env_id: spec for env_id, spec in gym.registry.items() if before.get(env_id) is not spec}
    if not specs:
        raise UsageError(f"{path.name} has no environment: a class that derives from gym_llm.VerifierEnv.")
    for env_id, spec in specs.items():
        entry = spec.entry_point
        if entry is None:
            continue
        attribute = quote(f"{path}|{env_id}", safe="/|")
        _CREATORS[attribute] = load_env_creator(entry) if isinstance(entry, str) else entry
        specs[env_id] = gym.registry[env_id] = replace(spec, entry_point=f"{__name__}:{attribute}")
    return specs


def _verifiers(module: ModuleType, space: str) -> dict[str, EnvSpec]:
    """The verifier classes that a module defines, but those that are only there to derive others from."""
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, VerifierEnv) and kind.__module__ == module.__name__
    ]
    bases = {base for kind in kinds for base in kind.__mro__[1:]}
    leaves = [kind for kind in kinds if kind not in bases and not kind.__name__.startswith("_")]
    ids = [f"{space}/{kind.__name__}-v0" for kind in leaves]
    return {env_id: EnvSpec(env_id, entry_point=cast(Any, kind)) for env_id, kind in zip(ids, leaves, strict=True)}


def _load(path: Path) -> ModuleType:
    """Load a file as `python FILE` would, its folder first on Python's path, but as a module of its name."""
    name = path.stem
    other = _module_file(name)
    if other is not None and other != path:  # Python has another module of this name
        name = f"{name}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        raise UsageError(f"{path.name}{where}: {reason(error)}") from error
    return module


def _module_file(name: str) -> Path | None:
    if name in sys.modules:
        return Path(getattr(sys.modules[name], "__file__", None) or "").resolve()
    spec = importlib.util.find_spec(name)
    return None if spec is None or (spec.origin is None and spec.loader is None) else Path(spec.origin or "").resolve()


def _module(entry_point: Any) -> str:
    if isinstance(entry_point, str):
        return entry_point.partition(":")[0]
    return str(getattr(entry_point, "__module__", ""))


def _attribute(spec: EnvSpec) -> str:
    return str(spec.entry_point).removeprefix(f"{__name__}:")


def __getattr__(name: str) -> Any:
    path, bar, _ = name.partition("|")
    if not bar:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _specs(_existing(Path(unquote(path))))
    return _CREATORS[name]
