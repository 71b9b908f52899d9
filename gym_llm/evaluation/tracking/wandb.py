"""Weights & Biases: a run of a project; without a login it is kept in ./wandb, for `wandb sync`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import wandb

from gym_llm.evaluation.tracking.trackers import Table, Tracker


class WandbTracker(Tracker):
    """Metrics, the configuration, and the samples as a `wandb.Table`."""

    def start(self, name: str, config: Mapping[str, Any]) -> None:
        """See `Tracker`; a run of this name is gone on with, if it was begun in this folder."""
        identity = f"{os.getcwd()}\0{name}\0{self.project}"
        self._run = wandb.init(
            project=self.project or "gym_llm",
            name=name,
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            resume="allow",
            reinit="create_new",  # an evaluation has a run for each engine
            config=dict(config),
            mode=None if os.environ.get("WANDB_MODE") or _has_key() else "offline",
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._run.log(dict(metrics), step=step)

    def table(self, name: str, table: Table) -> None:
        """See `Tracker`."""
        columns, rows = table
        cells = [[value if isinstance(value, int | float | None) else str(value) for value in row] for row in rows]
        self._run.log({name: wandb.Table(columns=list(columns), data=cells)})

    def close(self) -> None:
        """See `Tracker`."""
        self._run.finish()


def _has_key() -> bool:
    return bool(os.environ.get("WANDB_API_KEY") or wandb.api.api_key)
