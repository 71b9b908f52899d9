"""Importance weights of tokens and rows, beside a plain computation with PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gym_llm.trainers.shared.importance import importance

RANDOM = np.random.default_rng(0)
TRAINER, SAMPLER = RANDOM.normal(-1, 1, (6, 9)), RANDOM.normal(-1, 1, (6, 9))
MASK = (RANDOM.random((6, 9)) < 0.7).astype(int)
MASK[5] = 0


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize(("bound", "lowest"), [("truncate", None), ("mask", None), ("mask", 0.4)])
def test_each_weight_is_the_bounded_ratio(level: Any, bound: Any, lowest: float | None) -> None:
    found = importance(TRAINER, SAMPLER, MASK, level=level, bound=bound, highest=1.5, lowest=lowest)
    cut = total = 0
    for row in range(6):
        places = [place for place in range(9) if MASK[row, place]]
        logs = [TRAINER[row, place] - SAMPLER[row, place] for place in places]
        for place, log in zip(places, logs, strict=True):
            of = {"token": log, "sequence": sum(logs), "geometric": sum(logs) / len(logs)}
            ratio = math.exp(of[level])
            is_outside = ratio > 1.5 or (lowest is not None and ratio < lowest)
            expected = min(ratio, 1.5) if bound == "truncate" else ratio * (not is_outside)
            assert found.weights[row, place] == pytest.approx(expected)
            cut, total = cut + is_outside, total + 1
    assert found.cut == pytest.approx(cut / total) and 0 < found.effective <= 1
    assert not found.weights[MASK == 0].any()


def test_a_policy_has_weights_of_one_for_its_own_tokens() -> None:
    same = importance(SAMPLER, SAMPLER, MASK)
    assert (same.weights == MASK).all() and same[1:] == (0.0, 0.0, 1.0)
    nothing = importance(TRAINER, SAMPLER, MASK * 0)
    assert not nothing.weights.any() and nothing[1:] == (0.0, 0.0, 1.0)
    assert np.isfinite(importance([[900.0]], [[-900.0]], [[1]], bound="mask", highest=1e300).weights).all()


def test_the_divergence_is_the_mean_of_the_sampled_tokens() -> None:
    expected = np.mean([SAMPLER[place] - TRAINER[place] for place in zip(*np.nonzero(MASK), strict=True)])
    assert importance(TRAINER, SAMPLER, MASK).kl == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "turn"}, "level is one of"),
        ({"bound": "clip"}, "bound is one of"),
        ({"highest": 0.0}, "highest is above 0"),
        ({"lowest": 3.0, "bound": "mask"}, "highest is above 0"),
        ({"lowest": 0.5}, "lowest is for"),
    ],
)
def test_invalid_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        importance(TRAINER, SAMPLER, MASK, **options)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        importance(TRAINER, SAMPLER[:3], MASK)
