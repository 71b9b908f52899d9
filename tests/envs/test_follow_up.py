from __future__ import annotations

import pytest
from testing import function_call, message, replay, response, row, vectors

from gym_llm.envs.follow_up.env import FollowUp


@pytest.mark.parametrize("vector", vectors("follow_up"))
def test_recorded_episodes_replay_exactly(vector: dict) -> None:
    replay("gym_llm/FollowUp-v0", vector)


def talk(*follow_ups: str, max_turns: int | None = None) -> FollowUp:
    env = FollowUp(tasks=[row("Capital?", follow_ups=list(follow_ups), expected_answer="Straße")], max_turns=max_turns)
    env.reset()
    return env


def test_the_user_asks_on_in_order() -> None:
    env = talk("Sure?", "Really?")
    observation, reward, terminated, truncated, _ = env.step(message("Strasse"))
    assert observation["input"][-1] == {"type": "message", "role": "user", "content": "Sure?"}
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.step(message("Yes"))[0]["input"][-1]["content"] == "Really?"
    assert env.step(message("STRASSE, of course"))[1:4] == (1.0, True, False)


def test_only_the_last_answer_counts() -> None:
    env = talk("Sure?")
    env.step(message("Straße"))
    assert env.step(message("Yes."))[1:3] == (0.0, True)


def test_a_number_is_not_found_in_another_one() -> None:
    for said, reward in (("It is 9.", 1.0), ("19", 0.0), ("9.5", 0.0), ("-9", 0.0), ("1e999", 0.0)):
        env = FollowUp(tasks=[row("How many?", expected_answer="9")])
        env.reset()
        assert env.step(message(said))[1] == reward, said
        env = FollowUp(tasks=[row("How many?", expected_answer="9")], conform="nemo")
        env.reset()
        assert env.step(message(said))[1] == 1.0, said


def test_without_follow_ups_it_is_one_question() -> None:
    assert talk().step(message("straße"))[1:3] == (1.0, True)


def test_an_empty_expected_answer_is_in_no_answer() -> None:
    env = FollowUp(tasks=[row("Capital?", expected_answer="")])
    env.reset()
    assert env.step(message("Anything."))[1:3] == (0.0, True)


def test_a_right_answer_before_the_last_question_earns_nothing() -> None:
    env = talk("Sure?", max_turns=1)
    assert env.step(message("Straße"))[1:4] == (0.0, False, True)
    env = talk("Sure?")
    assert env.step(response(*message("Straße"), status="incomplete"))[1:4] == (0.0, False, True)


def test_the_last_answer_may_be_the_last_turn() -> None:
    env = talk("Sure?", max_turns=2)
    env.step(message("No."))
    assert env.step(message("Straße"))[1:4] == (1.0, True, False)


def test_a_call_of_no_tool_does_not_take_a_question() -> None:
    env = talk("Sure?")
    env.step([function_call("search")])
    assert env.step(message("No."))[0]["input"][-1]["content"] == "Sure?"
    assert env.step(message("Straße"))[1] == 1.0


@pytest.mark.parametrize("follow_ups", [[], ["Sure?"]])
def test_a_stray_call_beside_the_last_answer_does_not_take_it_back(follow_ups: list[str]) -> None:
    env = talk(*follow_ups)
    for _ in follow_ups:
        env.step(message("No."))
    assert env.step([*message("Straße"), function_call("search")])[1:3] == (0.0, False)
    assert env.step(message("There is no such tool."))[1:3] == (1.0, True)
    env = talk("Sure?")
    env.step([*message("Straße"), function_call("search")])
    env.step(message("Yes."))
    assert env.step(message("No."))[1:3] == (0.0, True)  # it was said to another question


def test_playing_a_task_again_asks_the_same() -> None:
    env = talk("One?", "Two?")
    for _ in range(2):
        env.reset(options={"task_index": 0})
        assert [env.step(message("?"))[0]["input"][-1]["content"] for _ in range(2)] == ["One?", "Two?"]
