"""Servers that take weights: a real one of the pocket model, and what it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from changing_weights import POCKET, answers_during, old_and_new, scores
from testing import in_loop

import gym_llm
from gym_llm import make_engine
from gym_llm.engines.model_server import ModelServer
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.tokens.weight_versions import each_version

TOKEN = "sesame-4711-open"
LONG: Any = {"input": [{"role": "user", "content": "Tell me a tale."}], "max_output_tokens": 200}


@pytest.fixture(scope="module")
def models() -> list[Any]:
    return old_and_new()


def served(token: str | None = TOKEN, engine: str = "pocket") -> ModelServer:
    return ModelServer(make_engine(engine), port=0, token=token)


@pytest.mark.parametrize("options", [{"api": "responses"}, {"api": "chat", "token_ids": True}])
@in_loop
async def test_a_served_model_takes_weights_in_the_midst_of_answers(options: Any, models: list[Any]) -> None:
    async with (
        served() as server,
        make_engine(server.url, api_key=TOKEN, takes_weights="gym_llm", **options) as engine,
    ):
        assert engine.capabilities.weights and engine.weight_version == 0

        async def change() -> None:
            await asyncio.sleep(0.15)
            await engine.update_weights(models[1].state_dict().items(), mode="recompute")
            assert engine.weight_version == server.engine.weight_version == 1

        mixed = 0
        for response in await answers_during(change, engine, LONG, 8):
            item = response["output"][-1]
            prompt, sampled = item["prompt_token_ids"], item["generation_token_ids"]
            versions = each_version(item.get("generation_weight_versions"), len(sampled))
            mixed += len(set(versions)) > 1
            given = [scores(model, prompt + sampled)[len(prompt) - 1 :] for model in models]
            right = [given[version][place] for place, version in enumerate(versions)]
            assert item["generation_log_probs"] == pytest.approx(right, abs=1e-4)
        assert mixed and set(versions) == {1}
    async with served() as server, make_engine(server.url, api_key=TOKEN, takes_weights="gym_llm") as engine:
        await engine.update_weights(models[1].state_dict().items(), version=7)
        async with make_engine(server.url, api_key=TOKEN, takes_weights="gym_llm") as other:
            assert other.weight_version == 7


@in_loop
async def test_a_stream_gives_its_server_weights(models: list[Any]) -> None:
    options: Any = {"api": "responses", "api_key": TOKEN, "takes_weights": "gym_llm"}
    async with (
        served() as server,
        gym_llm.stream(
            "gym_llm/Arithmetic-v0", server.url, group_size=2, concurrency=4, engine_options=options
        ) as groups,
    ):
        await anext(groups)
        await groups.update_weights(models[1].state_dict().items())
        while True:
            segments = [segment for record in await anext(groups) for segment in record["trajectory"]]
            if all(set(segment.get("weight_versions", ())) >= {1} for segment in segments):
                break
        assert groups.weight_version == 1


@in_loop
async def test_weights_are_behind_the_key_and_on_loopback(tmp_path: Path) -> None:
    async with served() as server, aiohttp.ClientSession() as session:
        url = f"{server.url}/weights"
        async with session.post(url, json={"folder": POCKET}) as reply:
            assert reply.status == 401
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        for wrong in ({}, {"folder": 3}, {"folder": POCKET, "mode": "now"}, {"folder": str(tmp_path)}):
            async with session.post(url, json=wrong) as reply:
                assert reply.status == 400, wrong
        async with session.post(url, json={"folder": POCKET, "version": -1}) as reply:
            assert reply.status == 400 and server.engine.weight_version == 0
        async with session.post(url, json={"folder": POCKET}) as reply:
            assert reply.status == 200 and await reply.json() == {"weight_version": 1}
    async with (
        served(token=None) as server,
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}/weights", json={"folder": POCKET}) as reply,
    ):
        assert reply.status == 403
    async with served(engine="random") as server:
        with pytest.raises(EngineUnavailable, match="takes no weights"):
            async with make_engine(server.url, api_key=TOKEN, takes_weights="gym_llm"):
                pass
        with pytest.raises(EngineUnavailable, match="VLLM_SERVER_DEV_MODE"):
            async with make_engine(server.url, api_key=TOKEN, takes_weights="vllm"):
                pass


@in_loop
async def test_what_cannot_be_replaced_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="takes_weights is vllm"):
        make_engine("http://localhost:1/v1", takes_weights=True)
    closed: Any = make_engine("http://localhost:1/v1", takes_weights="gym_llm")
    with pytest.raises(EngineError, match="not running"):
        await closed.update_weights(POCKET)
    async with served() as server:
        async with make_engine(server.url, api_key=TOKEN) as plain:
            assert not plain.capabilities.weights
            with pytest.raises(EngineError, match="takes_weights"):
                await plain.update_weights(POCKET)
        async with make_engine(server.url, api_key=TOKEN, takes_weights="gym_llm") as engine:
            with pytest.raises(FileNotFoundError):
                await engine.update_weights(str(tmp_path))
            with pytest.raises(ValueError, match="mode"):
                await engine.update_weights(POCKET, mode="now")
            (tmp_path / "model.safetensors").write_bytes(b"no")
            with pytest.raises(EngineError, match="not replaced"):
                await engine.update_weights(str(tmp_path))
            assert engine.weight_version == 0 and (await engine.respond(LONG))["output"]
            with pytest.raises(EngineError, match="level=0"):
                await engine.sleep(1)
            await engine.sleep(0)
            asked = asyncio.create_task(engine.respond(LONG))
            await asyncio.sleep(0.05)
            assert not asked.done()
            await engine.wake_up()
            assert (await asked)["output"]
