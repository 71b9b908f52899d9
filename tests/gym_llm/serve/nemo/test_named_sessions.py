"""Sessions that NeMo Gym's environment servers name themselves: seeded once, closed for good."""

from __future__ import annotations

import asyncio

import pytest
from nemo_client import served
from testing import in_loop, message_item, row

WEATHER = {**row("What is the weather in Paris?"), "expected_city": "Paris"}
NAMED = {
    "resources_session_id": "resources-session-1",
    "episode_id": {"rollout_id": "r-1", "attempt": 0},
    "task_id": {"taskset": "weather", "task_id": "0"},
    "task_data": {"expected_city": "Paris"},
}
CLOSING = {name: NAMED[name] for name in ("resources_session_id", "episode_id")}


@in_loop
async def test_an_environment_server_names_its_session_itself():
    async with served() as client:
        seeds = await asyncio.gather(*(client.post("/seed_session", NAMED) for _ in range(3)))
        assert (
            seeds
            == [{"resources_session_id": "resources-session-1", "resources_tools": None, "sandbox_access": None}] * 3
        )
        assert len(client.sessions) == 1
        await client.post("/get_weather", {"city": "Paris"})
        assert (await client.verify(WEATHER, message_item("Cold.")))["reward"] == 1.0
        for _ in range(2):
            assert await client.post("/close_session", CLOSING) == {"resources_session_id": "resources-session-1"}
        await client.post("/seed_session", NAMED, 400)


@in_loop
async def test_a_close_before_its_seed_keeps_the_seed_from_opening_a_session():
    async with served() as client:
        await client.post("/close_session", CLOSING)
        assert "closed" in (await client.post("/seed_session", NAMED, 400))["detail"]
        assert len(client.sessions) == 0


@in_loop
async def test_a_name_is_one_episodes():
    async with served() as client:
        await client.post("/seed_session", NAMED)
        await client.post("/seed_session", {**NAMED, "task_data": {"expected_city": "Oslo"}}, 400)
        await client.post("/close_session", {**CLOSING, "episode_id": {"rollout_id": "r-2", "attempt": 0}}, 400)
        assert len(client.sessions) == 1
        await client.post("/close_session", CLOSING)
        assert len(client.sessions) == 0


@pytest.mark.parametrize(
    "body",
    [
        {"resources_session_id": "x"},
        {**NAMED, "more": 1},
        {**NAMED, "resources_session_id": ""},
        {**NAMED, "resources_session_id": 3},
        {**NAMED, "episode_id": {"rollout_id": "-", "attempt": 0}},
        {**NAMED, "episode_id": {"rollout_id": "r", "attempt": True}},
        {**NAMED, "task_data": []},
    ],
)
@in_loop
async def test_a_wrong_seed_of_an_environment_server_is_refused(body):
    async with served() as client:
        assert (await client.post("/seed_session", body, 400))["detail"]
