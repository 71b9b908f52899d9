"""Episodes in NeMo Gym's Gymnasium form: reset, step by step, close."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium as gym
from nemo_client import served
from testing import function_call, in_loop, message_item, response, row

from gym_llm import VerifierEnv, tool


class Countdown(VerifierEnv):
    """The model counts down from three, with the user's help; each right number is worth 0.25."""

    steps = 0

    def opening(self, task: Any, state: Any) -> Any:
        if getattr(task, "shows", None) == "picture":
            return [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]
        return "Count down from 3."

    @tool
    def peek(self) -> dict[str, int]:
        """What comes next."""
        return {"next": 3}

    def user_turn(self, task: Any, episode: Any) -> str | None:
        Countdown.steps += 1
        if episode.answer in ("3", "2", "1"):
            episode.step_reward += 0.25
        return None if episode.answer == "1" else f"After {episode.answer}?"

    def verify(self, task: Any, episode: Any) -> float:
        return 1.0


ID = "test/NemoCountdown-v0"
gym.register(ID, Countdown, disable_env_checker=True)


def turn(*items: Any, **fields: Any) -> dict[str, Any]:
    return {**row(), "response": response(*items), **fields}


@in_loop
async def test_an_episode_is_played_turn_by_turn_and_its_rewards_add_up():
    async with served(ID) as client:
        begun = await client.post("/reset", row())
        assert begun["observation"] == "Count down from 3."
        assert begun["info"]["supports_explicit_close"] is True
        looked = await client.post("/step", turn(function_call("peek", {})))
        assert looked["info"]["tool_outputs"] == [{"call_id": "call_1", "output": '{"next":3}'}]
        assert (looked["observation"], looked["terminated"]) == (None, False)
        rewards = []
        for number, said in (("3", "After 3?"), ("2", "After 2?"), ("1", None)):
            step = await client.post("/step", turn(message_item(number)))
            assert (step["observation"], step["terminated"]) == (said, number == "1")
            rewards.append(step["reward"])
        assert rewards == [0.25, 0.25, 1.25]
        assert len(client.sessions) == 0
        assert await client.post("/close", {}) == {}
        await client.post("/step", turn(message_item("0")), 404)


@in_loop
async def test_a_step_that_is_sent_again_is_taken_once():
    async with served(ID) as client:
        await client.post("/reset", row())
        Countdown.steps = 0
        body = turn(message_item("3"), _ng_step_request_id="a")
        first = await asyncio.gather(*(client.post("/step", body) for _ in range(3)))
        assert first[0] == first[1] == first[2] == await client.post("/step", body)
        assert Countdown.steps == 1
        last = turn(message_item("1"), _ng_step_request_id="b")
        assert await client.post("/step", last) == await client.post("/step", last)
        assert Countdown.steps == 2


@in_loop
async def test_an_episode_that_was_stepped_can_be_verified_too():
    async with served(ID) as client:
        await client.post("/reset", row())
        await client.post("/step", turn(message_item("3")))
        verdict = await client.post("/verify", turn(message_item("3"), message_item("1")))
        assert verdict["mask_sample"] is False


@in_loop
async def test_what_the_wire_has_no_words_for_is_refused():
    async with served(ID) as client:
        assert "text only" in (await client.post("/reset", {**row(), "shows": "picture"}, 400))["detail"]
        await client.post("/reset", row())
        await client.post("/step", {**row(), "response": {"output": 3}}, 400)
        await client.post("/step", turn({"type": "function_call_output", "call_id": "1", "output": ""}), 400)
        assert (await client.post("/step", turn(message_item("3"))))["observation"] == "After 3?"
