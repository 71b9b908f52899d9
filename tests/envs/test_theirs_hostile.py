"""A hostile framework or server masks its own episodes, in time, and nobody else's."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hub_server import serving
from testing import function_call, in_loop, message, response

from gym_llm import Run
from gym_llm.engines import Engine
from gym_llm.envs.theirs.environments import home_of, python_of
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.peer_process import PeerProcess, RemotePlay
from gym_llm.serve import EnvServer

FOLDER = Path(__file__).parent / "theirs"
Handler = Callable[[web.Request], Any]


def row(**arguments: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": []}, "seed": 3, "arguments": arguments}


def records(env_id: str, rows: list[dict[str, Any]], engine: str | Engine, path: Path, **kwargs: Any) -> list[Any]:
    """Play rows all at once."""
    given = {"concurrency": len(rows), "retries": 0, "max_failures": None, "output": path}
    with Run(env_id, engine, tasks=rows, env_kwargs=kwargs, **given) as run:
        run.play()
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(found, key=lambda record: record["rollout_id"]["task_index"])


def check(found: list[Any], bad: dict[int, str], reward: float) -> None:
    """Only the bad rows are masked, each for its reason."""
    for place, record in enumerate(found):
        if place in bad:
            assert record["reward"] is None and bad[place] in record["error"], (place, record["error"])
        else:
            assert record["reward"] == reward, (place, record["error"])


def test_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    whys = {"Raises": "I raise.", "Exits": "ended its process", "NotANumber": "not a finite number"}
    whys |= {"TooLong": "16,777,216 characters", "NoTurn": ""}
    rows = [row(env="hostile_envs:Good-v0") for _ in range(12)]
    bad = {}
    for place, (name, why) in enumerate(whys.items()):
        rows.insert(2 * place, row(env=f"hostile_envs:{name}-v0"))
        bad[2 * place] = why
    played = records("gym_llm/Gymnasium-v0", rows, "constant:0", tmp_path / "played.jsonl", where="here")
    check(played, bad, 3.0)


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" " * (1 << 20))


async def dripping(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.1)


async def hanging(request: web.Request) -> web.Response:
    await asyncio.sleep(3_600)
    return web.Response()


async def cut(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def openenv_routes(play: Handler) -> dict[str, Handler]:
    async def schema(_: web.Request) -> web.Response:
        text = {"title": "SayAction", "properties": {"message": {"type": "string"}}, "required": ["message"]}
        return web.json_response({"action": text})

    async def metadata(_: web.Request) -> web.Response:
        return web.json_response({"name": "say", "description": "Say it."})

    return {"/schema": schema, "/metadata": metadata, "/ws": play}


def answering(*answers: str, flood: str = "") -> Handler:
    """A WebSocket that answers the messages with these, and then floods."""

    async def play(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        left = list(answers)
        async for _ in socket:
            if left:
                await socket.send_str(left.pop(0))
            while flood and not left:
                await socket.send_str(flood)
            if not left and not flood:
                await asyncio.sleep(3_600)
        return socket

    return play


def observation(**data: Any) -> str:
    return json.dumps({"type": "observation", "data": {"observation": {"message": "Go."}, **data}})


@pytest.mark.slow
def test_servers_of_openenv(tmp_path: Path) -> None:
    begun = observation(reward=0.25, done=False)
    good = answering(begun, observation(reward=1.0, done=True))
    hostile = {
        "longer than": answering(begun),
        "finite number": answering(begun, observation(reward=float("nan"), done=True)),
        "reward is a str": answering(begun, observation(reward="1", done=True)),
        "closed the connection": answering(begun, flood="x" * (1 << 24) + "x"),
        "not answer JSON": answering(begun, flood="x" * (1 << 20)),
    }
    kinds = [*((why, openenv_routes(play)) for why, play in hostile.items())]
    kinds += [("more than", {**openenv_routes(good), "/schema": endless})]
    kinds += [("longer than", {**openenv_routes(good), "/metadata": each}) for each in (dripping, hanging)]
    kinds += [("cannot be asked", {**openenv_routes(good), "/schema": cut})]
    path = tmp_path / "played.jsonl"
    played_beside(kinds, openenv_routes(good), "gym_llm/OpenEnv-v0", lambda url: row(url=url), 1.25, path)


@pytest.mark.slow
def test_servers_of_nemo_gym(tmp_path: Path) -> None:
    async def fine(_: web.Request) -> web.Response:
        return web.json_response({})

    def verdict(text: str) -> Handler:
        async def verify(_: web.Request) -> web.Response:
            return web.Response(text=text, content_type="application/json")

        return verify

    good = {"/seed_session": fine, "/verify": verdict('{"reward": 1.0}')}
    kinds = [
        ("finite number", {**good, "/verify": verdict('{"reward": NaN}')}),
        ("finite number", {**good, "/verify": verdict('{"reward": 1e999}')}),
        ("no reward", {**good, "/verify": verdict("[]")}),
        ("not answer JSON", {**good, "/verify": verdict("[" * 100_000)}),
        ("more than", {**good, "/verify": endless}),
        ("longer than", {**good, "/verify": dripping}),
        ("longer than", {**good, "/seed_session": hanging}),
        ("cannot be asked", {**good, "/seed_session": cut}),
    ]
    asked = {"responses_create_params": {"input": [{"role": "user", "content": "Hi"}]}}
    path = tmp_path / "played.jsonl"
    played_beside(kinds, good, "gym_llm/NeMoGym-v0", lambda url: row(url=url, row=asked), 1.0, path)


def played_beside(
    kinds: list[tuple[str, dict[str, Handler]]],
    good: dict[str, Handler],
    env_id: str,
    make_row: Callable[[str], dict[str, Any]],
    reward: float,
    path: Path,
) -> None:
    """Each hostile server has an episode beside one of a good server."""
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(application(each))) for each in (good, *(routes for _, routes in kinds))]
        rows = [make_row(url) for hostile in urls[1:] for url in (urls[0], hostile)]
        begun = time.monotonic()
        played = records(env_id, rows, "constant:Hi", path, step_seconds=3.0)
        assert time.monotonic() - begun < 30
    check(played, {2 * place + 1: why for place, (why, _) in enumerate(kinds)}, reward)


def application(routes: dict[str, Handler]) -> web.Application:
    made = web.Application()
    for path, handler in routes.items():
        made.router.add_route("*", path, handler)
    return made


async def events(request: web.Request) -> web.StreamResponse:
    """A stream of events without end, none of which is an answer."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    noise = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    while True:
        await response.write(f"event: message\ndata: {noise}\n\n".encode() * 100)


@pytest.mark.slow
@in_loop
async def test_servers_of_mcp_over_http(tmp_path: Path) -> None:
    """The good server is ours; its tool is called as the row expects."""
    if not (home := home_of(frameworks()["mcp"])).exists():
        pytest.skip(f"There is no environment of the package mcp: {home}.")

    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("http://127.0.0.1:9/mcp")

    async def garbage(_: web.Request) -> web.Response:
        return web.Response(text="[" * 100_000, content_type="application/json")

    hostile = (endless, dripping, hanging, cut, redirect, garbage, events)
    call = {"name": "get_weather", "arguments": {"city": "Rome"}}
    async with EnvServer("gym_llm/Weather-v0", protocols=["mcp"], port=0) as server:
        with ExitStack() as stack:
            urls = [stack.enter_context(serving(application({"/mcp": each}))) + "/mcp" for each in hostile]
            rows = [
                row(url=url, expected_calls=[call], seconds=8.0) for bad in urls for url in (f"{server.url}/mcp", bad)
            ]
            begun = time.monotonic()
            path = tmp_path / "played.jsonl"
            played = await asyncio.to_thread(records, "gym_llm/MCP-v0", rows, Caller(call), path, step_seconds=20.0)
            assert time.monotonic() - begun < 60
    check(played, {2 * place + 1: "MCP server" for place in range(len(hostile))}, 1.0)


SLOW_SERVER = """
import fcntl, json, sys, time
with open(__file__) as file:  # a busy machine: the servers that start at once share its time
    fcntl.flock(file, fcntl.LOCK_EX)
    time.sleep(0.5)
for line in sys.stdin:
    request = json.loads(line)
    method = request["method"]
    if "id" in request:
        answer = {"error": {"code": -32601, "message": method}}
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "slow", "version": "1"}}
            answer = {"result": {"protocolVersion": version, **about}}
        elif method == "tools/list":
            answer = {"result": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


@pytest.mark.slow
@in_loop
async def test_many_servers_of_mcp_start_in_turn(tmp_path: Path) -> None:
    """All of them would take 8 s to start at once, and each may take 6 s; one that is closed first never starts."""
    if not (home := home_of(frameworks()["mcp"])).exists():
        pytest.skip(f"There is no environment of the package mcp: {home}.")
    (tmp_path / "slow.py").write_text(SLOW_SERVER)
    arguments = {"command": ["python", str(tmp_path / "slow.py")], "answer": "yes", "seconds": 6.0}
    processes = PeerProcess("mcp", python_of(frameworks()["mcp"]), 60.0, children=1)
    plays = [RemotePlay(processes, arguments) for _ in range(17)]
    try:
        turns = [asyncio.create_task(play.reset(None)) for play in plays]
        await turns[0]
        await plays[-1].close()
        *started, closed = await asyncio.gather(*turns, return_exceptions=True)
    finally:
        await processes.aclose()
    assert [turn["tools"][0]["name"] for turn in started] == ["look"] * 16
    assert "closed before" in str(closed)


class Caller(Engine):
    """Begins our server's episode, makes one call, and then says that it is done."""

    model = "caller"

    def __init__(self, call: dict[str, Any]) -> None:
        self._calls = [function_call("reset", {}), function_call(call["name"], call["arguments"])]

    async def respond(self, request: Any, *, episode_id: str | None = None) -> Any:
        made = sum(item.get("type") == "function_call" for item in request["input"])
        return response(*([self._calls[made]] if made < len(self._calls) else message("Done.")))
