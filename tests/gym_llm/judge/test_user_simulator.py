"""UserSimulator: an engine in the user's place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from model_server import ModelServer
from testing import message, row

from gym_llm import BaseTask, Episode, JudgeError, VerifierEnv
from gym_llm.judge import UserSimulator
from gym_llm.judge.user_simulator import turned_around


class Shop(VerifierEnv):
    """A customer who is a model."""

    class Task(BaseTask):
        script: list[str] = []

    def __init__(self, tasks: Any = None, *, user: Any = None, user_turns: int = 20, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self.user = UserSimulator(user, max_turns=user_turns)

    async def opening(self, task: Task, state: Any) -> str | None:
        return await self.user.opening(self, "You want tea.", task.script)

    async def respond(self, task: Task, episode: Episode) -> str | None:
        return await self.user.respond(self, episode, "You want tea.", task.script)

    def verify(self, task: Task, episode: Episode) -> float:
        return float(episode.turn)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


def test_the_engine_opens_answers_and_ends_with_the_roles_turned_around(server: ModelServer) -> None:
    replies = iter(["Tea, please.", "<think>Which?</think>Green.", "Thanks ###STOP###"])
    server.answer = lambda body: next(replies)
    env = Shop([row("Is this a shop?")], user=server.url)
    observation, _ = env.reset()
    assert observation["input"][-1]["content"] == "Tea, please."
    observation, _, terminated, _, _ = env.step(message("Black or green?"))
    assert not terminated and observation["input"][-1] == {"type": "message", "role": "user", "content": "Green."}
    _, reward, terminated, _, _ = env.step(message("Here you are."))
    assert terminated and reward == 2.0
    said = [(each["role"], each["content"]) for each in server.bodies[-1]["messages"]]
    assert said[0] == ("system", "You want tea.")
    assert said[2:] == [
        ("assistant", "Is this a shop?\n\nTea, please."),
        ("user", "Black or green?"),
        ("assistant", "Green."),
        ("user", "Here you are."),
    ]
    env.close()


def test_without_an_engine_the_script_is_said() -> None:
    env = Shop([row("You sell tea.", script=["Tea?", "Green."])])
    observation, _ = env.reset()
    assert observation["input"][-1]["content"] == "Tea?"
    observation, *_ = env.step(message("Which?"))
    assert observation["input"][-1]["content"] == "Green."
    assert env.step(message("Here."))[2]


def test_no_more_than_so_many_messages() -> None:
    env = Shop([row()], user="constant:Again.", user_turns=3)
    env.reset()
    ends = [env.step(message("Yes?"))[2] for _ in range(3)]
    assert ends == [False, False, True]
    env.close()


def test_a_user_who_says_nothing_is_a_failure_not_the_end() -> None:
    env = Shop([row()], user={"engine": "replay:", "kwargs": {"answers": ["  "]}})
    with pytest.raises(JudgeError, match="said nothing"):
        env.reset()
    env.close()


def test_calls_outputs_and_reasoning_are_not_the_users_to_see() -> None:
    items = [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "secret"},
        *message("<think>Hm</think>Done."),
    ]
    assert turned_around(items) == [{"role": "user", "content": "Done.", "type": "message"}]
