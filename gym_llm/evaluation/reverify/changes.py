"""Changes that scoring episodes again has made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gym_llm.evaluation.reverify.rescoring import Score
from gym_llm.records.failures import Failure
from gym_llm.records.record import SCHEMA_VERSION, is_early
from gym_llm.stats.run_summary import Summary
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.text import excerpt

_BASE = ("task_index", "turn", "tool_errors")
_OF_A_FAILURE = ("failure_kind", "error", "error_phase", "traceback")
_SHOWN = 60


class Change(NamedTuple):
    """An episode that comes to something else now.

    Attributes:
        line: Of the old file, from 1.
        dataset: Of the episode, as the next two.
        task_index: See there.
        repeat_index: See there.
        old: The reward; None if it was masked.
        new: The same, now.
        fields: The verifier's details that differ, by name: what they were and are.
        why: In words: those details, and what masked the episode before or does now.
    """

    line: int
    dataset: str
    task_index: int
    repeat_index: int
    old: float | None
    new: float | None
    fields: dict[str, tuple[Any, Any]]
    why: str


@dataclass
class Reverified:
    """The result of scoring a file again.

    Attributes:
        path: The file.
        output: The new file; None if none was written.
        env_id: Who scored.
        records: How many there are.
        scored: How many were scored again.
        left_masked: How many stay masked, because their episodes are not whole.
        summary: Of the records as they are now.
        changes: What differs.
        made_by: What scores now: versions, and hashes of the verifier and its arguments.
    """

    path: str
    output: str | None
    env_id: str
    records: int = 0
    scored: int = 0
    left_masked: int = 0
    summary: Summary = field(default_factory=Summary)
    changes: list[Change] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    made_by: dict[str, Any] = field(default_factory=dict)
    _rewards: int = 0
    _reward_sum: float = 0.0

    @property
    def mean_before(self) -> float:
        """The mean of the rewards that were; NaN without any."""
        return self._reward_sum / self._rewards if self._rewards else math.nan

    def count(self, record: Rollout) -> None:
        """Count a record as it was."""
        self.records += 1
        if (reward := record["reward"]) is not None:
            self._rewards += 1
            self._reward_sum += reward

    def counts(self) -> dict[str, int]:
        """Return the number of episodes that changed in each way."""
        names = ("reward_up", "reward_down", "details_only", "unmasked", "masked")
        return {name: self.kinds[name] for name in names}

    @property
    def rewards_differ(self) -> bool:
        """Whether some episode's reward has changed, appeared or disappeared."""
        return any(count for kind, count in self.kinds.items() if kind != "details_only")

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "path": self.path,
            "output": self.output,
            "env_id": self.env_id,
            "records": self.records,
            "scored": self.scored,
            "left_masked": self.left_masked,
            "mean_reward_before": None if math.isnan(self.mean_before) else self.mean_before,
            "mean_reward": self.summary.as_dict()["mean_reward"],
            **self.counts(),
            "changes": [change._asdict() for change in self.changes],
        }


def with_verdict(
    record: Rollout, score: Score | Failure | None, report: Reverified, line: int
) -> dict[str, Any] | None:
    """Note what a score changes, and make the new record; None where the old one says the same already.

    Args:
        record: As it was read. Not changed.
        score: What its episode comes to, what masks it, or None where it was not scored.
        report: Counts the change.
        line: The record's line in its file.
    """
    report.count(record)
    if score is None:
        report.left_masked += record["reward"] is None
        report.summary.add(record)
        return None
    report.scored += 1
    was: Any = record.get("info")
    made_by: Any = record.get("made_by")
    if (
        type(score) is Score
        and score.reward == record["reward"]
        and score.info == was
        and record["outcome"] == ("truncated" if score.truncated else "scored")
        and record.get("env_id") == was.get("env_id", report.env_id)
        and made_by is not None
        and report.made_by.items() <= made_by.items()
        and "turn_rewards" not in record
        and not any(score.turn_rewards[:-1])
    ):
        report.summary.add(record)
        return None
    turn_rewards = _turn_rewards(record, score)
    if isinstance(score, Failure):
        reward, truncated = None, False
        info = {name: was[name] for name in _BASE if name in was} if was else {}
        faults = dict(zip(_OF_A_FAILURE, (score.kind, score.reason, score.phase, score.traceback), strict=True))
    else:
        (reward, truncated, info, _), faults = score, dict.fromkeys(_OF_A_FAILURE)
    old = record["reward"]
    is_theirs = was is None  # NeMo Gym has the details beside the task's fields
    if is_theirs:
        was = {name: record[name] for name in info if name in record}  # type: ignore[literal-required]
    fields = {} if was == info else _differences(was, info, is_theirs)
    outcome = "masked" if reward is None else "truncated" if truncated else "scored"
    is_same = old == reward and outcome == record["outcome"]
    if not is_same or fields:
        _note(report, record, line, reward, fields, faults["error"])
    trajectory = record.get("trajectory")
    if turn_rewards != record.get("turn_rewards"):
        is_same, trajectory = False, _without_rewards(trajectory)
    is_same = is_same and not fields and record.get("env_id") == report.env_id and not is_early(record)
    if made_by is not None:
        is_same = is_same and all(made_by.get(name) == new_hash for name, new_hash in report.made_by.items())
    if is_same and reward is not None:
        report.summary.add(record)
        return None
    new: dict[str, Any] = {
        **record,
        "env_id": info.get("env_id", report.env_id),
        "outcome": outcome,
        "reward": reward,
        "terminated": reward is not None and not truncated,
        "truncated": truncated,
        **faults,
        "info": info,
        "trajectory": trajectory,
        "made_by": {**(made_by or {}), **report.made_by},
        "timing": record.get("timing", {}),
        "schema_version": SCHEMA_VERSION,
    }
    new.pop("turn_rewards", None)
    if turn_rewards is not None:
        new["turn_rewards"] = turn_rewards
    report.summary.add(new)  # type: ignore[arg-type]
    return new


def _turn_rewards(record: Rollout, score: Score | Failure) -> list[float] | None:
    """Return a record's new turn rewards; None where they have no place in a record, or are unknown."""
    if isinstance(score, Failure):
        return None
    if len(score.turn_rewards) != score.info.get("turn"):  # a turn of reasoning alone was played with the next
        return record.get("turn_rewards") if score.reward == record["reward"] else None
    return list(score.turn_rewards) if any(score.turn_rewards[:-1]) else None


def _without_rewards(trajectory: Any) -> Any:
    if trajectory is None:
        return None
    return [{name: column for name, column in segment.items() if name != "rewards"} for segment in trajectory]


def _differences(was: Mapping[str, Any], now: dict[str, Any], is_theirs: bool) -> dict[str, tuple[Any, Any]]:
    now = loads(dumps(now))  # a number of numpy's is written as a number
    names = now if is_theirs else {**was, **now}
    return {
        name: (was.get(name), now.get(name))
        for name in names
        if was.get(name) != now.get(name) and not (is_theirs and name not in was)
    }


def _note(
    report: Reverified,
    record: Rollout,
    line: int,
    new: float | None,
    fields: dict[str, tuple[Any, Any]],
    error: str | None,
) -> None:
    old, number = record["reward"], record["rollout_id"]
    reasons = [
        f"{name} {excerpt(was, _SHOWN)} -> {excerpt(now, _SHOWN)}"
        for name, (was, now) in fields.items()
        if name != "judge_evaluations" or len(fields) == 1  # requests and responses: what they say is beside them
    ]
    if old is None:
        reasons.insert(0, f"was masked: {record.get('error')}")
    if error:
        reasons.append(f"is masked: {error}")
    report.changes.append(
        Change(
            line,
            record.get("dataset", ""),
            number["task_index"],
            number["repeat_index"],
            old,
            new,
            fields,
            "; ".join(reasons) or "no detail differs",
        )
    )
    if old is None or new is None:
        kind = "masked" if new is None and old is not None else "unmasked" if new is not None else "details_only"
    else:
        kind = "reward_up" if new > old else "reward_down" if new < old else "details_only"
    report.kinds[kind] += 1
