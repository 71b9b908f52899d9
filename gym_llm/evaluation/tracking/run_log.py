"""A run as trackers see it: numbers of each dataset while it plays, a table of samples, what it was made with."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from gym_llm.evaluation.tracking.trackers import Table, Tracker, make_tracker
from gym_llm.protocols.responses.transcript import transcript
from gym_llm.records.failures import reason
from gym_llm.rollouts.run import Run
from gym_llm.stats.run_summary import Summary
from gym_llm.types import Rollout
from gym_llm.utils.secrets import redact, redacted_logger

logger = redacted_logger(__name__)
_COLUMNS = ("dataset", "env_id", "task_index", "repeat_index", "outcome", "reward", "error", "conversation")
_LONGEST = 10_000
_CLOSING_SECONDS = 60.0


class RunLog(AbstractContextManager["RunLog"]):
    """Reports a run to trackers from a separate thread, so that a slow tracker does not delay the run.

    If a tracker fails, the log warns once and stops reporting to it; the run goes on.

    >>> with Run("gym_llm/Weather-v0", output="a.jsonl") as run, RunLog(run, ["tensorboard"]) as log:  # doctest: +SKIP
    ...     async for record in run.records():
    ...         log.see(record)

    Args:
        run: A run that has not started.
        trackers: Specs (see `make_tracker`), or trackers.
        every: Seconds between two reports.
        name: The run's name in trackers; None for its file's name.
        samples: Episodes in the table: the first ones of each dataset, and as many masked ones.

    Raises:
        UsageError: If a spec names no tracker.
    """

    def __init__(
        self,
        run: Run,
        trackers: Sequence[str | Tracker],
        *,
        name: str | None = None,
        every: float = 10.0,
        samples: int = 50,
    ) -> None:
        self._run = run
        self._name = name or run.path.name
        self._trackers = [make_tracker(each) if isinstance(each, str) else each for each in trackers]
        self._every = every
        self._samples = samples
        self._rows: dict[tuple[str, bool], list[list[Any]]] = {}
        self._next = 0.0
        self._pending: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, "trackers") if self._trackers else None

    def __enter__(self) -> RunLog:
        """Begin."""
        if self._thread is not None:
            settings = {**self._run.as_dict()["settings"], "parts": list(self._run.parts), "git_commit": git_commit()}
            self._tell(lambda tracker: tracker.start(self._name, settings))
            self._next = time.monotonic() + self._every
        return self

    def see(self, record: Rollout) -> None:
        """Count an episode; to be called for each record of the run."""
        if self._thread is None:
            return
        rows = self._rows.setdefault((record.get("dataset", ""), record["reward"] is None), [])
        if len(rows) < self._samples:
            rows.append(_row(record))
        now = time.monotonic()
        if now >= self._next and (self._pending is None or self._pending.done()):
            self._next = now + self._every
            self._report(_figures)

    def __exit__(self, *_: object) -> None:
        """Report what the run came to, and end."""
        if self._thread is None:
            return
        if self._run.summary.episodes:
            self._report(_final_figures)
        if self._rows:
            table = self._table()
            self._tell(lambda tracker: tracker.table("samples", table))
        last = self._tell(lambda tracker: tracker.close())
        try:
            last.result(_CLOSING_SECONDS)
        except TimeoutError:
            logger.warning("A tracker has not ended within %g s, and is left alone.", _CLOSING_SECONDS)
        self._thread.shutdown(wait=False)

    def _report(self, figures: Callable[[Summary], dict[str, float]]) -> None:
        run, metrics = self._run, {}
        summaries = {"": run.summary, **(run.datasets or (run.environments if len(run.environments) > 1 else {}))}
        for dataset, summary in summaries.items():
            prefix = f"{dataset}/" if dataset else ""
            metrics.update({f"{prefix}{name}": value for name, value in figures(summary).items()})
        if seconds := run.seconds:
            metrics["episodes_per_second"] = run.played / seconds
        step, finite = run.summary.episodes, {name: value for name, value in metrics.items() if math.isfinite(value)}
        self._pending = self._tell(lambda tracker: tracker.log(step, finite))

    def _table(self) -> Table:
        names = {name for name, _ in self._rows}
        each = max(1, self._samples // (2 * len(names)))
        return _COLUMNS, [row for _, rows in sorted(self._rows.items()) for row in rows[:each]]

    def _tell(self, what: Callable[[Tracker], None]) -> Future[None]:
        assert self._thread is not None
        return self._thread.submit(self._call, what)

    def _call(self, what: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            try:
                what(tracker)
            except Exception as error:
                self._trackers.remove(tracker)
                name = type(tracker).__name__
                logger.warning("%s failed, and is told no more of this run: %s", name, reason(error))


def git_commit() -> str | None:
    """The commit that the working directory is at, with `-dirty` where files differ; None without a repository."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _figures(summary: Summary) -> dict[str, float]:
    """Return figures that are cheap during a run."""
    episodes = summary.episodes or math.nan
    return {
        "mean_reward": summary.mean_reward,
        "coverage": summary.coverage,
        "masked": summary.failures / episodes,
        "truncated": summary.truncated / episodes,
        "tool_errors": summary.tool_errors / episodes,
        "turns": summary.turns / episodes,
        "input_tokens": summary.input_tokens / episodes,
        "output_tokens": summary.output_tokens / episodes,
        **{f"masked/{kind}": count / episodes for kind, count in summary.failure_kinds.items()},
    }


def _final_figures(summary: Summary) -> dict[str, float]:
    return {
        **_figures(summary),
        "standard_error": summary.standard_error,
        **{f"pass_at_{k}": value for k, value in summary.pass_at().items()},
    }


def _row(record: Rollout) -> list[Any]:
    items: list[Any] = []
    if "response" in record:
        asked = record["responses_create_params"]["input"]
        items = [*(asked if isinstance(asked, list) else []), *record["response"]["output"]]
    number = record["rollout_id"]
    return [
        record.get("dataset", ""),
        record["env_id"],
        number["task_index"],
        number["repeat_index"],
        record["outcome"],
        record["reward"],
        redact(record.get("error") or ""),
        redact(transcript(items)[:_LONGEST]),
    ]
