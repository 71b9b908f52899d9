"""The headline figure of a benchmark, and its interval."""

from __future__ import annotations

import math

import pytest

from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.evaluation.headlines import headline
from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.figures import evaluate_scores

MACRO = Benchmark(
    name="own",
    title="own",
    domain="math",
    sources=(Source("a/b"),),
    convert=lambda row: dict(row),
    headline="macro:subject",
)


def score(index: int, subject: str, reward: float) -> EpisodeScore:
    return EpisodeScore("own", "own", "m", index, 0, "scored", reward, groups={"subject": subject})


def figure(rewards: dict[str, list[float]]) -> dict[str, float | list[float]]:
    pairs = [(subject, reward) for subject, each in rewards.items() for reward in each]
    scores = [score(index, subject, reward) for index, (subject, reward) in enumerate(pairs)]
    found = headline(MACRO, scores, evaluate_scores(scores, resamples=0))
    assert found is not None
    return found


def test_groups_weigh_the_same() -> None:
    found = figure({"algebra": [1.0] * 9 + [0.0], "botany": [0.0, 1.0]})
    assert found["value"] == pytest.approx((0.9 + 0.5) / 2)


def test_groups_of_one_task_have_an_interval() -> None:
    found = figure({subject: [reward] for subject, reward in zip("abcd", (0.0, 1.0, 0.0, 1.0), strict=True)})
    assert found["value"] == 0.5 and found["standard_error"] == pytest.approx(math.sqrt(1 / 3) / 2)
    mixed = figure({"a": [0.0, 1.0, 1.0, 0.0], "b": [1.0]})
    alone = figure({"a": [0.0, 1.0, 1.0, 0.0]})
    assert mixed["standard_error"] > alone["standard_error"] / 2  # type: ignore[operator]


def test_nothing_that_varies_still_has_an_interval() -> None:
    low, high = figure({"a": [1.0, 1.0], "b": [1.0, 1.0]})["interval"]  # type: ignore[misc]
    assert low < 0.8 and high == 1.0
