"""A model whose calls are addresses of the server gains nothing: the episode is worth what it is worth in a rollout."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nemo_client import Client, served
from testing import Item, function_call, in_loop, message_item, row

PARIS = {**row("What is the weather in Paris?"), "expected_city": "Paris"}
OSLO = {**row("What is the weather in Oslo?"), "expected_city": "Oslo"}


async def play(client: Client, task: dict[str, Any], *calls: tuple[str, Any]) -> Any:
    """What an agent does with a model that makes these calls; the verdict."""
    await client.post("/seed_session", task)
    said: list[Item] = []
    for number, (name, arguments) in enumerate(calls):
        async with client.http.post(f"/{name}", json=arguments) as reply:
            output = await reply.text()
        said.append(function_call(name, arguments, f"call_{number}"))
        said.append({"type": "function_call_output", "call_id": f"call_{number}", "output": output})
    return await client.verify(task, *said, message_item("Cold."))


LOOK = ("get_weather", {"city": "Oslo"})
RIGHT = ("get_weather", {"city": "Paris"})
VERIFY = {**OSLO, "response": {"output": [message_item("Cold.")]}}
TRICKS = [
    ("close_session", {}),
    ("close", {}),
    ("seed_session", OSLO),
    ("reset", OSLO),
    ("verify", VERIFY),
    ("verify", {**PARIS, "response": {"output": [message_item("Cold.")]}}),
    ("step", {**PARIS, "response": {"output": [message_item("Cold.")]}}),
    ("aggregate_metrics", {"verify_responses": []}),
    ("close_session?x=1", {}),
    ("close#x", {}),
    ("./close_session", {}),
    ("Weather-v0/close_session", {}),
    ("%63lose_session", {}),
    ("seed_session?", OSLO),
    ("x/../reset", OSLO),
    ("verify?", VERIFY),
]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: json.dumps(trick)[:40])
@in_loop
async def test_tricks_are_unknown_tools(trick: tuple[str, Any]):
    async with served() as client:
        lost = await play(client, PARIS, trick, LOOK)
        assert (lost["reward"], lost["mask_sample"]) == (0.0, False)
        won = await play(client, PARIS, RIGHT, trick)
        assert (won["reward"], won["mask_sample"]) == (1.0, False)
        assert len(client.sessions) == 0 or any(name in trick[0] for name in ("seed_session", "reset"))


@in_loop
async def test_an_episode_that_an_agent_began_over_another_wire_is_not_the_tasks():
    async with served(protocols=("openenv", "nemo", "mcp")) as client:
        seeded = await client.post("/seed_session", PARIS)
        mine = {"session_id": next(iter(seeded["mcp"]["headers"].values()))}
        await client.post("/reset", {**mine, "task": OSLO})
        await client.post("/step", {**mine, "action": {"output": [function_call("get_weather", {"city": "Oslo"})]}})
        assert (await client.post("/step", {**mine, "action": {"output": "Cold."}}))["reward"] == 1.0
        verdict = await client.verify(PARIS, message_item("Cold."))
        assert (verdict["reward"], verdict["mask_sample"]) == (0.0, False)  # of its items alone
