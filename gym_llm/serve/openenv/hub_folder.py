"""A folder that OpenEnv's hub takes: environments as a Docker Space, with a typed client to install from it."""

from __future__ import annotations

import keyword
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

import yaml

from gym_llm.core.registry.env_files import find_env
from gym_llm.errors import UsageError
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.serve.openenv import folder_files as files
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import Sessions
from gym_llm.serve.task_api import split_of
from gym_llm.version import __version__

PORT = 8000
_VERSION = re.compile(r"-v(\d+)$")


def export_openenv(
    env_ids: str | Sequence[str],
    directory: str | Path,
    *,
    tasks: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    name: str | None = None,
    requirement: str | None = None,
) -> list[Path]:
    """Write a folder for `openenv push`: a manifest, a Dockerfile, a server (`EnvServer`) and a typed client.

    The server asks for a token, the Space's secret `GYM_LLM_TOKEN`; clients send it as `token=`.

    Args:
        env_ids: Registered ids, or Python files with an environment, which are copied; the first is at the root.
        directory: The folder; it is made if it does not exist, and must be empty.
        tasks: A task file of a single environment, which is copied; None for its own.
        env_kwargs: Further arguments of the environments.
        name: The name of the package; None to make it from the first environment's, `weather_env`.
        requirement: The requirement of gym_llm for pip in the image. None for a wheel that you put next to the
            Dockerfile, because gym_llm is on no package index: `pip wheel --no-deps -w FOLDER GYM_LLM_REPOSITORY`.

    Returns:
        The files.

    Raises:
        UsageError: If the folder is not empty, a file is missing, or the name cannot name a package.
        gymnasium.error.Error: If an id is unknown.
        DataError: If the tasks are invalid.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in export_openenv("gym_llm/Weather-v0", folder)][:3]
    ['openenv.yaml', 'README.md', 'Dockerfile']
    """
    env_ids = [env_ids] if isinstance(env_ids, str) else list(env_ids)
    folder = Path(directory)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty: export to a new or an empty folder.")
    if not env_ids or (tasks is not None and len(env_ids) != 1):
        raise UsageError("Export one or more environments; tasks need a single one.")
    factories = [EnvFactory(env_id, tasks=tasks, env_kwargs=env_kwargs) for env_id in env_ids]
    first = ServedEnv(factories[0], Sessions({factory.env_id: factory for factory in factories}))
    name = name or _package_name(first.name)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name[:80]!r} cannot name a package: use letters, digits and underscores, e.g. 'my_env'.")
    copied = [_FileToCopy.of(env_id) for env_id in env_ids]
    values = {
        "name": name,
        "title": first.name,
        "class_name": "".join(part.capitalize() for part in name.split("_")),
        "description": first.description,
        "env_ids": repr([copy.there for copy in copied]),
        "env_list": "\n".join(f"- `{factory.env_id}`" for factory in factories),
        "tasks": repr(None if tasks is None else f"data/{Path(tasks).name}"),
        "per_env": repr({copy.there: env_kwargs or {} for copy in copied} if len(copied) > 1 else env_kwargs or {}),
        "requirement": requirement or f"/app/env/gym_llm-{__version__}-py3-none-any.whl",
        "version": __version__,
        "port": str(PORT),
        "example": _example(first),
    }
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"openenv.yaml": yaml.safe_dump(_manifest(first, name), sort_keys=False)}
    texts |= {place: Template(text).substitute(values) for place, text in files.FILES.items()}
    written = []
    for place, text in texts.items():
        file = folder / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    sources = [(copy.here, copy.there) for copy in copied if copy.here is not None]
    sources += [] if tasks is None else [(Path(tasks), f"data/{Path(tasks).name}")]
    for source, place in sources:
        file = folder / place.partition(":")[0]
        file.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, file)
        written.append(file)
    return written


class _FileToCopy:
    """An environment that is a file: where it lies, and what it is called in the folder; an id is itself."""

    def __init__(self, here: Path | None, there: str) -> None:
        self.here = here
        self.there = there

    @classmethod
    def of(cls, env_id: str) -> _FileToCopy:
        if isinstance(find_env(env_id), str):
            return cls(None, env_id)
        head, colon, wanted = env_id.partition(":")
        here = Path(head if head.endswith(".py") else f"{head}.py")
        return cls(here, f"envs/{here.name}{colon}{wanted}")


def _package_name(env_name: str) -> str:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", _VERSION.sub("", env_name))
    return "_".join([*(word.lower() for word in words), "env"]).removeprefix("_") or "env"


def _manifest(env: ServedEnv, name: str) -> dict[str, Any]:
    """`openenv.yaml`; what it says of rewards and resources is a beginning, for the author to make true."""
    capabilities: dict[str, Any] = {"verifier": {"kind": "reward_channel"}, "task_api": True}
    if env.tools:
        capabilities["declared_tools"] = [tool["name"] for tool in env.tools]
    if (count := env.verifier.num_tasks) is not None:
        capabilities["declared_task_count"] = {split_of(env): count}
    validation = {
        "reward": {"range": [0.0, 1.0], "oracle_tolerance": 0.0, "floor_margin": 0.1},
        "resources": {"cpu": 1.0, "memory_mb": 1024, "disk_mb": 2048, "episode_timeout_s": 60.0},
        "capabilities": capabilities,
        "types": {"tags": ["gym-llm"]},
    }
    return {
        "spec_version": 1,
        "name": name,
        "version": __version__,
        "type": "space",
        "runtime": "docker",
        "app": "server.app:main",
        "port": PORT,
        "validation": validation,
    }


def _example(env: ServedEnv) -> str:
    if not env.tools:
        return '    result = env.step(ResponsesAction(output="Four."))'
    listing = '    print(env.step({"type": "list_tools"}).observation.tools)'
    return listing + '\n    result = env.step(ResponsesAction(output="..."))'
