"""WMTTranslation: what is scored, and that nothing is scored for long."""

import time

import gymnasium as gym
import pytest
from testing import message, row
from verifier_vectors import replay_all

pytest.importorskip("sacrebleu")


def play(text, reference="Die Flut kommt um sechs.", **kwargs):
    env = gym.make("gym_llm/WMTTranslation-v0", **kwargs)
    env.reset(options={"task": row("Translate.", translation=reference)})
    _, reward, terminated, _, info = env.step(message(text))
    assert terminated and info["sentence_chrf"] == pytest.approx(100 * reward)
    return reward, info["generation"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("wmt_translation")) >= 3


def own_chrf(hypothesis, reference):
    """chrF2 by its definition."""
    counts = []
    for text in (hypothesis, reference):
        letters = "".join(text.split())
        counts.append([[letters[i : i + n] for i in range(len(letters) - n + 1)] for n in range(1, 7)])
    precisions, recalls = [], []
    for ours, theirs in zip(*counts, strict=True):
        if ours and theirs:
            matches = sum(min(ours.count(piece), theirs.count(piece)) for piece in set(ours))
            precisions.append(matches / len(ours))
            recalls.append(matches / len(theirs))
    p, r = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 5 * p * r / (4 * p + r) if p + r else 0.0


@pytest.mark.parametrize("text", ["Die Flut kommt um sieben.", "Das Meer steigt gegen sechs Uhr.", "No idea at all."])
def test_the_reward_is_chrf_2(text):
    assert play(text)[0] == pytest.approx(own_chrf(text, "Die Flut kommt um sechs."), abs=1e-9)


def test_the_reference_itself_is_worth_one_and_silence_nothing():
    assert play("Die Flut kommt um sechs.\n") == (1.0, "Die Flut kommt um sechs.")
    assert play(" \n") == (0.0, "")
    assert play("Ma tante e\u0301le\u0300ve", reference="Ma tante él\u00e8ve")[0] == 1.0


def test_reasoning_is_left_out():
    assert play("Hm. </think> or </think>\nDie Flut kommt um sechs.")[0] == 1.0
    assert play("<think>Die Flut kommt um sechs.") == (0.0, "")
    assert 0.0 < play("<think>Die Flut kommt um sechs.", strip_reasoning=False)[0] < 1.0


def test_very_long_answers_are_scored_in_a_process_and_not_for_long():
    start = time.thread_time()
    reward, _ = play("Die Flut kommt um sechs. " * 2_000)
    assert 0.0 < reward < 0.5
    assert play("e\u0301\u0323" * 300_000, deadline=0.2)[0] == 0.0
    assert time.thread_time() - start < 0.5


def test_arguments_are_checked():
    for kwargs, said in (({"strip_reasoning": 1}, "strip_reasoning"), ({"deadline": 0}, "deadline")):
        with pytest.raises(ValueError, match=said):
            gym.make("gym_llm/WMTTranslation-v0", **kwargs)
