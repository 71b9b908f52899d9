"""Values of turns, of an environment and a policy of which they are known exactly."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from testing import message_item, response, row

import gym_llm
from gym_llm.engines import Engine
from gym_llm.trainers.shared.turn_values import turn_values, value_advantages


class Heads(gym_llm.VerifierEnv):
    """Three coins: the reward is the share of heads."""

    def user_turn(self, task, episode):
        return "Next." if episode.turn < 3 else None

    def verify(self, task, episode):
        return Counter(item["content"] for item in episode.items if item.get("role") == "assistant")["heads"] / 3


class Coin(Engine):
    """Says heads in three of four cases, whatever it is asked."""

    model = "coin"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        side = random.Random(f"{episode_id} {len(request['input'])}").random() < 0.75
        return response({**message_item(""), "content": "heads" if side else "tails"})


@pytest.fixture
def records() -> Any:
    gym.register("ForkedHeads-v0", entry_point=lambda **kwargs: Heads(tasks=[row()], **kwargs))
    yield gym_llm.collect("ForkedHeads-v0", Coin(), repeats=4, seed=2)
    gym.registry.pop("ForkedHeads-v0")


def heads(record: Any) -> list[bool]:
    return [item["content"] == "heads" for item in record["response"]["output"] if item.get("role") == "assistant"]


def test_values_are_the_expected_rewards_and_advantages_those_of_the_turn(records: Any):
    records[1]["reward"], records[1]["outcome"] = None, "masked"
    found = asyncio.run(turn_values(records, k=200, engine=Coin()))
    assert found[1] == ([], [])
    for place in (0, 2, 3):
        sides, values = heads(records[place]), found[place].values
        exact = [(sum(sides[:turn]) + 0.75 * (3 - turn)) / 3 for turn in range(3)]
        assert np.allclose(values, exact, atol=0.06)  # four standard errors
        advantages = value_advantages(values, records[place]["reward"])
        assert np.allclose(advantages, [(side - 0.75) / 3 for side in sides], atol=0.12)
        assert sum(advantages) == pytest.approx(records[place]["reward"] - values[0])
        forks = [(one["forked_from"]["turn"], one["forked_from"]["number"]) for one in found[place].forks]
        assert forks == [(turn, number) for turn in range(3) for number in range(200)]
        assert all(
            heads(one)[: one["forked_from"]["turn"]] == sides[: one["forked_from"]["turn"]]
            for one in found[place].forks
        )


def test_what_has_no_values_is_refused(records: Any):
    with pytest.raises(ValueError, match="k is"):
        asyncio.run(turn_values(records, k=0, engine=Coin()))
    with pytest.raises(ValueError, match="same episode"):
        asyncio.run(turn_values([records[0], records[0]], k=1, engine=Coin()))
    assert asyncio.run(turn_values([], k=1, engine=Coin())) == []
    assert value_advantages([0.5], None).tolist() == []
