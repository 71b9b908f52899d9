"""Tasks chosen by how a run went: by pass rate, variance, length and faults; what is left is a task file."""

from __future__ import annotations

import functools
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from gym_llm.core.registry.env_files import env_spec
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.files.atomic import replacing
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.stored_runs import check_output, of_one_dataset, records_of, run_settings
from gym_llm.rollouts.recorded_task import row_of
from gym_llm.stats.run_summary import PASS_THRESHOLD
from gym_llm.types import Rollout, Row
from gym_llm.utils.json_codec import dumps

MEASURED = ("pass_rate", "episodes")
"""The fields that a chosen row has more than the row that was played."""

_PARAMS: Final = "responses_create_params"


@dataclass(frozen=True, kw_only=True)
class TaskRules:
    """Which tasks stay.

    Args:
        lowest: The least pass rate, [0, 1].
        highest: The greatest.
        drop_zero_variance: Whether to drop tasks of which all rewards are equal (a single one is), which teach a group
            nothing.
        min_tokens: The least number of tokens that the model generated in an episode, on average.
        max_tokens: The greatest.
        drop_masked: Whether to drop tasks of which an episode was masked, whyever.
        drop_errors: The same for these kinds of failures only (`gym_llm.types.FailureKind`).
        pass_threshold: The reward from which on an episode counts as passed.

    Raises:
        UsageError: If a range is empty.
    """

    lowest: float = 0.0
    highest: float = 1.0
    drop_zero_variance: bool = False
    min_tokens: float | None = None
    max_tokens: float | None = None
    drop_masked: bool = False
    drop_errors: frozenset[str] = frozenset()
    pass_threshold: float = PASS_THRESHOLD

    def __post_init__(self) -> None:
        if not 0 <= self.lowest <= self.highest <= 1:
            raise UsageError(f"The pass rates go from 0 to 1, the lowest first; got {self.lowest} to {self.highest}.")
        if self.min_tokens is not None and self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise UsageError(f"No length is between {self.min_tokens:g} and {self.max_tokens:g} tokens.")

    @property
    def needs_tokens(self) -> bool:
        """Whether the episodes' lengths matter."""
        return self.min_tokens is not None or self.max_tokens is not None

    def reason_to_drop(self, task: PlayedTask) -> str:
        """Why a task does not stay, "" if it does; the first reason there is."""
        if self.drop_masked and task.failures:
            return "an episode was masked"
        if kinds := self.drop_errors & task.failures.keys():
            return f"an episode failed: {min(kinds)}"
        if not task.rewards:
            return "no episode has a reward"
        if self.min_tokens is not None and task.mean_tokens < self.min_tokens:
            return f"fewer than {self.min_tokens:g} tokens"
        if self.max_tokens is not None and task.mean_tokens > self.max_tokens:
            return f"more than {self.max_tokens:g} tokens"
        rate = task.pass_rate(self.pass_threshold)
        if rate < self.lowest:
            return f"pass rate below {self.lowest:g}"
        if rate > self.highest:
            return f"pass rate above {self.highest:g}"
        if self.drop_zero_variance and min(task.rewards) == max(task.rewards):
            return "zero variance"
        return ""


@dataclass(slots=True)
class PlayedTask:
    """A task, and how its episodes went.

    Attributes:
        index: Its number in its source.
        row: As it is played again; None while only episodes are known that never began.
        rewards: Of the episodes that have one.
        tokens: What the model generated in these, all together.
        failures: The kinds of failures of the others.
    """

    index: int
    row: Row | None = None
    rewards: list[float] = field(default_factory=list)
    tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def pass_rate(self, threshold: float) -> float:
        """The share of its rewards that reach the threshold; it has some."""
        return sum(reward >= threshold for reward in self.rewards) / len(self.rewards)

    @property
    def mean_tokens(self) -> float:
        """Tokens generated in an episode, on average; it has some with a reward."""
        return self.tokens / len(self.rewards)


@dataclass(frozen=True)
class Filtered:
    """The outcome.

    Attributes:
        rows: The tasks that stay, in the order of their numbers.
        tasks: How many there were.
        dropped: How many did not stay, by reason.
    """

    rows: list[Row]
    tasks: int
    dropped: Counter[str]

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {"tasks": self.tasks, "kept": len(self.rows), "dropped": dict(self.dropped.most_common())}


def filter_tasks(
    path: str | os.PathLike[str],
    rules: TaskRules | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    on_read: Callable[[int], None] | None = None,
) -> Filtered:
    """Write the tasks of a rollout file that pass the rules, as rows that can be played again.

    A row is that of the rollout without the run's own sampling fields and the environment's own tools. The summary
    beside the file lists the sampling fields. A row has two more fields: `episodes`, the number of rewards, and
    `pass_rate`.

    Args:
        path: The rollout file, also of NeMo Gym, and compressed.
        rules: Rules for the tasks to keep; None for all that have a reward.
        output: The new task file.
        dataset: The dataset, if the file has several.
        on_read: Called with the size in bytes of each line.

    Raises:
        DataError: If the file cannot be read, the output exists, or a task already has one of the new fields.
        UsageError: If the file has several datasets and none is named, or lengths are needed that were not recorded.
    """
    rules = rules or TaskRules()
    if output is not None:
        check_output(output)
    settings = run_settings(path, dataset or "")
    records = of_one_dataset(records_of(path, on_read), path, dataset)
    tasks = _played_tasks(records, settings["sampling"], path, rules.needs_tokens)
    rows, dropped = [], Counter[str]()
    for task in tasks:
        if reason := rules.reason_to_drop(task):
            dropped[reason] += 1
        elif task.row is None:
            dropped["its records have no request"] += 1
        else:
            rate = task.pass_rate(rules.pass_threshold)
            rows.append(task.row | dict(zip(MEASURED, (rate, len(task.rewards)), strict=True)))
    if output is not None:
        with replacing(output) as file:
            file.writelines(map(dumps, rows))
    return Filtered(rows, len(tasks), dropped)


def _played_tasks(
    records: Iterable[Rollout], sampling: dict[str, Any], path: object, needs_tokens: bool
) -> list[PlayedTask]:
    """The tasks of some records, by number. Files that were joined may have several tasks of one number."""
    tasks: dict[tuple[int, bytes | None], PlayedTask] = {}
    for record in records:
        index = record["rollout_id"]["task_index"]
        asked = record[_PARAMS]["input"] if _PARAMS in record else None
        key = index, None if asked is None else hashlib.sha256(dumps(asked)).digest()
        task = tasks.setdefault(key, PlayedTask(index))
        if task.row is None and asked is not None:
            task.row = _row(record, sampling, path)
        if (reward := record["reward"]) is None:
            task.failures[record.get("failure_kind") or "verifier_error"] += 1
            continue
        task.rewards.append(reward)
        if needs_tokens:
            usage: Any = record.get("response", {}).get("usage")
            if not usage or usage.get("output_tokens") is None:
                raise UsageError(f"{path} does not say how many tokens were generated (`usage`), of task {index}.")
            task.tokens += usage["output_tokens"]
    for (index, digest), task in [*tasks.items()]:
        if digest is None and (home := next((one for key, one in tasks.items() if key[0] == index and key[1]), None)):
            home.failures += task.failures
            del tasks[index, digest]
    return sorted(tasks.values(), key=lambda task: task.index)


def _row(record: Rollout, sampling: dict[str, Any], path: object) -> Row:
    row = row_of(record)
    if len(row.keys() & set(MEASURED)) == 1:
        index = record["rollout_id"]["task_index"]
        raise DataError(
            f"{path}: task {index} already has the field {' or '.join(row.keys() & set(MEASURED))}: rename it in the "
            "task file."
        )
    own_tools = _tools_of(record.get("env_id", ""))
    row[_PARAMS] = {
        name: value
        for name, value in row[_PARAMS].items()
        if name not in sampling and not (name == "tools" and value == own_tools)
    }
    return row


@functools.cache
def _tools_of(env_id: str) -> list[dict[str, Any]] | None:
    """The tools that an environment offers where a row names none; None where that cannot be told."""
    try:
        creator: Any = load_env_creator(env_spec(env_id).entry_point)  # type: ignore[arg-type]
    except (gym.error.Error, ImportError, UsageError, AttributeError, TypeError):
        return None
    return creator.tool_schemas() if isinstance(creator, type) and issubclass(creator, VerifierEnv) else None
