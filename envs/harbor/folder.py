"""Task folders of Harbor 0.25: task.toml, instruction.md, environment/, tests/, solution/, steps/."""

from __future__ import annotations

import functools
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gym_llm.errors import DataError

Positive = Annotated[float, Field(gt=0)]
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([KMGTkmgt])[iI]?[bB]?")
Network = Literal["public", "no-network", "allowlist"]


def megabytes(size: str) -> float:
    """Return the MiB of a size with a unit.

    >>> megabytes("2G"), megabytes("512 MB"), megabytes("1.5g")
    (2048.0, 512.0, 1536.0)

    Raises:
        ValueError: If the size is invalid.
    """
    match = _SIZE.fullmatch(size.strip())
    if match is None or not (number := float(match[1])):
        raise ValueError(f"{size[:50]!r} is not a size, such as '2G' or '512M'")
    return number * {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}[match[2].upper()]


class _Section(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class _Environment(_Section):
    """Older tasks have `memory = "2G"`, `storage = "10G"` and `allow_internet`, which Harbor reads, too."""

    docker_image: str | None = None
    os: str = "linux"
    cpus: Positive | None = None
    memory_mb: Positive | None = None
    storage_mb: Positive | None = None
    gpus: int = 0
    env: dict[str, str] = {}
    workdir: str | None = None
    network_mode: Network | None = None
    mcp_servers: list[Any] = []
    healthcheck: Any = None
    build_timeout_sec: Positive = 600.0
    memory: str | None = None
    storage: str | None = None
    allow_internet: bool | None = None

    @field_validator("memory", "storage")
    @classmethod
    def _is_a_size(cls, size: str | None) -> str | None:
        if size is not None:
            megabytes(size)
        return size

    @model_validator(mode="after")
    def _as_they_are_said_now(self) -> _Environment:
        newer: dict[str, Any] = {}
        for name in ("memory", "storage"):
            if (size := getattr(self, name)) is not None and getattr(self, f"{name}_mb") is None:
                newer[f"{name}_mb"] = megabytes(size)
        if self.allow_internet is not None and self.network_mode is None:
            newer["network_mode"] = "public" if self.allow_internet else "no-network"
        return self.model_copy(update=newer) if newer else self


class _Agent(_Section):
    timeout_sec: Positive = 600.0
    user: str | int | None = None


class _Verifier(_Section):
    timeout_sec: Positive = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    environment_mode: Literal["shared", "separate"] = "shared"


class _Solution(_Section):
    env: dict[str, str] = {}


class StepSettings(_Section):
    """A step's part of `task.toml`."""

    name: str
    min_reward: float | dict[str, float] | None = None

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not name or "/" in name or name in (".", ".."):
            raise ValueError(f"{name!r} is not a folder of steps/")
        return name


class Settings(_Section):
    """A `task.toml`."""

    environment: _Environment = _Environment()
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    solution: _Solution = _Solution()
    steps: tuple[StepSettings, ...] = ()
    multi_step_reward_strategy: Literal["mean", "final"] = "mean"


class Step(BaseModel):
    """A step of a task: its instruction and its tests.

    Attributes:
        name: The step's name; None if the task is its only step.
        instruction: The text for the model.
        tests: Folders that become /tests, one over the other.
        workdir: A folder that is copied into the container's working directory before its `setup.sh` runs.
        solution: The folder with `solve.sh`.
        min_reward: The reward that the step has to earn before the next one begins.
    """

    model_config = ConfigDict(frozen=True)

    name: str | None
    instruction: str
    tests: tuple[str, ...]
    workdir: str | None = None
    solution: str | None = None
    min_reward: float | dict[str, float] | None = None


class TaskFolder(BaseModel):
    """A task folder's content."""

    model_config = ConfigDict(frozen=True)

    path: str
    settings: Settings
    steps: tuple[Step, ...]

    @property
    def dockerfile(self) -> str | None:
        """The path of its Dockerfile, if it has one."""
        path = os.path.join(self.path, "environment", "Dockerfile")
        return path if os.path.exists(path) else None


@functools.lru_cache(4096)
def _read(path: str, _version: int) -> TaskFolder:
    try:
        with open(os.path.join(path, "task.toml"), "rb") as file:
            settings = Settings.model_validate(tomllib.load(file))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}/task.toml cannot be read: {error}.") from None
    except ValidationError as error:
        fields = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
        raise DataError(f"{path}/task.toml is wrong: {fields}.") from None
    _refuse(path, settings)
    own = Path(path)
    if not settings.steps:
        return TaskFolder(path=path, settings=settings, steps=(_step(own, own, None, None),))
    steps = tuple(_step(own, own / "steps" / one.name, one.name, one.min_reward) for one in settings.steps)
    return TaskFolder(path=path, settings=settings, steps=steps)


def read_folder(path: str) -> TaskFolder:
    """Read a task folder.

    Raises:
        DataError: If it is not a task folder, or needs an unsupported feature.
    """
    real = os.path.abspath(path)
    try:
        version = os.stat(os.path.join(real, "task.toml")).st_mtime_ns
    except OSError:
        if os.path.exists(os.path.join(real, "task.yaml")):
            raise DataError(f"{path} is of terminal-bench 1 (task.yaml): run `harbor tasks migrate` on it.") from None
        raise DataError(f"{path} is not a task folder: task.toml is missing.") from None
    return _read(real, version)


def folders_in(path: str) -> list[str]:
    """Return the task folders in a folder, by name; or the folder itself, if it is one.

    Raises:
        DataError: If the folder has no task folders.
    """
    if os.path.exists(os.path.join(path, "task.toml")):
        return [os.path.abspath(path)]
    found = sorted(os.path.abspath(one.path) for one in os.scandir(path) if os.path.exists(f"{one.path}/task.toml"))
    if not found:
        for one in (path, *sorted(one.path for one in os.scandir(path))):
            if os.path.exists(f"{one}/task.yaml"):
                read_folder(one)
        raise DataError(f"{path} has no task folders: none of its folders has a task.toml.")
    return found


def _step(task: Path, folder: Path, name: str | None, min_reward: float | dict[str, float] | None) -> Step:
    try:
        instruction = (folder / "instruction.md").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{folder}/instruction.md cannot be read: {error}.") from None
    tests = tuple(str(one) for one in dict.fromkeys((task / "tests", folder / "tests")) if one.is_dir())
    if not any(os.path.exists(f"{one}/test.sh") for one in tests):
        raise DataError(f"{folder} has no tests/test.sh, which verifies it.")
    workdir, solution = folder / "workdir", folder / "solution"
    return Step(
        name=name,
        instruction=instruction,
        tests=tests,
        workdir=str(workdir) if name is not None and workdir.is_dir() else None,
        solution=str(solution) if (solution / "solve.sh").exists() else None,
        min_reward=min_reward,
    )


def _refuse(path: str, settings: Settings) -> None:
    """Raise DataError if a task needs an unsupported feature."""
    environment = settings.environment
    needs = {
        "an operating system other than linux": environment.os.lower() != "linux",
        "GPUs": environment.gpus > 0,
        "MCP servers": bool(environment.mcp_servers),
        "a healthcheck": environment.healthcheck is not None,
        "a machine of its own for the verifier": settings.verifier.environment_mode == "separate",
    }
    if any((Path(path) / "environment" / f"docker-compose.{end}").exists() for end in ("yaml", "yml")):
        needs["docker compose"] = True
    variables = {**environment.env, **settings.verifier.env, **settings.solution.env}
    if taken := [name for name, value in variables.items() if "${" in value]:
        needs[f"variables of this machine ({', '.join(taken)})"] = True
    if wanted := [name for name, needed in needs.items() if needed]:
        raise DataError(f"{path} needs {', '.join(wanted)}, which is not supported.")
