"""Reading YAML files, and the files in their `config_paths`, in the order of precedence.

The order is NeMo Gym's. A file overrides the files that it names, at any depth. A later file overrides an earlier one
and all files that the earlier one names. A file that is named twice counts at its first place, level by level.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from gym_llm.errors import ConfigError
from gym_llm.utils.secrets import add_secrets, find_in_text, redact

CONFIG_PATHS = "config_paths"

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_HARMLESS = re.compile(r"<.*>|.?|[A-Z][A-Z0-9_]*|[a-z_.]{1,40}")
DEEPEST = 100  # levels; what walks over values recurses
_LONGEST_INTEGER = 14_000  # bits: of more than 4,300 digits Python makes no text


def read_layers(paths: Sequence[str | Path]) -> list[tuple[str, DictConfig]]:
    """Return the files and the files that they name, with their paths; a later one overrides an earlier one.

    Raises:
        ConfigError: If a file cannot be read, or is neither in the working directory nor in a folder above the file
            that names it.
    """
    files = [Path(path) for path in paths]
    known = {path.resolve() for path in files}
    layers: list[DictConfig] = []
    named: list[list[int]] = []
    for file in files:  # grows
        layer = read_layer(file)
        named.append([])
        for name in _named_files(layer, file):
            inner = find_above(name, file)
            if inner is None:
                raise ConfigError(
                    f"{file}: {CONFIG_PATHS} has {name}, which is neither in the working directory nor in a folder "
                    "above this file."
                )
            if inner.resolve() not in known:
                known.add(inner.resolve())
                named[-1].append(len(files))
                files.append(inner)
        layers.append(layer)
    order: dict[int, list[int]] = {}
    for index in reversed(range(len(files))):  # what a file names comes after it in `files`
        order[index] = [inner for child in named[index] for inner in order[child]] + [index]
    return [(str(files[index]), layers[index]) for root in range(len(paths)) for index in order[root]]


def find_above(name: str, file: str | Path) -> Path | None:
    """Find a file that another file names: in the working directory, or in the nearest folder above that file."""
    if Path(name).exists():
        return Path(name)
    candidates = (folder / name for folder in Path(file).absolute().parents)
    return next((candidate for candidate in candidates if candidate.exists()), None)


def read_layer(path: str | Path) -> DictConfig:
    """Return one file's content, unresolved.

    Raises:
        ConfigError: If it cannot be read or is not a mapping of sections.
    """
    text = ""
    try:
        text = Path(path).read_text("utf-8")
        layer = OmegaConf.load(io.StringIO(text))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None
    except YAMLError as error:
        raise ConfigError(f"{path} is not YAML that can be used: {_what_is_wrong(error)}.") from None
    except OmegaConfBaseException as error:
        add_secrets(find_in_text(text))
        raise ConfigError(redact(f"{path}: {unquoted(first_line(error))}.")) from None
    except RecursionError:
        raise ConfigError(f"{path}: it is nested more than {DEEPEST} levels deep.") from None
    except ValueError:  # Python's, for an integer
        raise ConfigError(f"{path}: a number has more than 4,300 digits: put it in quotes.") from None
    except OSError as error:
        if error.strerror is None:  # OmegaConf's, for YAML that is a number or a text
            raise ConfigError(f"{path}: a configuration is a mapping of sections, this is a single value.") from None
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
    if not isinstance(layer, DictConfig):
        raise ConfigError(f"{path}: a configuration is a mapping of sections, this is a list.")
    for key in layer:
        if not isinstance(key, str):
            raise ConfigError(f"{path}: the name of a section is a text, got {key!r}: put it in quotes.")
    check_size(OmegaConf.to_container(layer), str(path))
    return layer


def _what_is_wrong(error: YAMLError) -> str:
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return "it holds characters that YAML does not have"
    mark = error.problem_mark
    problem = unquoted(", ".join(filter(None, (error.context, error.problem))))
    return f"line {mark.line + 1}, column {mark.column + 1}: {' '.join(problem.split())}"


def unquoted(sentence: str) -> str:
    """A parser's sentence with … for what it quotes, if that is more than a name or a character."""
    return _QUOTED.sub(lambda match: match[0] if _HARMLESS.fullmatch(match[1] or match[2] or "") else "…", sentence)


def check_size(value: Any, place: str) -> None:
    """Refuse what is nested too deeply, or too long a number, to be worked with."""
    level, depth = [value], 0
    while level:
        if any(isinstance(item, int) and item.bit_length() > _LONGEST_INTEGER for item in level):
            raise ConfigError(f"{place}: a number has more than 4,300 digits: put it in quotes.")
        if depth > DEEPEST:
            raise ConfigError(f"{place}: it is nested more than {DEEPEST} levels deep.")
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))]
        level, depth = [item for items in inner for item in items], depth + 1


def first_line(error: Exception) -> str:
    """An error's first line, without its full stop."""
    return str(error).partition("\n")[0].rstrip(".")


def paths_of(value: Any) -> list[str] | None:
    """Return a value of `config_paths`, resolved; None if it is not a list of files."""
    return value if isinstance(value, list) and all(isinstance(path, str) and path for path in value) else None


def _named_files(layer: DictConfig, file: Path) -> list[str]:
    try:
        value = layer.get(CONFIG_PATHS)
        if OmegaConf.is_config(value):
            value = OmegaConf.to_container(value, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{file}: {CONFIG_PATHS}: {first_line(error)}.") from None
    paths = paths_of([] if value is None else value)
    if paths is None:
        raise ConfigError(f"{file}: {CONFIG_PATHS} is a list of files, e.g. [a.yaml, b.yaml].")
    return paths
