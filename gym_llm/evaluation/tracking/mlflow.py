"""MLflow: a run of an experiment, on the server that MLFLOW_TRACKING_URI names, or in MLflow's own default place."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from gym_llm.evaluation.tracking.trackers import Table, Tracker


class MLflowTracker(Tracker):
    """Metrics; the configuration and the samples are files of the run (`config.json`, `samples.json`, a table)."""

    def start(self, name: str, config: Mapping[str, Any]) -> None:
        """See `Tracker`; the newest run of this name is gone on with."""
        self._client = MlflowClient()
        title = self.project or "gym_llm"
        experiment = self._client.get_experiment_by_name(title)
        number = experiment.experiment_id if experiment else self._created(title)
        named = f"tags.mlflow.runName = '{name.translate(_QUOTES)}'"
        earlier = self._client.search_runs([number], named, max_results=1)
        if earlier:
            self._run = earlier[0].info.run_id
            self._client.update_run(self._run, "RUNNING")
        else:
            tags = {"mlflow.source.git.commit": commit} if (commit := config.get("git_commit")) else {}
            self._run = self._client.create_run(number, tags=tags, run_name=name.translate(_QUOTES)).info.run_id
        self._client.log_dict(self._run, dict(config), "config.json")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """See `Tracker`."""
        now = int(time.time() * 1000)
        entries = [Metric(name, value, now, step) for name, value in metrics.items()]
        for start in range(0, len(entries), 1000):  # what a server takes at once
            self._client.log_batch(self._run, metrics=entries[start : start + 1000])

    def table(self, name: str, table: Table) -> None:
        """See `Tracker`: in the form of MLflow's own tables."""
        columns, rows = table
        self._client.log_dict(
            self._run, {"columns": list(columns), "data": [list(row) for row in rows]}, f"{name}.json"
        )

    def close(self) -> None:
        """See `Tracker`."""
        self._client.set_terminated(self._run)

    def _created(self, title: str) -> str:
        try:
            return self._client.create_experiment(title)
        except MlflowException:  # another process was quicker
            experiment = self._client.get_experiment_by_name(title)
            if experiment is None:
                raise
            return experiment.experiment_id


_QUOTES = str.maketrans({"'": "-", '"': "-", "\\": "-"})
