"""RoleMRC: ROUGE-L with a reference."""

from __future__ import annotations

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row, scored
from verifier_vectors import all_vectors_of

from gym_llm.errors import DataError

ENV = "gym_llm/RoleMRC-v0"


def test_the_reward_is_rouge_l() -> None:
    reward, info = scored(ENV, " The fox ran OFF, the fox. ", reference="the red fox off", task="t", dimension="d")
    assert reward == info["rougeL"] == 0.6
    assert (info["rouge1"], info["rouge2"]) == (0.6, 0.0) and info["generation"] == "The fox ran OFF, the fox."
    assert scored(ENV, "a b c", reference="a x y z w b")[0] == 0.4444
    assert scored(ENV, "", reference="a")[0] == 0.0


@pytest.mark.parametrize("text", ["<think>q</think> a b c", "q</think>a b c", "a b c"])
def test_conform_rounds_nothing_and_leaves_out_reasoning(text: str) -> None:
    assert scored(ENV, text, {"conform": "nemo"}, reference="a x y z w b")[0] == pytest.approx(4 / 9, abs=1e-9)


def test_a_reference_without_words_is_refused() -> None:
    with pytest.raises(DataError, match="reference has no words"):
        gym.make(ENV, tasks=[row(reference="…")])


@pytest.mark.parametrize("piece", ["a ", "fox", "é", "\n"])
def test_a_megabyte_costs_little(piece: str) -> None:
    env = gym.make(ENV).unwrapped
    env.reset(options={"task": row(reference="a fox " * 100)})
    assert cpu_seconds(env.step, message(piece * (1_000_000 // len(piece)))) < 1.0


def test_recorded_episodes_score_as_recorded() -> None:
    vectors = all_vectors_of("rolemrc")
    if not vectors:
        pytest.skip("there are no vectors of rolemrc here")
    for vector in vectors:
        env = gym.make(ENV, tasks=[vector["task"]])
        env.reset(options={"task_index": 0})
        _, reward, *_, info = env.step(vector["output"])
        reported = {name: info[name] for name in ("generation", "rouge1", "rouge2", "rougeL")}
        assert reward == vector["reward"]
        assert reported == {name: vector["info"][name] for name in reported}
