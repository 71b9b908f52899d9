"""NeMo Gym's own agents, of 0.4.0 and 0.7.0, play our environments with our model's server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import gymnasium as gym
import pytest
from aiohttp import web
from peers import in_peer
from testing import Item, function_call, response

import gym_llm
from gym_llm.engines.engine import Engine
from gym_llm.protocols.http.http_server import listening, url_of
from gym_llm.serve import EnvServer, ModelServer

_JSON = {"Content-Type": "application/json"}
VERSIONS = {"nemo_gym_4": "0.4.0", "nemo_gym_7": "0.7.0"}


class Scripted(Engine):
    """Looks the weather up, more or less; answers what is in the question; plays blackjack by one rule."""

    model = "scripted"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return response(*self._items(request["input"]), usage={**usage, **details})

    def _items(self, said: list[Item]) -> list[Item]:
        outputs = [item for item in said if item.get("type") == "function_call_output"]
        users = [item for item in said if item.get("role") == "user"]
        text = users[-1]["content"] if isinstance(users[-1]["content"], str) else users[-1]["content"][0]["text"]
        calls = [part.split("(") for part in text.split(" then ") if "(" in part]
        if len(outputs) < len(calls):
            name, arguments = calls[len(outputs)]
            return [function_call(name.strip(), arguments.rstrip(") "), f"call_{len(outputs)}")]
        part = {"type": "output_text", "annotations": [], "text": text.partition("say ")[2] or "<action>stand</action>"}
        return [{"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [part]}]


WEATHER = [
    ('get_weather({"city": "Paris"}) then say cold', "Paris"),
    ('get_weather({"city": "Oslo"}) then say cold', "Paris"),
    ('get_wether({"city": "Paris"}) then get_weather({"town": "Paris"}) then say sorry', "Paris"),
    ('get_wether({}) then get_weather({"city": " PARIS ", "more": [1]}) then say cold', "Paris"),
    ("say I do not know", "Paris"),
    ("say I do not know", None),
]


def weather_rows() -> list[dict[str, Any]]:
    tools = gym.make("gym_llm/Weather-v0").unwrapped.tool_schemas()  # type: ignore[attr-defined]
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": text}], "tools": tools},
            **({} if city is None else {"expected_city": city}),
        }
        for text, city in WEATHER
    ]


def math_rows() -> list[dict[str, Any]]:
    answers = ("\\boxed{4}", "\\boxed{5}", "4", "\\boxed{2+2}", "")
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": f"2 + 2? say {answer}"}]},
            "expected_answer": "4",
        }
        for answer in answers
    ]


def blackjack_rows() -> list[dict[str, Any]]:
    return [
        {"responses_create_params": {"input": [{"role": "user", "content": "Deal."}]}, "seed": seed}
        for seed in range(8)
    ]


def follow_up_rows() -> list[dict[str, Any]]:
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": "say red"}]},
            "follow_ups": ["say green", "say blue"],
            "expected_answer": expected,
        }
        for expected in ("blue", "red")
    ]


@asynccontextmanager
async def without_rollouts(model_url: str) -> AsyncGenerator[str, None]:
    """A proxy for what 0.7 asks at `/ng-rollout/ID/v1`, where a capture server would be."""
    async with aiohttp.ClientSession() as client:

        async def answer(http: web.Request) -> web.Response:
            async with client.post(f"{model_url}/responses", data=await http.read(), headers=_JSON) as reply:
                return web.Response(body=await reply.read(), status=reply.status, headers=_JSON)

        application = web.Application()
        application.router.add_post("/{path:(ng-rollout/[^/]+/)?v1/responses}", answer)
        async with listening(application, "127.0.0.1", 0) as port:
            yield url_of("127.0.0.1", port)


async def play(peer: str, who: str, env_id: str, rows: list[dict[str, Any]], file: Path) -> tuple[Any, list[Any], Any]:
    """What their agent makes of the rows, what a rollout makes of them, and our server's sessions."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    records = [record async for record in gym_llm.rollout(env_id, engine=Scripted(), tasks=rows)]
    records.sort(key=lambda record: record["rollout_id"]["task_index"])
    async with (
        EnvServer(env_id, protocols=["nemo"], port=0) as server,
        ModelServer(Scripted(), port=0) as model,
        without_rollouts(model.url) as url,
    ):
        said = await asyncio.to_thread(in_peer, peer, "nemo_agents.py", server.url, url, str(file), who)
        return said, records, server.sessions


PLAYED = [
    ("simple", "gym_llm/Weather-v0", weather_rows),
    ("simple", "gym_llm/MathVerify-v0", math_rows),
    ("gymnasium", "gym_llm/Weather-v0", weather_rows),
    ("gymnasium", "gym_llm/Blackjack-v0", blackjack_rows),
    ("gymnasium", "gym_llm/FollowUp-v0", follow_up_rows),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("peer", "who", "env_id", "rows"),
    [
        *((peer, *played) for peer in VERSIONS for played in PLAYED),
        ("nemo_gym_7", "environment", "gym_llm/Weather-v0", weather_rows),
    ],
)
def test_their_agents_get_a_rollouts_rewards(peer: str, who: str, env_id: str, rows: Any, tmp_path: Path) -> None:
    said, records, sessions = asyncio.run(play(peer, who, env_id, rows(), tmp_path / "rows.jsonl"))
    assert said["version"] == VERSIONS[peer]
    assert [result["reward"] for result in said["results"]] == [record["reward"] for record in records]
    assert len({record["reward"] for record in records}) > 1
    mean = sum(record["reward"] for record in records) / len(records)
    assert said["aggregated"]["agent_metrics"]["mean/reward"] == pytest.approx(mean)
    assert len(sessions) == 0
    assert outputs(said["results"]) == outputs(records)


def outputs(results: list[Any]) -> list[str]:
    """What tools have answered."""
    items = [item for result in results for item in result["response"]["output"]]
    return [item["output"] for item in items if item["type"] == "function_call_output"]
