"""Composing YAML files and `key=value` settings into one set of values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import AnyNode, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from gym_llm.errors import ConfigError
from gym_llm.rollouts.config.config_files import (
    CONFIG_PATHS,
    DEEPEST,
    check_size,
    first_line,
    paths_of,
    read_layer,
    read_layers,
    unquoted,
)
from gym_llm.rollouts.config.inherit import SERVER_TYPES, inherit
from gym_llm.utils.secrets import MASK, add_secrets, find_in_text, find_secrets, is_secret_key, redact, secret_values
from gym_llm.utils.text import did_you_mean

ENV_FILE = "env.yaml"
COMMAND_LINE = "the command line"
WELL_KNOWN = (
    *("policy_base_url", "policy_api_key", "policy_model_name", "hf_token", "hf_organization", "hf_collection_name"),
    *("hf_collection_slug", "hf_dataset_prefix", "mlflow_tracking_uri", "mlflow_tracking_token"),
)
"""Settings that mean something without being mentioned in a file."""

_VARIABLE = re.compile(r"\boc\.env:")
_REFERENCE = re.compile(r"\$\{\s*([^${}]+?)\s*\}")
_RAISED = re.compile(r'\w+ raised while resolving interpolation: "?(.*?)"?$')
_NOT_FOUND = re.compile(r"Interpolation key '(.+)' not found")
_ONLY_REFERENCE = re.compile(r"\$\{(oc\.env:)?([A-Z][A-Z0-9_]*|[a-z_.]+)\}")
_SHOWN = {
    *("api", "base_url", "domain", "engine", "env", "history", "jsonl_fpath", "model", "name", "policy_base_url"),
    *("policy_model_name", "tasks", "tokenizer", "type", "url", "mlflow_tracking_uri", "hf_organization"),
}
"""Keys whose values are no secret, although they may come from an environment variable."""


@dataclass(frozen=True)
class Composed:
    """A configuration, merged from files and settings."""

    values: dict[str, Any]
    """Interpolations are resolved."""
    places: dict[str, str]
    """Where each value is from: dotted key -> file or `the command line`."""
    secrets: frozenset[str]
    """Strings that are not to be shown."""
    unread: frozenset[str] = frozenset()
    """The top-level names that no interpolation refers to."""
    added: frozenset[str] = frozenset()
    """Those that no file has."""
    unresolved: dict[str, str] = field(default_factory=dict)
    """Values of NeMo Gym's that refer to what is not there, by dotted key, and why; None stands for them in `values`.

    NeMo Gym resolves the values of servers, and what is in them when it is used.
    """

    def is_given(self, key: str) -> bool:
        """Whether the command line gives a value, or something in it."""
        return any(place == COMMAND_LINE and _is_within(known, key) for known, place in self.places.items())

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

    A later file overrides an earlier one, key by key; a list replaces a list. `env.yaml` in the folder overrides the
    files, and settings override everything.

    Args:
        paths: YAML files.
        settings: `key=value` with a dotted key (`arithmetic.kwargs.digits=3`) and a YAML value. An unknown top-level
            key is an error; `+key=value` adds it. `config_paths=[a.yaml,b.yaml]` names further files, as in NeMo Gym.
            It may refer to a list in `env.yaml`: `config_paths=${mine}`.
        folder: The folder of `env.yaml`.

    Raises:
        ConfigError: If a file cannot be read, a setting is wrong, or values are missing; one error lists them all.
    """
    try:
        return _compose(paths, settings, folder)
    except ConfigError as error:
        raise ConfigError(redact(str(error))) from None


def _compose(paths: Sequence[str | Path], settings: Sequence[str], folder: str | Path) -> Composed:
    for setting in settings:
        add_secrets(find_in_text(setting))
    places: dict[str, str] = {}
    merged = OmegaConf.create({})
    env_file = Path(folder, ENV_FILE)
    env_layer = read_layer(env_file) if env_file.exists() else OmegaConf.create({})
    more_files = [path for setting in settings if names_files(setting) for path in _config_paths(setting, env_layer)]
    layers = read_layers([*paths, *more_files])
    if env_layer:
        layers.append((str(env_file), env_layer))
    for path, layer in layers:
        _note_places(OmegaConf.to_container(layer), path, places)
        try:
            merged.merge_with(layer)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{path} does not fit the files before it: {first_line(error)}.") from None
    merged.pop(CONFIG_PATHS, None)
    for key in [key for key in places if _is_within(key, CONFIG_PATHS)]:
        del places[key]
    names = set(map(str, merged))
    for setting in settings:
        if not names_files(setting):
            _set(merged, setting, places)
    return _resolve(inherit(merged, places), places, names)


def names_files(setting: str) -> bool:
    """Whether a setting is NeMo Gym's `config_paths=[…]`."""
    return setting.lstrip("+").startswith("config_paths=")


def _config_paths(setting: str, env_layer: DictConfig) -> list[str]:
    try:
        merged = OmegaConf.merge(env_layer, OmegaConf.from_dotlist([setting.lstrip("+")]))
        paths = OmegaConf.to_container(OmegaConf.create([merged["config_paths"]]), resolve=True)[0]  # type: ignore[call-overload,index]
    except (OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(f"{setting}: {first_line(error)}.") from None
    if (files := paths_of(paths)) is None:
        raise ConfigError(f"{setting}: expected a list of files, e.g. config_paths=[a.yaml,b.yaml].")
    return files


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
        plain = OmegaConf.to_container(OmegaConf.create({"value": value}))["value"]  # type: ignore[call-overload,index]
    except (OmegaConfBaseException, YAMLError, ValueError, TypeError, IndexError) as error:
        raise ConfigError(f"{key}=…: cannot be set: {first_line(error)}.") from None
    except RecursionError:
        raise ConfigError(f"{key}=…: it is nested more than {DEEPEST} levels deep.") from None
    check_size(plain, f"{key}=…")
    _note_places(plain, COMMAND_LINE, places, key)


def _mentioned(value: Any) -> Iterator[str]:
    """The top-level names that interpolations refer to."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _mentioned(item)
    elif isinstance(value, str):
        yield from (name.partition(".")[0] for name in _REFERENCE.findall(value))


def _resolve(merged: DictConfig, places: dict[str, str], names: set[str]) -> Composed:
    examination = _Examination(places)
    raw: Any = OmegaConf.to_container(merged)
    examination.run_all(raw, merged)
    add_secrets(examination.secrets)
    missing, broken = examination.missing, examination.broken
    if missing or broken:
        hint = [f"Give them in a --config, in {ENV_FILE}, or as key=value."] if missing else []
        lines = ["The configuration is not complete:", *(f"  {line}" for line in [*missing, *broken]), *hint]
        raise ConfigError("\n".join(lines))
    values = OmegaConf.to_container(merged, resolve=True)
    add_secrets(find_secrets(values))
    unread = frozenset(raw) - {*_mentioned(raw), *WELL_KNOWN}
    return Composed(
        values,  # type: ignore[arg-type]
        places,
        frozenset(examination.secrets),
        unread,
        unread - names,
        examination.unresolved,
    )


class _Examination:
    """Looks at every value: is it there, can it be resolved, is it secret?"""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places
        self.missing: list[str] = []
        self.broken: list[str] = []
        self.secrets: set[str] = set()
        self.unresolved: dict[str, str] = {}

    def run_all(self, raw: dict[str, Any], merged: DictConfig) -> None:
        """Look at everything; `raw` is the same with nothing resolved."""
        kinds = {name: value.keys() if isinstance(value, dict) else set() for name, value in raw.items()}
        servers = {name for name, keys in kinds.items() if SERVER_TYPES & keys}
        others = {name for name, keys in kinds.items() if keys and not {"env", "engine"} & keys and servers} - servers
        aside: list[tuple[Any, Any]] = []
        for names, strict in ((kinds.keys() - servers - others, None), (servers, 3), (others, 0)):
            for name in (name for name in raw if name in names):
                if isinstance(raw[name], dict):
                    self.run(raw[name], merged._get_node(name), name, strict, aside)
                else:
                    self.run({name: raw[name]}, merged)
        for node, name in aside:
            node[name] = None

    def run(
        self, raw: Any, node: Any, key: str = "", strict: int | None = None, aside: list[tuple[Any, Any]] | None = None
    ) -> None:
        """Look at everything below a node.

        Args:
            raw: The same with nothing resolved.
            node: The node.
            key: Its dotted key.
            strict: How many levels below it have to be resolved; None for all. NeMo Gym's servers have three: type,
                implementation and their own values.
            aside: Takes the others that cannot be.
        """
        for name, value in list(raw.items() if isinstance(raw, dict) else enumerate(raw)):
            path = f"{key}.{name}" if key else str(name)
            place = self._places.get(path, "")
            is_secret = isinstance(name, str) and is_secret_key(name)
            if isinstance(value, (dict, list)):
                self.run(value, node._get_node(name), path, strict and strict - 1, aside)
            elif value == "???":
                self.missing.append(f"{path} is required ({place})")
                continue
            elif isinstance(value, str) and "${" in value:
                references = [reference.removeprefix("oc.env:") for reference in _REFERENCE.findall(value)]
                is_secret = is_secret or any(is_secret_key(reference.partition(",")[0]) for reference in references)
                self._note_variables(str(name), value, node)
                try:
                    value = node[name]
                except (OmegaConfBaseException, RecursionError) as error:
                    hidden = is_secret_key(str(name)) and not _ONLY_REFERENCE.fullmatch(value)
                    if strict == 0 and aside is not None:
                        sentence = _RAISED.sub(r"\1", first_line(error))
                        self.unresolved[path] = unquoted(sentence) if hidden else sentence
                        aside.append((node, name))
                    else:
                        self._note_unresolved(path, MASK if hidden else value, place, error, hidden=hidden)
                    continue
                if OmegaConf.is_config(value):
                    continue  # its own values are examined where they are
            if is_secret:
                self.secrets |= secret_values(value)

    def _note_variables(self, key: str, text: str, node: Any) -> None:
        """Take what comes from the environment for secret, but for what neither its name nor its place says is one."""
        for match in _VARIABLE.finditer(text):
            depth, start, end = 0, match.end(), match.end()
            while end < len(text) and depth >= 0 and (depth or text[end] not in ",}"):
                depth += (text[end] == "{") - (text[end] == "}")
                end += 1
            name = text[start:end].strip(" '\"")
            with suppress(OmegaConfBaseException, RecursionError):  # whoever resolves the whole says so
                if "${" in name:
                    name = str(AnyNode(name, parent=node)._dereference_node()._value())
                value = os.environ.get(name, "")
                if is_secret_key(name) or not (key in _SHOWN or value.startswith(("/", "~", "."))):
                    self.secrets |= {value} - {""}

    def _note_unresolved(self, key: str, shown: str, place: str, error: Exception, *, hidden: bool) -> None:
        where, sentence = f"{key}: {shown} ({place})", _RAISED.sub(r"\1", first_line(error))
        if hidden:
            sentence = unquoted(sentence)
        if match := _NOT_FOUND.search(sentence):
            hint = did_you_mean(match[1], self._places)
            self.missing.append(f"{match[1]} is not given, and needed by {where}.{hint}")
        elif "Missing mandatory value" not in sentence:  # that one is reported where it is missing
            self.broken.append(f"{where}: {sentence}")
