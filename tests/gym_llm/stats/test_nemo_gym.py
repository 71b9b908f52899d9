"""NeMo Gym's figures: its own code says the same, and hand-made cases."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from peers import in_peer

from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.nemo_gym import nemo_gym_figures


def scores(rewards: list[list[float]], answers: list[list[str | None]] | None = None) -> list[EpisodeScore]:
    return [
        EpisodeScore("", "", "", task, repeat, "scored", reward, answer=answers[task][repeat] if answers else None)
        for task, row in enumerate(rewards)
        for repeat, reward in enumerate(row)
    ]


def test_the_first_k_vote_and_figures_are_percentages() -> None:
    figures = nemo_gym_figures(scores([[0, 0, 0, 0], [0, 1, 0, 1]], [["b", "a", None, "a"], [None, "b", "c", "b"]]))
    assert [figures[f"majority@{k}/accuracy"] for k in range(1, 5)] == [0, 50, 25, 50]
    assert [figures[f"pass@1[avg-of-{k}]/accuracy"] for k in (1, 2, 4)] == [0, 25, 25]
    assert figures["pass@2/accuracy"] == pytest.approx(100 * (1 - 1 / 6) / 2)
    assert figures["per_sample_aggregate"] == {"accuracy": [0, 50, 0, 50], "no_answer": [50, 0, 50, 0]}
    assert figures["mean/reward"] == 0.25


def test_a_graded_pass_is_the_best_of_the_first_and_masked_episodes_are_left_out() -> None:
    masked = EpisodeScore("", "", "", 0, 3, "masked", None)
    figures = nemo_gym_figures([*scores([[0.2, 0.5, 0.4]]), masked])
    assert [figures[f"pass@{k}/accuracy"] for k in (1, 2, 3)] == [20, 50, 50]
    assert "majority@1/accuracy" not in figures and "pass@4/accuracy" not in figures
    assert nemo_gym_figures([masked]) == {}


@pytest.mark.slow
def test_nemo_gyms_own_code_says_the_same(tmp_path: Path) -> None:
    draw = random.Random(0)
    sets = []
    for number in range(60):
        values = [0.0, 1.0] if number % 2 else [0.0, 0.25, 1.0, -1.0]
        counts = [draw.randint(1, 5) for _ in range(draw.randint(1, 6))]
        rewards = [[draw.choice(values) for _ in range(count)] for count in counts]
        answers: list[list[str | None]] = [[draw.choice(["a", "b", "c", None]) for _ in row] for row in rewards]
        answers[0][0] = "a"
        sets.append((rewards, answers))
    file = tmp_path / "sets.json"
    file.write_text(json.dumps(sets), "utf-8")
    theirs = in_peer("nemo_gym_7", "nemo_pass_figures.py", str(file))["figures"]
    for (rewards, answers), expected in zip(sets, theirs, strict=True):
        ours = nemo_gym_figures(scores(rewards, answers))
        samples, theirs_samples = ours.pop("per_sample_aggregate"), expected.pop("per_sample_aggregate")
        assert {name: samples[name] for name in theirs_samples} == {
            name: pytest.approx(values) for name, values in theirs_samples.items()
        }
        assert {name: ours.get(name) for name in expected} == pytest.approx(expected)
        assert {name for name in ours if "@" in name} == expected.keys()
