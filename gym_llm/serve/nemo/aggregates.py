"""Aggregates over many answers of /verify, under NeMo Gym's names.

As in NeMo Gym, every number and boolean of an answer is a column, and so are those of the response's `usage`. Masked
episodes count only in the coverage figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from gym_llm.core.rewards import Metric
from gym_llm.serve.episode_session import BadRequest
from gym_llm.stats.descriptive import SAMPLE_STATISTICS, STATISTICS, describe_columns
from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.figures import evaluate_scores

TASK, REPEAT = "_ng_task_index", "_ng_rollout_index"
MOST_REPEATS = 1_000
"""Answers to one task that are taken: pass@k is worked out for every k up to their number."""

_Numbers: TypeAlias = dict[str, float]
_Row: TypeAlias = Mapping[str, Any]


def aggregate(body: Mapping[str, Any], env_id: str, declared: Mapping[str, Metric]) -> dict[str, Any]:
    """Return NeMo Gym's `AggregateMetrics`.

    Args:
        body: `{"verify_responses": [...]}`: answers of /verify, each with its `_ng_task_index` and
            `_ng_rollout_index`.
        env_id: The environment's id.
        declared: The verifier's own metrics.

    Returns:
        `agent_metrics` (over all), `group_level_metrics` (by task), `repeat_level_metrics` (by `_ng_rollout_index`,
        if there are several) and `key_metrics`. `accuracy` is the share of rewards of 1 or more, in percent.

    Raises:
        BadRequest: If the body has anything else.
    """
    rows = _read(body)
    scored = [row for row in rows if not row.get("mask_sample")]
    coverage = _coverage(rows, scored)
    if not scored:
        return {**_EMPTY, "agent_metrics": coverage, "key_metrics": coverage}
    numbers = [_numbers(row) for row in scored]
    by_task: dict[int, list[int]] = defaultdict(list)
    for position, row in enumerate(scored):
        by_task[row[TASK]].append(position)
    metrics = describe_columns(numbers, STATISTICS)
    repeats = _repeats(scored, numbers, len(by_task))
    metrics |= _across_repeats(repeats)
    metrics |= coverage
    metrics |= _of_evaluation(rows, env_id, declared)
    metrics["num_repeats"] = len({row[REPEAT] for row in rows})
    best = {name: value for name, value in metrics.items() if name.startswith("mean/")}
    return {
        "group_level_metrics": [
            _group(task, [(scored[n], numbers[n]) for n in by_task[task]]) for task in sorted(by_task)
        ],
        "agent_metrics": metrics,
        "key_metrics": {**best, **coverage},
        "repeat_level_metrics": repeats,
    }


_EMPTY: dict[str, Any] = {
    "group_level_metrics": [],
    "agent_metrics": {},
    "key_metrics": {},
    "repeat_level_metrics": [],
}


def _read(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = body.get("verify_responses")
    if not isinstance(rows, list):
        raise BadRequest('The body is {"verify_responses": [...]}, a list of answers of /verify.')
    counts: dict[int, int] = defaultdict(int)
    read = []
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadRequest(f"Answer {number} is a JSON object, got {type(row).__name__}.")
        row = {TASK: 0, REPEAT: 0, **row}
        if type(row[TASK]) is not int or type(row[REPEAT]) is not int:
            raise BadRequest(f"Answer {number}: {TASK} and {REPEAT} are whole numbers.")
        reward = row.get("reward")
        if not row.get("mask_sample") and (isinstance(reward, bool) or _number(reward) is None):
            raise BadRequest(f"Answer {number} has no `reward`, a number.")
        counts[row[TASK]] += 1
        if counts[row[TASK]] > MOST_REPEATS:
            raise BadRequest(f"Task {row[TASK]} has more than {MOST_REPEATS:,} answers, which is the limit.")
        read.append(row)
    return read


def _numbers(row: _Row) -> _Numbers:
    usage = (response.get("usage") if isinstance(response := row.get("response"), dict) else None) or {}
    found = {}
    for name, value in [*row.items(), *(usage.items() if isinstance(usage, dict) else ())]:
        if not name.startswith("_") and name != "mask_sample" and (number := _number(value)) is not None:
            found[name] = number
    return found


def _number(value: Any) -> float | None:
    if not isinstance(value, (bool, int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer of 400 digits
        return None


def _group(task: int, scored: list[tuple[_Row, _Numbers]]) -> dict[str, Any]:
    infos = [
        {"rollout_id": f"{task}:{row[REPEAT]}", TASK: task, REPEAT: row[REPEAT], **numbers} for row, numbers in scored
    ]
    return {
        TASK: task,
        **describe_columns([numbers for _, numbers in scored], STATISTICS),
        "num_rollouts": len(scored),
        "expected_num_rollouts": len(scored),  # here are those that were played
        "missing_num_rollouts": 0,
        "reward_profile_completion_pct": 100.0,
        "rollout_infos": sorted(infos, key=lambda info: info[REPEAT]),
    }


def _repeats(scored: list[dict[str, Any]], numbers: list[_Numbers], tasks: int) -> list[dict[str, Any]]:
    by_repeat: dict[int, list[int]] = defaultdict(list)
    for position, row in enumerate(scored):
        by_repeat[row[REPEAT]].append(position)
    if len(by_repeat) < 2:
        return []
    described = []
    for repeat in sorted(by_repeat):
        present = len({scored[n][TASK] for n in by_repeat[repeat]})
        figures = describe_columns([numbers[n] for n in by_repeat[repeat]], SAMPLE_STATISTICS)
        described.append({REPEAT: repeat, "sample_count": present, "missing_count": tasks - present, **figures})
    return described


def _across_repeats(repeats: Iterable[_Row]) -> dict[str, Any]:
    means = [{name: row[name] for name in row if name.startswith("mean/")} for row in repeats]
    names = {**STATISTICS, "se": SAMPLE_STATISTICS["sem"]}
    names |= {name: SAMPLE_STATISTICS[name] for name in ("ci_low_95", "ci_high_95")}
    return describe_columns(means, {f"{name}_across_repeats": function for name, function in names.items()})


def _coverage(rows: Sequence[_Row], scored: Sequence[_Row]) -> dict[str, Any]:
    if len(rows) == len(scored):
        return {}
    measured = {row[TASK] for row in scored}
    return {
        "coverage/measured_rollouts": len(scored),
        "coverage/masked_rollouts": len(rows) - len(scored),
        "coverage/measured_tasks": len(measured),
        "coverage/fully_masked_tasks": len({row[TASK] for row in rows} - measured),
    }


def _of_evaluation(rows: Sequence[_Row], env_id: str, declared: Mapping[str, Metric]) -> dict[str, Any]:
    """Return the figures that `gym-llm eval` has under NeMo Gym's names."""
    figures = evaluate_scores([_score(row, env_id) for row in rows], declared=declared, resamples=0)["nemo_gym"]
    return {name: value for name, value in figures.items() if isinstance(value, float) and not name.endswith("/reward")}


def _score(row: _Row, env_id: str) -> EpisodeScore:
    is_masked = bool(row.get("mask_sample"))
    answer = row.get("extracted_answer")
    outcome = "masked" if is_masked else "truncated" if row.get("truncated") is True else "scored"
    return EpisodeScore(
        dataset="",
        env_id=env_id,
        model="",
        task_index=row[TASK],
        repeat_index=row[REPEAT],
        outcome=outcome,
        reward=None if is_masked else _number(row["reward"]),
        failure_kind=kind if isinstance(kind := row.get("failure_kind"), str) else None,
        answer=answer if isinstance(answer, str) else None,
        info={name: number for name, value in row.items() if (number := _number(value)) is not None},
    )
