"""The tokenizer of a model that a server serves under a name of its own."""

import time
from typing import Any

import pytest
from aiohttp import web
from testing import POCKET, in_loop, serving

from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.http_reading import model_root
from gym_llm.engines.specs import make_engine
from gym_llm.errors import EngineUnavailable

BASE = {"id": "served", "root": "Qwen/Qwen3-4B", "parent": None}


@pytest.mark.parametrize(
    ("model", "root"),
    [
        (BASE, "Qwen/Qwen3-4B"),
        ({"id": "served", "root": POCKET}, POCKET),
        ({"id": "adapter", "root": "/adapters/7", "parent": "served"}, "Qwen/Qwen3-4B"),
        ({"id": "served", "root": "/models/on/another/machine"}, ""),
        ({"id": "served", "root": "./here"}, ""),
        ({"id": "served", "root": 7}, ""),
        ({"id": "served"}, ""),
        ({}, ""),
    ],
)
def test_a_root_is_what_a_tokenizer_can_be_loaded_from(model: dict[str, Any], root: str) -> None:
    assert model_root(model, [BASE]) == root


@in_loop
async def test_the_tokenizer_is_the_one_of_the_model_that_is_served() -> None:
    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "served-name", "root": POCKET}]})

    async with (
        serving({"/v1/models": models}) as url,
        HTTPEngine(f"{url}/v1", api="completions") as engine,
    ):
        assert engine.model == "served-name" and engine.prompt_ids({"input": "Hi"})


@in_loop
async def test_a_name_that_no_hub_answers_for_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "served-name"}]})

    async with serving({"/v1/models": models}) as url:
        engines = HTTPEngine(f"{url}/v1", api="completions"), make_engine("transformers:served-name")
        for engine in engines:
            began = time.monotonic()
            with pytest.raises(EngineUnavailable, match="served-name"):
                await engine.start()
            assert time.monotonic() - began < 10
