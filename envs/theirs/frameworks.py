"""Frameworks: whose environments can be played, read from the files in `peers/` without importing a framework."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from gym_llm.envs.theirs.room import PEERS, load


@dataclass(frozen=True)
class Framework:
    """A framework.

    Attributes:
        name: Its file's name in `peers/`; `NAME:GAME` is short for an environment of it.
        env_id: The id under which Gymnasium knows its environments; empty if they are only replayed.
        summary: One sentence.
        packages: What pip installs for it.
        module: What is imported.
        names: The names of the framework in recorded episodes.
        is_apart: Whether its packages cannot be installed beside ours: it runs in a process of its own.
        options: Options of the installer besides.
        pythons: Versions of Python that it runs on, the best first; () for this one.
        engines: Its arguments that an engine may play, and the seat of each.
        extra_packages: What the user adds to its packages.
        lists_moves: Whether its games can say which moves are legal, so that opponents may move at random.
    """

    name: str
    env_id: str
    summary: str
    packages: tuple[str, ...]
    module: str
    names: tuple[str, ...]
    is_apart: bool
    scores_at_limit: bool = False
    options: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    engines: Mapping[str, int] = field(default_factory=dict)
    lists_moves: bool = True
    extra_packages: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """The word before the colon of `lm-eval:gsm8k`; `_` instead of `-` does as well."""
        return self.name.replace("_", "-")

    @property
    def is_installed(self) -> bool:
        """Whether this process can import what its environment with the default arguments needs."""
        defaults = inspect.signature(load(self.name).Peer).parameters
        return self.has_modules({name: each.default for name, each in defaults.items()})

    def has_modules(self, arguments: dict[str, Any]) -> bool:
        """Return whether this process can import what an environment with these arguments needs."""
        needs = getattr(load(self.name), "needs", lambda _: ())
        modules = (self.module, *needs(arguments))
        return all(importlib.util.find_spec(module) for module in modules)

    def plays_here(self, arguments: dict[str, Any]) -> bool:
        """Return whether this process can play an environment with these arguments."""
        return not self.is_apart and self.has_modules(arguments)

    def with_arguments(self, arguments: dict[str, Any]) -> Framework:
        """Return the framework with the packages that an environment with these arguments needs.

        Raises:
            ValueError: If they are to be installed from a folder that is missing.
        """
        packages = getattr(load(self.name), "packages", None)
        return self if packages is None else replace(self, packages=packages(arguments))

    def with_packages(self, extra: list[str]) -> Framework:
        """Return the framework with more packages in its environment of Python."""
        return replace(self, extra_packages=tuple(extra)) if extra else self

    @property
    def installed_packages(self) -> tuple[str, ...]:
        """Return all that pip installs."""
        return (*self.packages, *self.extra_packages)


@cache
def frameworks() -> dict[str, Framework]:
    """Return all frameworks by name.

    >>> frameworks()["textarena"].env_id
    'gym_llm/TextArena-v0'
    """
    return {path.stem: _read(path) for path in sorted(PEERS.glob("[a-z]*.py"))}


def framework_of(name: str) -> Framework | None:
    """Return the framework that a name means: that of its file, with `-` or `_`, or the one in recorded episodes."""
    wanted = name.lower().replace("-", "_")
    known = frameworks()
    return known.get(wanted) or next((each for each in known.values() if name in each.names), None)


def _read(path: Path) -> Framework:
    peer = load(path.stem)
    return Framework(
        name=path.stem,
        env_id=getattr(peer, "ENV_ID", ""),
        summary=(inspect.getdoc(peer) or "").partition("\n")[0],
        packages=peer.PACKAGES,
        module=peer.MODULE,
        names=peer.FRAMEWORKS,
        is_apart=getattr(peer, "APART", False),
        scores_at_limit=getattr(peer, "SCORES_AT_LIMIT", False),
        options=getattr(peer, "OPTIONS", ()),
        pythons=getattr(peer, "PYTHONS", ()),
        engines=getattr(peer, "ENGINES", {}),
        lists_moves=getattr(peer, "LISTS_MOVES", True),
    )
