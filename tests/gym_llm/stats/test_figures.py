"""What a set of episodes says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gym_llm.core.rewards import Metric
from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.figures import declared_metrics, evaluate_groups, evaluate_scores
from gym_llm.stats.run_summary import Summary


def score(task: int, repeat: int, reward: float | None, **fields: Any) -> EpisodeScore:
    outcome = "masked" if reward is None else "scored"
    return EpisodeScore(
        "", "e", fields.pop("model", "m"), task, repeat, fields.pop("outcome", outcome), reward, **fields
    )


def grid(*rewards: Sequence[float | None], **fields: Any) -> list[EpisodeScore]:
    return [score(task, n, reward, **fields) for task, row in enumerate(rewards) for n, reward in enumerate(row)]


def test_figures_agree_with_the_summary_of_the_run() -> None:
    rewards = [[1.0, 0.0, 1.0], [0.5, None, 0.25], [0.0, 0.0, 1.0], [1.0]]
    summary = Summary(repeats=3)
    for each in (scores := grid(*rewards)):
        ids = {"task_index": each.task_index, "repeat_index": each.repeat_index}
        summary.add({"rollout_id": ids, "reward": each.reward})  # type: ignore[typeddict-item]
    figures = evaluate_scores(scores)
    assert figures["mean_reward"]["value"] == pytest.approx(summary.mean_reward, abs=1e-12)
    assert figures["mean_reward"]["standard_error"] == pytest.approx(summary.standard_error, abs=1e-12)
    assert {int(k): v["value"] for k, v in figures["pass_at"].items()} == pytest.approx({**summary.pass_at(), 2: 5 / 9})
    assert (figures["episodes"], figures["coverage"]) == (10, 0.9)


def test_every_k_is_over_the_tasks_that_have_as_many_rewards() -> None:
    figures = evaluate_scores(grid([1.0, 0.0], [1.0, None], [0.0, 0.0]))
    assert {k: figure["tasks"] for k, figure in figures["pass_at"].items()} == {"1": 3, "2": 2}
    assert figures["pass_at"]["2"]["value"] == 0.5
    assert figures["pass_all"]["2"]["value"] == 0.0


def test_a_masked_episode_is_in_no_figure_but_the_counts_and_the_cost() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 500_000, "turns": 1, "tool_errors": 1}
    with_masked = [*grid([1.0], [0.0], turns=1), score(2, 0, None, failure_kind="judge_failed", **usage)]
    figures = evaluate_scores(with_masked, prices={"m": {"input": 2.0, "output": 4.0}})
    without = evaluate_scores(grid([1.0], [0.0], turns=1))
    assert figures["mean_reward"] == without["mean_reward"]
    assert figures["turns_per_episode"] == 1.0 and figures["tool_error_share"] == 0.0
    assert (figures["masked_share"], figures["failure_kinds"]) == (pytest.approx(1 / 3), {"judge_failed": 1})
    assert figures["cost"] == {"total": 4.0, "per_episode": pytest.approx(4 / 3), "per_solved": 4.0, "unpriced": []}


def test_shares_stand_beside_the_figures() -> None:
    scores = [
        score(0, 0, 0.0, outcome="truncated"),
        score(0, 1, 1.0, tool_errors=3),
        score(1, 0, 1.0),
        score(1, 1, 1.0),
    ]
    figures = evaluate_scores(scores)
    assert (figures["truncated_share"], figures["tool_error_share"], figures["tool_errors"]) == (0.25, 0.25, 3)


def test_a_model_without_a_price_makes_the_cost_unknown() -> None:
    cached = grid([1.0], input_tokens=1_000_000, output_tokens=0, cached_tokens=900_000)
    cost = evaluate_scores(cached, prices={"m": {"input": 2.0, "output": 4.0, "cached_input": 0.2}})["cost"]
    assert cost["total"] == pytest.approx(0.2 + 0.18)
    cost = evaluate_scores(grid([1.0], input_tokens=5), prices={"other": {"input": 1, "output": 1}})["cost"]
    assert cost["total"] is None and cost["unpriced"] == ["m"]
    with pytest.raises(ValueError, match="dollars per million tokens"):
        evaluate_scores(grid([1.0], input_tokens=5), prices={"m": {"input": 1}})


def test_best_of_k_takes_the_most_probable_answer_in_sum_and_per_token() -> None:
    scores = [
        score(0, 0, 1.0, log_prob=-10.0, sampled_tokens=100),  # the longer one: less probable in sum, not per token
        score(0, 1, 0.0, log_prob=-2.0, sampled_tokens=2),
    ]
    figures = evaluate_scores(scores)
    assert figures["best_of"]["2"]["value"] == 0.0
    assert figures["best_of_per_token"]["2"]["value"] == 1.0


def test_majority_needs_answers() -> None:
    assert "majority_at" not in evaluate_scores(grid([1.0, 0.0]))
    scores = [score(0, n, float(answer == "4"), answer=answer) for n, answer in enumerate(["4", "5", "4"])]
    assert evaluate_scores(scores)["majority_at"]["3"]["value"] == 1.0


def test_the_error_of_the_mean_of_k_falls_with_k_to_that_of_the_tasks() -> None:
    rng = np.random.default_rng(0)
    rewards = rng.binomial(1, rng.beta(1, 1, size=(50, 1)), size=(50, 8)).astype(float)
    at = evaluate_scores(grid(*rewards.tolist()), resamples=0)["mean_at"]
    errors = [figure["standard_error"] for figure in at.values()]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == pytest.approx(stats.sem(rewards.mean(axis=1)), abs=1e-12)


def test_one_tasks_episodes_are_taken_as_independent() -> None:
    mean = evaluate_scores(grid([0.2, 0.4, 0.9]))["mean_reward"]
    assert mean["standard_error"] == pytest.approx(stats.sem([0.2, 0.4, 0.9]), abs=1e-12)
    assert mean["tasks"] == 1


def test_a_verifiers_own_metrics_are_reported_as_it_declares_them() -> None:
    scores = [score(task, 0, 1.0, info={"loss": float(task), "timed_out": float(task > 2)}) for task in range(4)]
    declared = {
        "loss": Metric(higher_is_better=False),
        "worst": Metric("max", higher_is_better=False, field="loss"),
        "timed_out": Metric("rate", higher_is_better=False),
        "middle": Metric("median", field="loss"),
        "all": Metric("sum", higher_is_better=None, field="reward"),
        "unknown": Metric(),
    }
    figures = evaluate_scores(scores, declared=declared)["declared"]
    assert {name: figure["value"] for name, figure in figures.items()} == {
        "loss": 1.5, "worst": 3.0, "timed_out": 0.25, "middle": 1.5, "all": 4.0, "unknown": None
    }  # fmt: skip
    assert figures["loss"]["standard_error"] == pytest.approx(stats.sem(range(4)))
    assert (figures["loss"]["aggregate"], figures["loss"]["higher_is_better"]) == ("mean", False)
    assert figures["timed_out"]["interval"][0] > 0


def test_a_metric_names_an_aggregate_that_there_is() -> None:
    with pytest.raises(ValueError, match="Did you mean median"):
        Metric("medain")  # type: ignore[arg-type]


def test_a_verifiers_metrics_are_found_by_its_id() -> None:
    assert declared_metrics("gym_llm/Arithmetic-v0") == {}
    assert declared_metrics("nobody/Knows-v9") == {}


def test_groups_are_evaluated_apart() -> None:
    scores = [score(n, 0, float(n % 2), groups={"level": "easy" if n < 4 else "hard"}) for n in range(6)]
    groups = evaluate_groups(scores, ["level"], resamples=0)
    assert {value: figures["episodes"] for value, figures in groups["level"].items()} == {"easy": 4, "hard": 2}


def test_nemo_gyms_names_stand_alongside() -> None:
    names = evaluate_scores(grid([1.0, 0.0], [1.0, 1.0]))["nemo_gym"]
    assert (names["mean/reward"], names["pass@1[avg-of-2]/accuracy"], names["pass@2/accuracy"]) == (0.75, 75.0, 100.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scores", [[], [score(0, 0, None)], grid([1e308], [1e308], [-1e308]), grid([1.0])])
def test_whatever_was_played_is_json(scores: list[EpisodeScore]) -> None:
    figures = evaluate_scores(scores, declared={"x": Metric()})
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_rewards_that_are_hardly_more_than_nothing_have_an_interval() -> None:
    figures = evaluate_scores(grid([1e-160], *[[0.0]] * 999), resamples=10)
    low, high = figures["mean_reward"]["interval"]
    assert 0.0 <= low < 1e-15 < high < 0.01


def test_numbers_as_large_as_floats_end_nothing() -> None:
    scores = grid([1e308, 1e308], [1e308, 1e308], log_prob=-1.0, seconds=10**400)
    figures = evaluate_scores(scores, resamples=10)
    assert figures["seconds_per_episode"] is None
    assert figures["best_of"]["2"]["tasks"] == 2
