"""MathProofJudgement: what a text judges."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.math_proof_judgement.env import _AS_NEMO_GYM, MathProofJudgement, read_judgement
from gym_llm.errors import DataError


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("math_proof_judgement")) >= 3


@pytest.mark.parametrize(
    ("text", "here", "nemo"),
    [
        ("Judgement: Yes", True, True),
        ("JUDGEMENT: no.", False, False),
        ("**Judgement:** **Yes**", True, None),
        ("**Judgement**: Yes", True, True),
        ("Judgement : ** yes", True, True),
        ("<judgement>Judgement: Yes</judgement>", True, True),
        ("Judgement: Yes. No, I was wrong. Judgement: No", False, True),
        ("Judgement: unclear. Judgement: Yes", True, None),
        ("Judgement: not sure", None, False),
        ("Judgement: yesterday", None, True),
        ("The judgement is yes", None, None),
        ("Yes", None, None),
        ("", None, None),
    ],
)
def test_the_last_judgement_counts_and_the_first_in_nemo_gym(text, here, nemo):
    assert read_judgement(text) is here
    assert read_judgement(text, _AS_NEMO_GYM, first=True) is nemo


@pytest.mark.parametrize(
    ("said", "gold", "cell"), [("Yes", "Yes", "tp"), ("Yes", "No", "fp"), ("No", "Yes", "fn"), ("No", "No", "tn")]
)
def test_the_reward_is_one_for_the_right_judgement(said, gold, cell):
    reward, info = scored(
        "gym_llm/MathProofJudgement-v0", f"Judgement: {said}", expected_judgement=f"Judgement: {gold}"
    )
    assert (reward, info["extracted_judgement"]) == (float(said == gold), said)
    assert {name: info[name] for name in ("tp", "fp", "fn", "tn")} == {
        name: float(name == cell) for name in ("tp", "fp", "fn", "tn")
    }


def test_no_judgement_is_none_of_the_four():
    reward, info = scored("gym_llm/MathProofJudgement-v0", "Hm.", expected_judgement="Judgement: No")
    assert (reward, info["extracted_judgement"]) == (0.0, None)
    assert [info[name] for name in ("tp", "fp", "fn", "tn")] == [0.0] * 4


def test_thinking_is_left_out_unless_as_in_nemo_skills():
    text, gold = "<think>Judgement: No?</think>Judgement: Yes", "Judgement: Yes"
    assert scored("gym_llm/MathProofJudgement-v0", text, expected_judgement=gold)[0] == 1.0
    assert (
        scored("gym_llm/MathProofJudgement-v0", text, {"skills_parity_mode": True}, expected_judgement=gold)[0] == 0.0
    )


def test_nemo_gym_reads_the_thinking_as_well():
    text = "<think>Judgement: No</think> Judgement: Yes"
    assert (
        scored("gym_llm/MathProofJudgement-v0", text, {"conform": "nemo"}, expected_judgement="Judgement: No")[0] == 1.0
    )


def test_not_sure_is_a_no_in_nemo_gym():
    text, gold = "Judgement: not sure", "Judgement: No"
    assert scored("gym_llm/MathProofJudgement-v0", text, expected_judgement=gold)[0] == 0.0
    assert scored("gym_llm/MathProofJudgement-v0", text, {"conform": "nemo"}, expected_judgement=gold)[0] == 1.0


@pytest.mark.parametrize("fields", [{}, {"expected_judgement": "Yes"}])
def test_a_row_without_a_judgement_is_refused(fields):
    with pytest.raises(DataError, match="expected_judgement"):
        MathProofJudgement([row(**fields)])


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="skills_parity_mode"):
        gym.make("gym_llm/MathProofJudgement-v0", skills_parity_mode="yes")


@pytest.mark.parametrize("unit", ["Judgement", "Judgement" + " " * 100, "*", "Judgement:" + "*" * 100, "<think>"])
def test_a_hostile_megabyte_costs_little(unit):
    assert cpu_seconds(read_judgement, unit * (1_000_000 // len(unit))) < 0.5
    assert cpu_seconds(read_judgement, "judgement:" + unit * (1_000_000 // len(unit))) < 0.5
