"""Experiment trackers by name, each through its library's own client."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from gym_llm.errors import UsageError
from gym_llm.utils.extras import install
from gym_llm.utils.text import did_you_mean

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Names of columns, and rows."""

_TRACKERS = {
    "tensorboard": "gym_llm.evaluation.tracking.tensorboard:TensorBoardTracker",
    "mlflow": "gym_llm.evaluation.tracking.mlflow:MLflowTracker",
    "wandb": "gym_llm.evaluation.tracking.wandb:WandbTracker",
}


class Tracker(ABC):
    """The interface of an experiment tracker. Its methods may block, and are called from one thread.

    Args:
        project: What the user named after the colon: a folder, an experiment, a project; "" for the default.
    """

    def __init__(self, project: str = "") -> None:
        self.project = project

    @abstractmethod
    def start(self, name: str, config: Mapping[str, Any]) -> None:
        """Begin.

        Args:
            name: The run's. One of the same name and project is gone on with, where the tracker can.
            config: JSON values: the run's settings, its git commit.
        """

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write numbers down.

        Args:
            step: Episodes so far.
            metrics: By name, `dataset/metric` where a run has several datasets.
        """

    @abstractmethod
    def table(self, name: str, table: Table) -> None:
        """Write a table down, in place of an earlier one of this name."""

    @abstractmethod
    def close(self) -> None:
        """Have everything arrive, and end."""


def make_tracker(spec: str) -> Tracker:
    """A tracker by its spec.

    Args:
        spec: `tensorboard[:FOLDER]`, `mlflow[:EXPERIMENT]` or `wandb[:PROJECT]`.

    Raises:
        UsageError: If the tracker is unknown, or its package is missing.
    """
    name, _, project = spec.partition(":")
    if name not in _TRACKERS:
        known = ", ".join(_TRACKERS)
        raise UsageError(f"There is no tracker {name!r}.{did_you_mean(name, list(_TRACKERS))} There are {known}.")
    module, _, class_name = _TRACKERS[name].partition(":")
    try:
        tracker: type[Tracker] = getattr(import_module(module), class_name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--log {name} needs the package {(error.name or name).partition('.')[0]}: {install('tracking')}."
        ) from None
    return tracker(project)


def file_name(text: str) -> str:
    """A text as part of a path: letters, digits, `.`, `_` and `-`, at most 100 of them.

    >>> file_name("runs/a b.jsonl")
    'runs-a-b.jsonl'
    """
    return re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII).strip(".-")[:100] or "run"


def folder(project: str, default: str) -> Path:
    """A tracker's folder, made if need be.

    Raises:
        UsageError: If it cannot be made.
    """
    path = Path(project or default)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"The folder {path} cannot be made: {error.strerror or error}.") from None
    return path
