"""Answers that a server aborts for new weights: a server with vLLM's routes, and all that it may answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

import pytest
from aiohttp import web
from testing import in_loop

from gym_llm import make_engine
from gym_llm.errors import EngineError

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
REQUEST: Any = {"input": [{"role": "user", "content": "Count."}], "max_output_tokens": 60}
A = 65  # the id of a word; the next ones follow


class Aborting:
    """Samples an id each two milliseconds: A, A + 1, … by its place in the row, and 100 more with new weights."""

    def __init__(self, **changed: Any) -> None:
        self.changed = changed
        self.bodies: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.version = self.aborted = 0
        self.aborts = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.start = 0  # the first prompt's length

    async def completions(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        if len(self.bodies) <= self.changed.get("busy", 0):
            return web.json_response({"error": "busy"}, status=429, headers={"Retry-After": "2"})
        self.start = self.start or len(body["prompt"])
        place, ids, finish = len(body["prompt"]) - self.start, [], "length"
        aborts = self.aborts
        while len(ids) < body["max_tokens"] and not aborts.is_set():
            if self.goes_on.is_set():
                ids.append(A + place + len(ids) + 100 * self.version)
            await asyncio.sleep(0.002)
        if aborts.is_set() or len(self.bodies) == self.changed.get("foreign"):
            finish = "abort"
        choice: dict[str, Any] = {
            "text": "?",
            "token_ids": ids,
            "logprobs": {"token_logprobs": [-0.25 - self.version] * len(ids), "tokens": [f"t{i}" for i in ids]},
            "finish_reason": finish,
        }
        if finish == "abort":
            choice.update(self.changed.get("cut", {}))
        elif self.aborted:
            choice.update(self.changed.get("last", {}))
        self.aborted += finish == "abort"
        return web.json_response({"choices": [choice]})

    async def pause(self, request: web.Request) -> web.Response:
        self.calls.append(f"pause {request.query['mode']}")
        if request.query["mode"] == "abort":
            if self.changed.get("no_pause"):
                return web.json_response({"error": "no"}, status=500)
            self.goes_on.clear()
            self.aborts.set()
            self.aborts = asyncio.Event()
        return web.json_response({})

    async def reload(self, request: web.Request) -> web.Response:
        self.calls.append("reload")
        if self.changed.get("hangs"):
            await asyncio.sleep(60)
        self.version += 1
        return web.json_response({})

    async def resume(self, request: web.Request) -> web.Response:
        self.calls.append("resume")
        self.goes_on.set()
        return web.json_response({})

    @asynccontextmanager
    async def engine(self, **options: Any) -> AsyncIterator[Any]:
        async def models(request: web.Request) -> web.Response:
            return web.json_response({"data": [{"id": "m", "max_model_len": 4096}]})

        async def is_paused(request: web.Request) -> web.Response:
            return web.json_response({"is_paused": False})

        app = web.Application()
        routes = [web.get("/v1/models", models), web.get("/is_paused", is_paused), web.post("/pause", self.pause)]
        routes += [web.post("/v1/completions", self.completions), web.post("/resume", self.resume)]
        app.add_routes([*routes, web.post("/collective_rpc", self.reload)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        given = {"api": "completions", "tokenizer": POCKET, "takes_weights": "vllm", "max_retries": 0, **options}
        try:
            async with make_engine(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", **given) as engine:
                yield engine
        finally:
            await runner.cleanup()


async def updated(engine: Any, server: Aborting, request: Any = REQUEST, *, after: int = 1, times: int = 1) -> Any:
    """The answer to a request in the midst of which the weights change."""
    asked = asyncio.create_task(engine.respond(request, episode_id="0-0"))
    for number in range(times):
        while len(server.bodies) < after + number:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.03)
        await engine.update_weights(POCKET, mode="recompute")
    return await asyncio.wait_for(asked, 20)


@in_loop
async def test_an_answer_goes_on_with_each_of_the_weights() -> None:
    server = Aborting()
    async with server.engine() as engine:
        response = await updated(engine, server, {**REQUEST, "seed": 7, "top_logprobs": 0}, times=2)
    item = response["output"][-1]
    runs, ids = item["generation_weight_versions"], item["generation_token_ids"]
    assert [version for version, _ in runs] == [0, 1, 2] and sum(count for _, count in runs) == len(ids) == 60
    versions = [version for version, count in runs for _ in range(count)]
    assert ids == [A + place + 100 * version for place, version in enumerate(versions)]
    assert item["generation_log_probs"] == [-0.25 - version for version in versions]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    first, second, third = server.bodies
    assert second["prompt"] == first["prompt"] + ids[: runs[0][1]] and len(third["prompt"]) + third["max_tokens"] == (
        len(first["prompt"]) + 60
    )
    assert len({body["seed"] for body in server.bodies}) == 3
    assert server.calls == ["pause abort", "pause wait", "reload", "resume"] * 2


@pytest.mark.parametrize("more", [{"stop": ["x"]}, {"presence_penalty": 1.0}])
@in_loop
async def test_what_needs_the_whole_answer_begins_anew(more: dict[str, Any]) -> None:
    server = Aborting()
    async with server.engine(extra_body=more) as engine:
        response = await updated(engine, server)
    item = response["output"][-1]
    assert item["generation_weight_versions"] == [[1, 60]]
    assert item["generation_token_ids"] == [A + place + 100 for place in range(60)]
    assert server.bodies[0] == server.bodies[1]


@in_loop
async def test_an_answer_that_others_aborted_is_incomplete() -> None:
    server = Aborting(foreign=1)
    async with server.engine() as engine:
        response = await engine.respond(REQUEST)
        assert response["incomplete_details"] == {"reason": "abort"} and len(server.bodies) == 1


@in_loop
async def test_what_others_abort_after_new_weights_is_incomplete_and_loses_nothing() -> None:
    server = Aborting(foreign=2)
    async with server.engine() as engine:
        response = await updated(engine, server)
    item = response["output"][-1]
    (first, second) = item["generation_weight_versions"]
    assert response["incomplete_details"] == {"reason": "abort"} and len(server.bodies) == 2
    ids = item["generation_token_ids"]
    assert ids == [A + place + 100 * (place >= first[1]) for place in range(first[1] + second[1])]


@in_loop
async def test_requests_that_wait_for_a_sleeping_server_end_when_the_engine_closes() -> None:
    async with Aborting().engine(timeout=30) as engine:
        await engine.sleep(0)
        asked = asyncio.create_task(engine.respond(REQUEST))
        await asyncio.sleep(0.05)
        await engine.aclose()
        with pytest.raises(EngineError, match="was closed"):
            await asyncio.wait_for(asked, 5)


@in_loop
async def test_an_engine_closes_while_a_server_reads_weights() -> None:
    server = Aborting(hangs=True)
    async with server.engine() as engine:
        update = asyncio.create_task(engine.update_weights(POCKET))
        while "reload" not in server.calls:
            await asyncio.sleep(0.001)
        await asyncio.wait_for(engine.aclose(), 5)
        with pytest.raises(EngineError):
            await asyncio.wait_for(update, 5)


@in_loop
async def test_one_that_is_aborted_with_its_last_token_has_reached_its_limit() -> None:
    server = Aborting(cut={"token_ids": [A] * 60, "logprobs": {"token_logprobs": [-1.0] * 60}})
    async with server.engine() as engine:
        response = await updated(engine, server)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"} and len(server.bodies) == 1
    assert response["output"][-1]["generation_token_ids"] == [A] * 60
    assert "generation_weight_versions" not in response["output"][-1]  # all of version 0


@pytest.mark.parametrize(
    "cut",
    [
        {"token_ids": ["a"]},
        {"token_ids": [5, 6], "logprobs": {"token_logprobs": [-1.0]}},
        {"token_ids": [5], "logprobs": [1]},
        {"token_ids": [5], "logprobs": {"token_logprobs": [float("inf")]}},
    ],
)
@in_loop
async def test_what_is_invalid_of_a_cut_answer_fails_alone(cut: dict[str, Any]) -> None:
    server = Aborting(cut=cut)
    async with server.engine() as engine:
        with pytest.raises(EngineError, match="invalid tokens") as failure:
            await updated(engine, server)
        assert failure.value.failure_kind == "agent_run_error"
        assert engine.weight_version == 1
        assert (await engine.respond(REQUEST))["output"][-1]["generation_weight_versions"] == [[1, 60]]


@pytest.mark.parametrize(
    "last",
    [
        {"token_ids": None, "logprobs": None},
        {"token_ids": [5, 6], "logprobs": {"token_logprobs": [-1.0]}},
        {"logprobs": None},
        {"token_ids": "5"},
    ],
)
@in_loop
async def test_what_is_invalid_of_a_last_part_loses_no_token_silently(last: dict[str, Any]) -> None:
    server = Aborting(last=last)
    async with server.engine() as engine:
        with pytest.raises(EngineError, match="invalid tokens"):
            await updated(engine, server)


@in_loop
async def test_a_last_part_need_not_say_why_it_ends() -> None:
    server = Aborting(last={"finish_reason": None})
    async with server.engine() as engine:
        item = (await updated(engine, server, {**REQUEST, "seed": (1 << 63) - 1}))["output"][-1]
        assert len(item["generation_token_ids"]) == 60 and len(item["generation_weight_versions"]) == 2
        assert all(0 <= body["seed"] < 1 << 63 for body in server.bodies)


@in_loop
async def test_a_server_that_cannot_abort_goes_on_with_its_weights() -> None:
    server = Aborting(no_pause=True)
    async with server.engine() as engine:
        asked = asyncio.create_task(engine.respond(REQUEST))
        await asyncio.sleep(0.05)
        with pytest.raises(EngineError, match="answered 500"):
            await engine.update_weights(POCKET, mode="recompute")
        assert server.calls == ["pause abort", "resume"] and engine.weight_version == 0
        for answer in (await asked, await engine.respond(REQUEST)):
            assert "generation_weight_versions" not in answer["output"][-1]


@in_loop
async def test_an_answer_begins_anew_only_once_and_weights_then_wait_for_it() -> None:
    server = Aborting()
    async with server.engine(extra_body={"stop": ["x"]}) as engine:
        asked = asyncio.create_task(engine.respond(REQUEST))
        for _ in range(6):
            await asyncio.sleep(0.02)
            await engine.update_weights(POCKET, mode="recompute")
        assert (await asyncio.wait_for(asked, 5))["output"][-1]["generation_weight_versions"] == [[1, 60]]
        assert len(server.bodies) == 2 and engine.weight_version == 6


@in_loop
async def test_weights_do_not_wait_for_a_request_that_is_tried_again_later() -> None:
    server = Aborting(busy=1)
    async with server.engine(max_retries=2, timeout=30) as engine:
        asked = asyncio.create_task(engine.respond(REQUEST))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await engine.update_weights(POCKET, mode="recompute")
        assert time.monotonic() - began < 1 and not asked.done()
        assert (await asked)["output"][-1]["generation_weight_versions"] == [[1, 60]]


@in_loop
async def test_a_cancelled_update_leaves_no_server_paused() -> None:
    server = Aborting()
    async with server.engine() as engine:
        asked = asyncio.create_task(engine.respond(REQUEST))
        await asyncio.sleep(0.05)
        update = asyncio.create_task(engine.update_weights(POCKET, mode="recompute"))
        await asyncio.sleep(0)
        update.cancel()
        with pytest.raises(asyncio.CancelledError):
            await update
        assert (await asyncio.wait_for(asked, 20))["output"]
        assert server.calls[-1] == "resume"


@in_loop
async def test_without_token_ids_an_answer_cannot_go_on() -> None:
    async with Aborting().engine(api="chat", tokenizer=None) as engine:
        with pytest.raises(EngineError, match=r"use mode='wait', not 'recompute'.*With api='completions'"):
            await engine.update_weights(POCKET, mode="recompute")
