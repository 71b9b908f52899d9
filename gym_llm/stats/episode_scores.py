"""Episodes for statistics: one small row for each record of a rollout file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym_llm.errors import DataError, UsageError
from gym_llm.records.record_files import read_records
from gym_llm.types import Rollout, cached_tokens_of
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.text import did_you_mean

NO_GROUP = "(none)"
"""The group of the episodes that do not have the field."""

_LONGEST = 200  # characters of a text field that is kept


@dataclass(slots=True, frozen=True)
class EpisodeScore:
    """A record without its items.

    Attributes:
        dataset: The dataset's name in a configuration; else "".
        env_id: The environment.
        model: The model of the last response; "" without a response.
        task_index: The task's index in `dataset`.
        repeat_index: The repeat of the task.
        outcome: `scored`, `truncated` or `masked`.
        reward: The reward; None if the episode is masked.
        failure_kind: The reason why the episode is masked.
        answer: The answer that the verifier extracted (`info["extracted_answer"]`), as JSON if it is not a text; None
            without one.
        log_prob: Natural log of the probability of all sampled tokens; None where the engine reports none.
        turns: Model turns.
        tool_errors: Tool calls that did not succeed.
        input_tokens: Given to the model over all turns, where the engine reports them.
        output_tokens: Generated.
        seconds: From reset to the end.
        info: The numbers (true is 1.0) and short texts of its info and reward components.
        groups: The values of the fields asked for, as texts.
        sampled_tokens: Those that `log_prob` is the sum over.
        cached_tokens: Of the input tokens, those that the server had in its cache, where it says so.
    """

    dataset: str
    env_id: str
    model: str
    task_index: int
    repeat_index: int
    outcome: str
    reward: float | None
    failure_kind: str | None = None
    answer: str | None = None
    log_prob: float | None = None
    turns: int = 0
    tool_errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    info: dict[str, float | str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    sampled_tokens: int = 0
    cached_tokens: int = 0

    @property
    def task(self) -> tuple[str, int]:
        """The key of the task within a run."""
        return self.dataset, self.task_index


def score_of(record: Rollout, by: Sequence[str] = ()) -> EpisodeScore:
    """Return the row of statistics of a record.

    Args:
        record: As it is read, or made.
        by: Fields to group by: of the record or its task (`level`, `metadata.level`), else of its info.

    Returns:
        Its row; a field that the record does not have puts it into the group `(none)`.
    """
    info = record.get("info") or {}
    response: Mapping[str, Any] = record.get("response") or {}
    usage = response.get("usage") or {}
    log_prob, sampled_tokens = _log_prob(record.get("trajectory"))
    ids = record["rollout_id"]
    seconds = (record.get("timing") or {}).get("total", 0.0)
    return EpisodeScore(
        dataset=record.get("dataset", ""),
        env_id=record.get("env_id", ""),
        model=str(response.get("model") or ""),
        task_index=ids["task_index"],
        repeat_index=ids["repeat_index"],
        outcome=record["outcome"],
        reward=record["reward"],
        failure_kind=record.get("failure_kind"),
        answer=None if (answer := info.get("extracted_answer")) is None else _text(answer),
        log_prob=log_prob,
        turns=info.get("turn", 0),
        tool_errors=info.get("tool_errors", 0),
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        seconds=seconds,
        info=_short({**(_dict(info.get("reward_components"))), **info}),
        groups={name: NO_GROUP if (value := _look_up(record, name)) is None else _text(value) for name in by},
        sampled_tokens=sampled_tokens,
        cached_tokens=cached_tokens_of(usage),
    )


def read_scores(
    path: str | os.PathLike[str], by: Sequence[str] = (), *, on_bytes: Callable[[int], None] | None = None
) -> list[EpisodeScore]:
    """The rows of a rollout file, or of all those of an evaluation's folder.

    Args:
        path: The file, or the folder: the files in its `records/`, or its own `*.jsonl`.
        by: Fields to group by; see `score_of`.
        on_bytes: Called with the size of each line that was read.

    Raises:
        DataError: If a file cannot be read or is missing, or a line is not a rollout.
        UsageError: If no record has a field to group by.
    """
    scores: list[EpisodeScore] = []
    fields: set[str] = set()
    for file in rollout_files(path):
        for line, record in read_records(file):
            if not scores:
                fields.update(record, record.get("task_fields", {}), record.get("info", {}))
            scores.append(score_of(record, by))
            if on_bytes is not None:
                on_bytes(len(line))
    for name in by:
        if scores and all(score.groups[name] == NO_GROUP for score in scores):
            hint = did_you_mean(name, fields) or f" There are {', '.join(sorted(fields))}."
            raise UsageError(f"No record of {path} has the field {name!r} to group by.{hint}")
    return scores


def rollout_files(path: str | os.PathLike[str]) -> list[Path]:
    """The rollout files that a path means: itself, or those in a folder; a DataError without any."""
    path = Path(path)
    if not path.is_dir():
        return [path]
    folder = path / "records" if (path / "records").is_dir() else path
    if not (files := sorted(folder.glob("*.jsonl"))):
        raise DataError(f"{path} has no rollout files: expected *.jsonl in it, or in its folder `records`.")
    return files


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value).decode(errors="replace").strip()


def _short(fields: Mapping[str, Any]) -> dict[str, float | str]:
    short: dict[str, float | str] = {}
    for name, value in fields.items():
        if isinstance(value, str):
            if len(value) <= _LONGEST:
                short[name] = value
        elif isinstance(value, (bool, int, float)):
            try:
                number = float(value)
            except OverflowError:
                continue
            if math.isfinite(number):
                short[name] = number
    return short


def _look_up(record: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a record, of the task's fields that it keeps apart, or of its info."""
    for place in (record, record.get("task_fields"), record.get("info")):
        value: Any = place
        # a field whose own name has dots comes before what its parts would lead to
        for name in [path] if isinstance(place, dict) and path in place else path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _log_prob(trajectory: Any) -> tuple[float | None, int]:
    """The sum of the sampled tokens' log probabilities, and how many they are."""
    terms: list[float] = []
    for segment in trajectory or ():
        mask, log_probs = segment.get("loss_mask"), segment.get("logprobs")
        if not (isinstance(mask, list) and isinstance(log_probs, list)):
            return None, 0
        terms += [value for is_sampled, value in zip(mask, log_probs, strict=False) if is_sampled]
    try:
        total = math.fsum(terms)
    except (TypeError, ValueError, OverflowError):  # a null among them
        return None, 0
    return (total, len(terms)) if terms and math.isfinite(total) else (None, 0)
