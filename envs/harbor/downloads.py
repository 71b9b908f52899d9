"""Datasets that `harbor download` has left on this machine, found by their names, without Harbor and its network.

Harbor 0.25 leaves `NAME/TASK/` in the folder that it ran in, or with `--cache` the tasks of a registry's dataset in
`~/.cache/harbor/tasks/KEY/TASK`. The key is made of the task's repository, commit and path.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from gym_llm.envs.harbor.folder import folders_in
from gym_llm.errors import DataError

_DATASETS, _REGISTRY = "HARBOR_DATASETS", "HARBOR_REGISTRY"
_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_KEY_LENGTH = 22
_DOWNLOAD = "harbor download"


def tasks_of(name: str) -> list[str]:
    """Return the task folders of a dataset.

    Args:
        name: Its name, perhaps with an organisation and a version: `terminal-bench@2.0`, `org/name`. A folder of this
            name is looked for in `$HARBOR_DATASETS`, or the current folder. Then the name is looked up in the registry
            `$HARBOR_REGISTRY`, or `registry.json` in that folder.

    Raises:
        DataError: If the dataset, or one of its tasks, is not on this machine.
    """
    bare, _, version = name.partition("@")
    short = bare.rpartition("/")[2]
    if not short or short in (".", ".."):
        raise DataError(f"{name!r} is not the name of a dataset, such as terminal-bench@2.0.")
    root = Path(os.environ.get(_DATASETS) or ".")
    if (root / short).is_dir():
        return folders_in(str(root / short))
    registry = Path(os.environ.get(_REGISTRY) or root / "registry.json")
    if registry.is_file():
        return _registered(registry, bare, version)
    raise DataError(
        f"There is no dataset {name!r} in {root.resolve()}: run `harbor download {name}` there, "
        f"or name its folder in {_DATASETS}."
    )


def _registered(registry: Path, name: str, version: str) -> list[str]:
    try:
        datasets = json.loads(registry.read_text("utf-8"))
        known = sorted(f"{one['name']}@{one['version']}" for one in datasets)
        named = [one for one in datasets if one["name"] == name and version in ("", one["version"])]
        tasks = [_folder(registry, task) for task in named[-1]["tasks"]] if named else []
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{registry} is not a registry of Harbor: {error}.") from None
    if not tasks:
        raise DataError(f"{registry} has no dataset {name!r} of this version; it has {', '.join(known)[:500]}.")
    if missing := [path for path in tasks if not (path / "task.toml").is_file()]:
        raise DataError(
            f"{len(missing)} of {len(tasks)} tasks are missing, e.g. {missing[0]}: {_DOWNLOAD} {name} --cache."
        )
    return [str(path) for path in tasks]


def _folder(registry: Path, task: dict[str, Any]) -> Path:
    path = Path(task["path"])
    if (url := task.get("git_url")) is None:
        return (registry.parent / path.expanduser()).resolve()
    commit = task.get("git_commit_id")
    text = f"git_url={url!r} git_commit_id={commit!r} path={path!r}"
    return Path("~/.cache/harbor/tasks").expanduser() / key_of(text) / path.name


def key_of(text: str) -> str:
    """Return the key of a task in Harbor's cache, as the package `shortuuid` makes it.

    >>> key_of("git_url='https://a.b/c' git_commit_id=None path=PosixPath('tasks/x')")
    '4cEwPYsmcikfX45E2yNeuM'
    """
    space = uuid.NAMESPACE_URL if text.lower().startswith(("http://", "https://")) else uuid.NAMESPACE_DNS
    number, key = uuid.uuid5(space, text).int, ""
    while number:
        number, digit = divmod(number, len(_LETTERS))
        key = _LETTERS[digit] + key
    return key.rjust(_KEY_LENGTH, _LETTERS[0])
