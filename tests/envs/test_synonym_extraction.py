from __future__ import annotations

from typing import Any

import pytest
from testing import function_call, message, outputs, replay, row, vectors

from gym_llm.envs.synonym_extraction.env import SynonymExtraction


@pytest.mark.parametrize("vector", vectors("synonym_extraction"))
def test_recorded_episodes_replay_exactly(vector: dict) -> None:
    replay("gym_llm/SynonymExtraction-v0", vector)


def start(values: list[int]) -> SynonymExtraction:
    fields = {"expected_synonym_values": values, "minefield_label": "hot", "minefield_label_value": 331}
    env = SynonymExtraction(tasks=[row(**fields)])
    env.reset()
    return env


def end(env: SynonymExtraction, *handed_in: list[Any]) -> tuple[float, dict[str, Any]]:
    for values in handed_in:
        env.step([function_call("extract_synonym_values", {"synonym_values": values})])
    _, reward, terminated, _, info = env.step(message("Done."))
    assert terminated
    return reward, info


def test_numbers_written_as_texts_are_not_handed_in() -> None:
    assert end(start([711, 407]), ["711", "407"])[0] == 0.0
    assert end(start([711, 407]), [711, 407])[0] == 1.0


@pytest.mark.parametrize("word", ["hot", "", "ß🜁", "a" * 1000])
def test_a_value_is_the_sum_of_the_code_points(word: str) -> None:
    observation, *_ = start([1]).step([function_call("get_synonym_value", {"synonym": word})])
    assert outputs(observation) == [f'{{"synonym_value":{sum(ord(c) for c in word)}}}']


def test_the_last_hand_in_counts() -> None:
    assert end(start([711, 407]), [1], [711, 407])[0] == 1.0
    assert end(start([711, 407]), [711, 407], [1])[0] == 0.0


def test_a_hand_in_that_is_refused_does_not_count() -> None:
    reward, info = end(start([711]), [711], ["many"])
    assert reward == 1.0 and info["tool_errors"] == 1


def test_the_wrong_order_is_named() -> None:
    reward, info = end(start([711, 407]), [407, 711])
    assert (reward, info["order_failure"], info["set_overlap"], info["minefield_hit"]) == (0.0, True, 1.0, False)


def test_the_minefield_and_the_overlap_are_named() -> None:
    reward, info = end(start([711, 407]), [331, 711])
    assert (reward, info["order_failure"], info["set_overlap"], info["minefield_hit"]) == (0.0, False, 0.5, True)


def test_nothing_handed_in() -> None:
    reward, info = end(start([711]))
    assert (reward, info["set_overlap"], info["extracted_synonym_values"]) == (0.0, 0.0, [])


def test_the_details_do_not_change_with_the_next_episode() -> None:
    env = start([711])
    _, info = end(env, [711])
    env.reset()
    end(env, [5])
    assert info["extracted_synonym_values"] == [711]


@pytest.mark.parametrize(
    ("arguments", "reward"),
    [
        ('{"synonym_values": [711, 407], "zz": -Infinity}', 1.0),
        ('{"synonym_values": [711.0, 407]}', 1.0),
        ('{"synonym_values": [NaN, 407]}', 0.0),
        ('{"synonym_values": 1e999}', 0.0),
        ('{"synonym_values": [{}]}', 0.0),
        ("null", 0.0),
    ],
)
def test_nemo_gym_reads_the_values_that_python_reads(arguments: str, reward: float) -> None:
    env = SynonymExtraction(tasks=[row(expected_synonym_values=[711, 407])], conform="nemo")
    env.reset()
    env.step([function_call("extract_synonym_values", arguments)])
    assert env.step(message("Done."))[1] == reward
