"""NeMo Gym's directives between sections, carried out when all files and settings are merged.

- `_inherit_from: a.b` in a mapping: it begins as what stands at `a.b`, which moves here, and its own keys go over that.
- `_copy: a.b`: the same, and `a.b` stays where it is. `${inherit_from:a.b}` and `${copy:a.b}` are these for any value.
- `_delete_key: x, y`: these keys go.
- `dummy_model` among the implementations of a model: its values go under those of the other one.

What is inherited is taken from the values as they were merged, so several may inherit the same. Upstream's rules:
`nemo_gym/global_config.py`, `_recursively_swap_keys`; here what is inherited may itself inherit.
"""

from __future__ import annotations

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gym_llm.errors import ConfigError
from gym_llm.rollouts.config.agent_swap import AGENTS, swap_agents
from gym_llm.rollouts.config.config_files import first_line
from gym_llm.utils.text import did_you_mean

MODELS, RESOURCES = "responses_api_models", "resources_servers"
SERVER_TYPES = frozenset({MODELS, RESOURCES, AGENTS})
"""The keys of NeMo Gym's sections."""

INHERIT, COPY, DELETE = "_inherit_from", "_copy", "_delete_key"
DIRECTIVES = frozenset({INHERIT, COPY, DELETE})

_DIRECTIVE = re.compile(r"\$\{(inherit_from|copy):([^${}]+)\}")
_MISSING = "???"


def inherit(merged: DictConfig, places: dict[str, str]) -> DictConfig:
    """Carry out every directive.

    Args:
        merged: All files and settings, nothing resolved; unchanged.
        places: Where each value is from, by dotted key; what is inherited gets the places of where it was.

    Raises:
        ConfigError: If something inherits what is not there, or itself, or deletes a key that is not there.
    """
    values: Any = OmegaConf.to_container(merged)
    inheritance = _Inheritance(values, places)
    try:
        new = inheritance.expand(values, "", ())
        for path in sorted(inheritance.moved):
            _pop(new, path)
            for key in [key for key in places if key == path or key.startswith(f"{path}.")]:
                del places[key]
        for section in new.values():
            _join_dummy(section)
        swap_agents(new, places)
        return OmegaConf.create(new)
    except OmegaConfBaseException as error:
        raise ConfigError(f"The sections do not fit what they inherit: {first_line(error)}.") from None


class _Inheritance:
    def __init__(self, values: dict[str, Any], places: dict[str, str]) -> None:
        self._values = values
        self._places = places
        self.moved: set[str] = set()

    def expand(self, value: Any, key: str, under_way: tuple[str, ...]) -> Any:
        """A value with its directives carried out; `under_way` are the keys whose heirs are being made."""
        if isinstance(value, list):
            return [self.expand(item, f"{key}.{index}", under_way) for index, item in enumerate(value)]
        if isinstance(value, str) and (match := _DIRECTIVE.fullmatch(value)):
            return self._source(match[2].strip(), key, under_way, moves=match[1] == "inherit_from")
        if not isinstance(value, dict):
            return value
        doomed = [name.strip() for name in str(value.get(DELETE, "")).split(",") if name.strip()]
        own = {
            name: self.expand(item, f"{key}.{name}" if key else str(name), under_way)
            for name, item in value.items()
            if name not in DIRECTIVES and name not in doomed
        }
        source = value.get(INHERIT, value.get(COPY))
        if source is None:
            return own
        base = self._source(str(source), key, under_way, moves=INHERIT in value)
        if base == _MISSING:
            return base
        if not isinstance(base, dict):
            raise ConfigError(f"{self._place(key)}: {source} is not a mapping, so it cannot be changed.")
        for name in (name for name in doomed if name not in value):
            if name not in base:
                raise ConfigError(f"{self._place(key)}: {DELETE} names {name}, which {source} does not have.")
            del base[name]
        return OmegaConf.to_container(OmegaConf.merge(base, own))

    def _source(self, path: str, key: str, under_way: tuple[str, ...], *, moves: bool) -> Any:
        if path in under_way or path == key:
            raise ConfigError(f"{self._place(key)}: it inherits itself, by way of {path}.")
        value: Any = self._values
        heir = ""
        for name in path.split("."):
            if value == _MISSING:
                return value
            if isinstance(value, dict) and heir and DIRECTIVES & value.keys():
                if heir == key or heir in under_way:
                    raise ConfigError(f"{self._place(key)}: it inherits itself, by way of {path}.")
                value = self.expand(value, heir, (*under_way, key, heir))
            if not isinstance(value, dict) or name not in value:
                hint = did_you_mean(path, self._places)
                raise ConfigError(f"{self._place(key)}: it inherits {path}, which no file has.{hint}")
            value, heir = value[name], f"{heir}.{name}" if heir else name
        if moves:
            self.moved.add(path)
        own = {known for known in self._places if known.startswith(f"{key}.")}
        for old, place in list(self._places.items()):
            new = key + old[len(path) :]
            if old.startswith(f"{path}.") and not any(new == known or new.startswith(f"{known}.") for known in own):
                self._places[new] = place
        return self.expand(value, path, (*under_way, path))

    def _place(self, key: str) -> str:
        place = next((place for known, place in self._places.items() if f"{known}.".startswith(f"{key}.")), None)
        return f"{key} ({place})" if place else key


def _pop(values: Any, path: str) -> None:
    *parents, last = path.split(".")
    for name in parents:
        values = values.get(name) if isinstance(values, dict) else None
    if isinstance(values, dict):
        values.pop(last, None)


def _join_dummy(section: Any) -> None:
    models = section.get(MODELS) if isinstance(section, dict) else None
    if isinstance(models, dict) and "dummy_model" in models and len(models) > 1:
        dummy = models.pop("dummy_model")
        name = next(iter(models))
        models[name] = OmegaConf.to_container(OmegaConf.merge(dummy, models[name]))
