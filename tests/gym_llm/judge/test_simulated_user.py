"""SimulatedUser: an engine in the user's place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from model_server import ModelServer
from testing import message, row

from gym_llm import BaseTask, Episode, JudgeError, VerifierEnv
from gym_llm.core.registry.classes import known_arguments
from gym_llm.errors import DataError
from gym_llm.judge import SimulatedUser
from gym_llm.judge.simulated_user import turned_around


class Shop(VerifierEnv):
    """A customer who is a model."""

    user = SimulatedUser(prompt="You want {wish}.", script="script", max_turns=3)

    class Task(BaseTask):
        wish: str = "tea"
        script: list[str] = []

    def verify(self, task: Task, episode: Episode) -> float:
        return float(episode.turn)


SELLS = {"role": "system", "content": "You sell tea."}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


def test_the_engine_opens_answers_and_ends_with_the_roles_turned_around(server: ModelServer) -> None:
    replies = iter(["Tea, please.", "<think>Which?</think>Green.", "Thanks ###STOP###"])
    server.answer = lambda body: next(replies)
    env = Shop([VerifierEnv.row([SELLS], wish="green tea")], user=server.url)
    observation, _ = env.reset()
    assert observation["input"][-1]["content"] == "Tea, please."
    observation, _, terminated, _, _ = env.step(message("Black or green?"))
    assert not terminated and observation["input"][-1] == {"type": "message", "role": "user", "content": "Green."}
    _, reward, terminated, _, _ = env.step(message("Here you are."))
    assert terminated and reward == 2.0
    said = [(each["role"], each["content"]) for each in server.bodies[-1]["messages"]]
    assert said[0] == ("system", "You want green tea.")
    assert said[2:] == [
        ("assistant", "Tea, please."),
        ("user", "Black or green?"),
        ("assistant", "Green."),
        ("user", "Here you are."),
    ]
    env.close()


def test_without_an_engine_the_script_is_said() -> None:
    env = Shop([VerifierEnv.row([SELLS], script=["Tea?", "Green."])])
    observation, _ = env.reset()
    assert observation["input"][-1]["content"] == "Tea?"
    observation, *_ = env.step(message("Which?"))
    assert observation["input"][-1]["content"] == "Green."
    assert env.step(message("Here."))[2]


def test_no_more_than_so_many_messages() -> None:
    env = Shop([VerifierEnv.row([SELLS])], user="constant:Again.")
    env.reset()
    ends = [env.step(message("Yes?"))[2] for _ in range(3)]
    assert ends == [False, False, True]
    env.close()


def test_a_user_who_says_nothing_is_a_failure_not_the_end() -> None:
    env = Shop([VerifierEnv.row([SELLS])], user={"engine": "replay:", "kwargs": {"answers": ["  "]}})
    with pytest.raises(JudgeError, match="said nothing"):
        env.reset()
    env.close()


def test_the_row_s_own_user_message_opens_the_conversation() -> None:
    env = Shop([row("Tea, please.", script=["Green."])])
    assert len(env.reset()[0]["input"]) == 1
    assert env.step(message("Which?"))[0]["input"][-1]["content"] == "Green."


def test_a_field_that_the_row_does_not_have_is_named() -> None:
    class Lost(VerifierEnv):
        user = SimulatedUser(prompt="You want {whim}.")

        def verify(self, task: Any, episode: Episode) -> float:
            return 0.0

    with pytest.raises(DataError, match="whim"):
        Lost([VerifierEnv.row([SELLS])], user="constant:Hm.").reset()


def test_only_an_environment_with_a_simulated_user_takes_one() -> None:
    class Mute(VerifierEnv):
        def verify(self, task: Any, episode: Episode) -> float:
            return 0.0

    with pytest.raises(TypeError, match="user"):
        Mute([row()], user="constant:Hm.")
    with pytest.raises(ValueError, match="user"):
        Shop([row()], user="nothing:of-the-kind")
    assert "user" in known_arguments(Shop) and Shop.speaks_for_user() and not Mute.speaks_for_user()


def test_hooks_of_its_own_give_their_instructions() -> None:
    class Talk(VerifierEnv):
        def __init__(self, tasks: Any = None, **kwargs: Any) -> None:
            super().__init__(tasks, **kwargs)
            self.user = SimulatedUser()

        async def opening(self, task: Any, state: Any) -> str | None:
            return await self.user.opening(self, "You want tea.", ["Tea?", "Green."])

        async def user_turn(self, task: Any, episode: Episode) -> str | None:
            return await self.user.respond(self, episode, "You want tea.", ["Tea?", "Green."])

        def verify(self, task: Any, episode: Episode) -> float:
            return 0.0

    env = Talk([row("Hello.")])
    assert env.reset()[0]["input"][-1]["content"] == "Tea?"
    assert env.step(message("Which?"))[0]["input"][-1]["content"] == "Green."


def test_calls_outputs_and_reasoning_are_not_the_users_to_see() -> None:
    items = [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "secret"},
        *message("<think>Hm</think>Done."),
    ]
    assert turned_around(items) == [{"role": "user", "content": "Done.", "type": "message"}]
