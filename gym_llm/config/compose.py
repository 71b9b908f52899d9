"""Composing YAML files and `key=value` settings into one set of values."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from gym_llm.did_you_mean import did_you_mean
from gym_llm.errors import ConfigError
from gym_llm.secrets import is_secret_key, secret_values

ENV_FILE = "env.yaml"
COMMAND_LINE = "the command line"
WELL_KNOWN = (
    *("policy_base_url", "policy_api_key", "policy_model_name", "hf_token", "hf_organization", "hf_collection_name"),
    *("hf_collection_slug", "hf_dataset_prefix", "mlflow_tracking_uri", "mlflow_tracking_token"),
)
"""Settings that mean something without being mentioned in a file."""

_REFERENCE = re.compile(r"\$\{\s*([^${}]+?)\s*\}")
_RAISED = re.compile(r'\w+ raised while resolving interpolation: "?(.*?)"?$')
_NOT_FOUND = re.compile(r"Interpolation key '(.+)' not found")


@dataclass(frozen=True)
class Composed:
    """What the files and settings come to."""

    values: dict[str, Any]
    """Interpolations are resolved."""
    places: dict[str, str]
    """Where each value is from: dotted key -> file or `the command line`."""
    secrets: frozenset[str]
    """Strings that are not to be shown."""

    def place(self, key: str) -> str:
        """`key (file)`, for messages; if no file has the key, the file of the nearest key above it."""
        parent = key
        while parent:
            for known_key, place in reversed(self.places.items()):
                if _is_within(known_key, parent):
                    return f"{key} ({place})"
            parent = parent.rpartition(".")[0]
        return key


def compose(paths: Sequence[str | Path], settings: Sequence[str] = (), *, folder: str | Path = ".") -> Composed:
    """Compose a configuration.

    A later file goes over an earlier one, key by key (lists are replaced whole); `env.yaml` in the folder goes over the
    files, and settings over everything.

    Args:
        paths: YAML files.
        settings: `key=value`, the key dotted (`arithmetic.kwargs.digits=3`), the value YAML. A top-level key that
            nothing mentions is taken for a mistake; `+key=value` adds it all the same. `config_paths=[a.yaml,b.yaml]`,
            as NeMo Gym has it, names further files; it may refer to a list in `env.yaml`: `config_paths=${mine}`.
        folder: Where `env.yaml` is looked for.

    Raises:
        ConfigError: If a file cannot be read, a setting cannot be made, or values are missing; all of these at once.
    """
    places: dict[str, str] = {}
    merged = OmegaConf.create({})
    env_file = Path(folder, ENV_FILE)
    env_layer = read_layer(env_file) if env_file.exists() else OmegaConf.create({})
    more_files = [path for setting in settings if names_files(setting) for path in _config_paths(setting, env_layer)]
    layers = [(str(path), read_layer(path)) for path in [*paths, *more_files]]
    if env_layer:
        layers.append((str(env_file), env_layer))
    for path, layer in layers:
        _note_places(OmegaConf.to_container(layer), path, places)
        try:
            merged.merge_with(layer)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{path} does not fit the files before it: {_first_line(error)}.") from None
    for setting in settings:
        if not names_files(setting):
            _set(merged, setting, places)
    return _resolve(merged, places)


def names_files(setting: str) -> bool:
    """Whether a setting is NeMo Gym's `config_paths=[…]`."""
    return setting.lstrip("+").startswith("config_paths=")


def read_layer(path: str | Path) -> DictConfig:
    """One file as it is, nothing resolved.

    Raises:
        ConfigError: If it cannot be read or is no mapping of sections.
    """
    try:
        layer = OmegaConf.load(io.StringIO(Path(path).read_text("utf-8")))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None
    except YAMLError as error:
        raise ConfigError(f"{path} is not YAML that can be used: {' '.join(str(error).split())}.") from None
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {_first_line(error)}.") from None
    except OSError as error:
        if error.strerror is None:  # OmegaConf's, for YAML that is a number or a text
            raise ConfigError(f"{path}: a configuration is a mapping of sections, this is a single value.") from None
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
    if not isinstance(layer, DictConfig):
        raise ConfigError(f"{path}: a configuration is a mapping of sections, this is a list.")
    for key in layer:
        if not isinstance(key, str):
            raise ConfigError(f"{path}: the name of a section is a text, got {key!r}: put it in quotes.")
    return layer


def _config_paths(setting: str, env_layer: DictConfig) -> list[str]:
    try:
        merged = OmegaConf.merge(env_layer, OmegaConf.from_dotlist([setting.lstrip("+")]))
        paths = OmegaConf.to_container(OmegaConf.create([merged["config_paths"]]), resolve=True)[0]  # type: ignore[call-overload,index]
    except (OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(f"{setting}: {_first_line(error)}.") from None
    if isinstance(paths, list) and all(isinstance(path, str) for path in paths):
        return paths
    raise ConfigError(f"{setting}: expected a list of files, e.g. config_paths=[a.yaml,b.yaml].")


def _note_places(value: Any, place: str, places: dict[str, str], key: str = "") -> None:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            _note_places(item, place, places, f"{key}.{name}" if key else str(name))
        return
    if value == "???" and key in places:
        return  # it asks for a value, and there is one
    for replaced_key in [known_key for known_key in places if _is_within(known_key, key)]:
        del places[replaced_key]
    places[key] = place
    if isinstance(value, list):
        for index, item in enumerate(value):
            _note_places(item, place, places, f"{key}.{index}")


def _is_within(key: str, parent: str) -> bool:
    return key == parent or key.startswith(f"{parent}.")


def _set(merged: DictConfig, setting: str, places: dict[str, str]) -> None:
    key, equals, text = setting.partition("=")
    added, key = key.startswith("+"), key.strip().lstrip("+")
    if not equals or not key:
        raise ConfigError(f"A setting is key=value, e.g. policy_model_name=Qwen/Qwen3-4B; got {setting!r}.")
    section = re.split(r"[.\[]", key, maxsplit=1)[0]
    known = {*map(str, merged), *WELL_KNOWN, *_mentioned(OmegaConf.to_container(merged))}
    if section not in known and not added:
        raise ConfigError(
            f"{key}=…: nothing in the configuration is called {section}.{did_you_mean(section, known)} "
            f"(+{key}=… adds it all the same.)"
        )
    try:
        value = OmegaConf.from_dotlist([f"value={text}"])._get_node("value")
        OmegaConf.update(merged, key, value, merge=True, force_add=True)
    except (OmegaConfBaseException, YAMLError, ValueError, TypeError, IndexError) as error:
        raise ConfigError(f"{key}=…: cannot be set: {_first_line(error)}.") from None
    _note_places(OmegaConf.to_container(OmegaConf.create({"value": value}))["value"], COMMAND_LINE, places, key)  # type: ignore[call-overload,index]


def _mentioned(value: Any) -> Iterator[str]:
    """The top-level names that interpolations refer to."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _mentioned(item)
    elif isinstance(value, str):
        yield from (name.partition(".")[0] for name in _REFERENCE.findall(value))


def _resolve(merged: DictConfig, places: dict[str, str]) -> Composed:
    examination = _Examination(places)
    examination.run(OmegaConf.to_container(merged), merged)
    missing, broken = examination.missing, examination.broken
    if missing or broken:
        hint = [f"Give them in a --config, in {ENV_FILE}, or as key=value."] if missing else []
        lines = ["The configuration is not complete:", *(f"  {line}" for line in [*missing, *broken]), *hint]
        raise ConfigError("\n".join(lines))
    values = OmegaConf.to_container(merged, resolve=True)
    return Composed(values, places, frozenset(examination.secrets))  # type: ignore[arg-type]


class _Examination:
    """Looks at every value: is it there, can it be resolved, is it secret?"""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places
        self.missing: list[str] = []
        self.broken: list[str] = []
        self.secrets: set[str] = set()

    def run(self, raw: Any, node: Any, key: str = "") -> None:
        """Look at everything below a node; `raw` is the same with nothing resolved."""
        for name, value in list(raw.items() if isinstance(raw, dict) else enumerate(raw)):
            path = f"{key}.{name}" if key else str(name)
            place = self._places.get(path, "")
            is_secret = isinstance(name, str) and is_secret_key(name)
            if isinstance(value, (dict, list)):
                self.run(value, node._get_node(name), path)
            elif value == "???":
                self.missing.append(f"{path} is required ({place})")
                continue
            elif isinstance(value, str) and "${" in value:
                is_secret = is_secret or any(map(is_secret_key, _REFERENCE.findall(value)))
                try:
                    value = node[name]
                except (OmegaConfBaseException, RecursionError) as error:
                    self._note_unresolved(f"{path}: {value} ({place})", error)
                    continue
                if OmegaConf.is_config(value):
                    continue  # its own values are examined where they are
            if is_secret:
                self.secrets |= secret_values(value)

    def _note_unresolved(self, where: str, error: Exception) -> None:
        sentence = _first_line(error)
        if match := _NOT_FOUND.search(sentence):
            hint = did_you_mean(match[1], self._places)
            self.missing.append(f"{match[1]} is not given, and needed by {where}.{hint}")
        elif "Missing mandatory value" not in sentence:  # that one is reported where it is missing
            reason = _RAISED.sub(r"\1", sentence)
            self.broken.append(f"{where}: {reason}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
