"""ProofGenSelect: which proof a text chooses."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.proof_genselect.env import ProofGenSelect
from gym_llm.errors import DataError


def choose(text, **kwargs):
    reward, info = scored("gym_llm/ProofGenSelect-v0", text, kwargs, correct_index=2)
    assert (reward, info["no_answer"]) == (float(info["predicted_index"] == 2), info["predicted_index"] is None)
    return info["predicted_index"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("proof_genselect")) >= 3


@pytest.mark.parametrize(
    ("text", "index", "nemo"),
    [
        ("<best_solution>2</best_solution>", 2, 2),
        ("<best_solution> 1\n</best_solution>", 1, 1),
        ("<best_solution>2</best_solution> No: <best_solution>1</best_solution>", 1, 2),
        ("<best_solution>1</best_solution></think><best_solution>2</best_solution>", 2, 2),
        ("<best_solution>3</best_solution>", None, None),
        ("<best_solution>two</best_solution>", None, None),
        ("<best_solution>proof 2</best_solution> <best_solution>2</best_solution>", 2, None),
        ("<best_solution>+2</best_solution>", 2, 2),
        ("<best_solution>2", None, None),
        ("2</best_solution>", None, None),
        ("2", None, None),
        ("", None, None),
    ],
)
def test_the_last_choice_after_the_thinking_counts_and_the_first_in_nemo_gym(text, index, nemo):
    assert choose(text) == index
    assert choose(text, conform="nemo") == nemo


def test_the_end_of_the_thinking_may_be_demanded():
    answer = "<best_solution>2</best_solution>"
    assert choose(answer, assert_think_end=True) is None
    assert choose(f"<think>a</think>{answer}", assert_think_end=True) == 2
    with pytest.raises(ValueError, match="assert_think_end"):
        gym.make("gym_llm/ProofGenSelect-v0", assert_think_end="yes")


@pytest.mark.parametrize("fields", [{}, {"correct_index": 0}])
def test_a_row_without_a_better_proof_is_refused(fields):
    with pytest.raises(DataError, match="correct_index"):
        ProofGenSelect([row(**fields)])


@pytest.mark.parametrize("unit", ["<best_solution>", "<best_solution>" + " " * 100, "<best_solution>1"])
def test_a_hostile_megabyte_costs_little(unit):
    assert cpu_seconds(choose, unit * (1_000_000 // len(unit))) < 0.5
