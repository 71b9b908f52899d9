"""LCNIAH: F1 of a list, less what the reasoning copied."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message_item, row
from verifier_vectors import replay_all

from gym_llm.envs.lc_niah.overlap import OverlapMetric, measure_overlap
from gym_llm.errors import DataError

ENV = "gym_llm/LCNIAH-v0"
WORDS = [f"w{n}" for n in range(40)]


def play(
    reasoning: str, text: str = "Final Answer: ['a', b]", given: str = "The fox\n is red.", **kwargs: Any
) -> tuple[float, dict[str, Any]]:
    env = gym.make(ENV, **kwargs)
    env.reset(options={"task": row(given, expected_answer='["a", "b"]')})
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": part} for part in reasoning.split("|")]}
    _, reward, *_, info = env.step([item, message_item(text)])
    env.close()
    return float(reward), info


def test_what_is_copied_lowers_the_f1() -> None:
    assert play("") == (1.0, play("")[1]) and play("")[1]["reasoning_overlap"] == 0.0
    reasoning = "He said:  THE FOX| is "
    reward, info = play(reasoning, overlap_metric_rule="lcs")
    plain = "he said: the fox is"
    overlap = len("the fox is") / len(plain)
    assert info["reasoning_overlap"] == pytest.approx(overlap)
    assert reward == pytest.approx(1 - overlap) and info["answer_score"] == 1.0 and info["timed_out"] is False


def test_the_overlap_is_multiplied_subtracted_or_reported_only() -> None:
    text = "Final Answer: [a]"
    lcs = {"overlap_metric_rule": "lcs"}
    overlap = play("the fox is", text, **lcs)[1]["reasoning_overlap"]
    f1 = 2 / 3
    assert overlap == 1.0 and play("the fox is", text, **lcs)[0] == 0.0
    assert play("the fox is", text, overlap_grading_rule="minus", **lcs)[0] == pytest.approx(f1 - overlap)
    assert play("the fox is", text, overlap_grading_rule="base", **lcs)[0] == pytest.approx(f1)


def test_the_metrics() -> None:
    given, reasoning = " ".join(WORDS), " ".join([*WORDS[10:30], "x", *WORDS[10:30]])

    def measured(metric: OverlapMetric, said: str) -> float:
        return measure_overlap((metric, said, given))

    assert measured("lcs", reasoning) == (len(" ".join(WORDS[10:30])) + 1) / len(reasoning)  # and the blank beside them
    assert measured("ngram16", reasoning) == 5 / 21  # five runs of 16 in 20 words, twice; sixteen with the x in them
    assert measured("seq_match", reasoning) == SequenceMatcher(None, reasoning, given).ratio()
    assert measured("ngram16", " ".join(WORDS[:15])) == 0.0
    assert measured("lcs", " \n") == measured("ngram16", "") == measured("seq_match", "") == 0.0


def test_copied_runs_of_sixteen_words_count_by_default() -> None:
    assert play("the fox is")[1]["reasoning_overlap"] == 0.0
    given = " ".join(WORDS)
    assert play(" ".join(WORDS[:20]), given=given)[1]["reasoning_overlap"] == 1.0


def test_long_reasoning_is_measured_in_a_worker_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play("fox " * 5_000)[1]["timed_out"] is False
    monkeypatch.setattr("gym_llm.envs.lc_niah.env.DEADLINE", 0.2)
    letters = "".join(chr(300 + n) for n in range(150))
    reward, info = play(letters[::-1] * 150, given=letters * 150, overlap_metric_rule="seq_match")
    assert (reward, info["reasoning_overlap"], info["timed_out"]) == (0.0, 1.0, True)


def test_wrong_arguments_and_rows_are_refused() -> None:
    for kwargs, said in (
        ({"overlap_metric_rule": "lsc"}, "Did you mean lcs"),
        ({"overlap_grading_rule": "x"}, "overlap_grading_rule"),
    ):
        with pytest.raises(ValueError, match=said):
            gym.make(ENV, **kwargs)
    with pytest.raises(DataError, match="expected_answer is a JSON list"):
        gym.make(ENV, tasks=[row(expected_answer="a, b")])


def test_long_texts_are_compared_in_near_linear_time() -> None:
    assert cpu_seconds(measure_overlap, ("lcs", "a b " * 25_000, "b a " * 50_000)) < 10.0
    assert cpu_seconds(measure_overlap, ("ngram16", "a b " * 25_000, "b a " * 50_000)) < 5.0


def test_recorded_episodes_score_as_recorded() -> None:
    assert replay_all("lc_niah", env_kwargs={"overlap_metric_rule": "lcs"})  # the default of the recorded version
