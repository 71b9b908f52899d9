from __future__ import annotations

import gymnasium as gym
import pytest
from testing import function_call, message, outputs, replay, row, vectors

from gym_llm.envs.counter.env import Counter
from gym_llm.errors import DataError


@pytest.mark.parametrize("vector", vectors("counter"))
def test_recorded_episodes_replay_exactly(vector: dict) -> None:
    replay("gym_llm/Counter-v0", vector)


def counter(initial: int = 3, expected: int = 5) -> Counter:
    return Counter(tasks=[row(initial_count=initial, expected_count=expected)])


def test_the_count_lives_as_long_as_its_episode() -> None:
    env = counter()
    for _ in range(2):
        env.reset()
        observation, *_ = env.step(
            [function_call("increment_counter", {"count": 2}), function_call("get_counter_value")]
        )
        assert outputs(observation) == ['{"success":true}', '{"count":5}']
        assert env.step(message("Done."))[1:3] == (1.0, True)


@pytest.mark.parametrize("count, reward", [(2, 1.0), (3, 0.0), (-2, 0.0)])
def test_only_the_expected_count_is_rewarded(count: int, reward: float) -> None:
    env = counter()
    env.reset()
    env.step([function_call("increment_counter", {"count": count})])
    assert env.step(message("Done."))[1] == reward


def test_two_environments_do_not_share_a_counter() -> None:
    first, second = counter(), counter()
    first.reset(), second.reset()
    first.step([function_call("increment_counter", {"count": 2})])
    assert outputs(second.step([function_call("get_counter_value")])[0]) == ['{"count":3}']


@pytest.mark.parametrize("arguments", ["{}", '{"count": 1.5}', '{"count": "many"}', "[1]", "{"])
def test_a_call_that_fails_leaves_the_count(arguments: str) -> None:
    env = counter(5, 5)
    env.reset()
    observation, _, terminated, _, info = env.step([function_call("increment_counter", arguments)])
    assert "error" in outputs(observation)[0] and info["tool_errors"] == 1 and not terminated
    assert env.step(message("Done."))[1] == 1.0


def test_arguments_too_many_do_not_keep_a_call_from_being_made() -> None:
    env = counter(5, 8)
    env.reset()
    env.step([function_call("increment_counter", '{"count": 3, "x": 1, "state": 0}')])
    assert env.step(message("Done."))[1] == 1.0


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "[Infinity]"])
def test_nemo_gym_makes_a_call_with_what_only_python_reads(value: str) -> None:
    call = function_call("increment_counter", f'{{"count": 2, "zz": {value}}}')
    for conform, reward in ((None, 0.0), ("nemo", 1.0)):
        env = Counter(tasks=[row(initial_count=3, expected_count=5)], conform=conform)
        env.reset()
        env.step([call])
        assert env.step(message("Done."))[1] == reward


def test_a_count_too_long_to_write_is_an_error_and_not_the_end() -> None:
    env = counter()
    env.reset()
    env.step([function_call("increment_counter", '{"count": ' + "9" * 4_300 + "}")] * 2)
    observation, *_, info = env.step([function_call("get_counter_value")])
    assert "error" in outputs(observation)[-1] and info["tool_errors"] == 1
    assert env.step(message("Done."))[1] == 0.0


def test_a_row_without_the_counts_is_refused() -> None:
    with pytest.raises(DataError, match=r"initial_count.*expected_count"):
        Counter(tasks=[row()])


def test_its_tools_are_offered_unless_the_row_has_its_own() -> None:
    observation, _ = gym.make("gym_llm/Counter-v0", tasks=[row(initial_count=1, expected_count=1)]).reset()
    assert [tool["name"] for tool in observation["tools"]] == ["increment_counter", "get_counter_value"]
    own = row(initial_count=1, expected_count=1)
    own["responses_create_params"]["tools"] = []
    assert Counter(tasks=[own]).reset()[0]["tools"] == []
