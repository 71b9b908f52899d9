"""Figures over many verdicts: masked ones are in none of them."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from gym_llm.core.rewards import Metric
from gym_llm.serve.episode_session import BadRequest
from gym_llm.serve.nemo.aggregates import MOST_REPEATS, aggregate


def verdict(task: int, repeat: int, reward: float, **fields: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": repeat, "reward": reward, **fields}


def figures(*verdicts: Any, **declared: Metric) -> dict[str, Any]:
    return aggregate({"verify_responses": list(verdicts)}, "test/Any-v0", declared)


REWARDS = {(0, 0): 1.0, (0, 1): 0.0, (1, 0): 1.0, (1, 1): 1.0}
ALL = [verdict(task, repeat, reward, turn=1 + task) for (task, repeat), reward in REWARDS.items()]


def test_means_and_pass_at_k_have_nemo_gyms_names():
    result = figures(*ALL)
    metrics = result["agent_metrics"]
    assert metrics["mean/reward"] == 0.75
    assert (metrics["max/reward"], metrics["min/reward"], metrics["median/reward"]) == (1.0, 0.0, 1.0)
    assert metrics["std/reward"] == pytest.approx(statistics.stdev(REWARDS.values()))
    assert metrics["mean/turn"] == 1.5
    assert (metrics["pass@1/accuracy"], metrics["pass@2/accuracy"], metrics["pass@1[avg-of-2]/accuracy"]) == (
        75,
        100,
        75,
    )
    assert metrics["num_repeats"] == 2
    assert result["key_metrics"] == {name: metrics[name] for name in metrics if name.startswith("mean/")}


def test_tasks_and_repeats_have_their_own():
    result = figures(*ALL)
    groups = {group["_ng_task_index"]: group for group in result["group_level_metrics"]}
    assert (groups[0]["mean/reward"], groups[1]["mean/reward"], groups[0]["num_rollouts"]) == (0.5, 1.0, 2)
    assert [info["reward"] for info in groups[0]["rollout_infos"]] == [1.0, 0.0]
    repeats = {repeat["_ng_rollout_index"]: repeat for repeat in result["repeat_level_metrics"]}
    assert (repeats[0]["mean/reward"], repeats[1]["mean/reward"]) == (1.0, 0.5)
    assert (repeats[0]["sample_count"], repeats[0]["missing_count"]) == (2, 0)
    assert result["agent_metrics"]["mean_across_repeats/mean/reward"] == 0.75


def test_masked_verdicts_are_counted_as_coverage_and_nowhere_else():
    masked = verdict(2, 0, 0.0, mask_sample=True, failure_kind="judge_failed", turn=50)
    with_masked, without = figures(*ALL, masked), figures(*ALL)
    coverage = {
        "coverage/measured_rollouts": 4,
        "coverage/masked_rollouts": 1,
        "coverage/measured_tasks": 2,
        "coverage/fully_masked_tasks": 1,
    }
    assert with_masked["agent_metrics"] == without["agent_metrics"] | coverage
    assert with_masked["group_level_metrics"] == without["group_level_metrics"]
    assert "mean/mask_sample" not in with_masked["agent_metrics"]
    alone = figures(masked)
    assert alone["agent_metrics"] == alone["key_metrics"]
    assert alone["agent_metrics"]["coverage/masked_rollouts"] == 1
    assert "mean/reward" not in alone["agent_metrics"]


def test_usage_and_declared_metrics_are_columns_too():
    usage = {"usage": {"input_tokens": 10, "total_tokens": 30}}
    result = figures(verdict(0, 0, 1.0, response=usage, words=7), words=Metric("sum"))
    assert result["agent_metrics"]["mean/total_tokens"] == 30
    assert result["agent_metrics"]["sum/words"] == 7


def test_numbers_without_end_are_left_out():
    result = figures(verdict(0, 0, 1e308), verdict(0, 1, 1e308))
    result |= figures(verdict(0, 0, 1.0, words=10**400))
    assert all(math.isfinite(value) for value in result["agent_metrics"].values())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"verify_responses": {}},
        {"verify_responses": [1]},
        {"verify_responses": [{"reward": "1"}]},
        {"verify_responses": [{"reward": True}]},
        {"verify_responses": [{"reward": 10**400}]},
        {"verify_responses": [{}]},
        {"verify_responses": [{"reward": 1.0, "_ng_task_index": "0"}]},
        {"verify_responses": [verdict(0, n, 1.0) for n in range(MOST_REPEATS + 1)]},
    ],
)
def test_what_are_no_verdicts_is_refused(body):
    with pytest.raises(BadRequest):
        aggregate(body, "test/Any-v0", {})


def test_of_nothing_nothing_is_said():
    assert figures() == {
        "group_level_metrics": [],
        "agent_metrics": {},
        "key_metrics": {},
        "repeat_level_metrics": [],
    }
