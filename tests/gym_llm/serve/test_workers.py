"""Several processes behind one port: any of them answers for a session that one of them has."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from testing import in_loop, row

from gym_llm.errors import UsageError
from gym_llm.serve import EnvWorkers

pytestmark = pytest.mark.slow
ID = "gym_llm/FollowUp-v0"
TASKS = [row("A?", expected_answer="yes", follow_ups=["And?"] * 9)]
PLAIN = ["plain_wire:PlainWire"]


@asynccontextmanager
async def serving(workers: int = 2, **options: Any) -> AsyncGenerator[EnvWorkers, None]:
    async with EnvWorkers(ID, workers=workers, protocols=PLAIN, tasks=TASKS, port=0, **options) as server:
        yield server


async def ask(url: str, method: str, path: str, **options: Any) -> tuple[int, Any]:
    """Ask on a connection of its own, which may be any worker's."""
    async with aiohttp.request(method, f"{url}{path}", **options) as answer:
        return answer.status, await answer.json(content_type=None)


async def metrics(url: str) -> dict[str, float]:
    async with aiohttp.request("GET", f"{url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


@in_loop
async def test_any_worker_answers_for_a_session_of_one():
    async with serving() as server:
        opened = [(await ask(server.url, "POST", "/plain"))[1] for _ in range(24)]
        assert {session["session"][:5] for session in opened} == {"w0g0-", "w1g0-"}
        for session in opened:
            for _ in range(2):
                status, step = await ask(
                    server.url, "POST", "/plain/step", headers={"X-Session": session["session"]}, json={"say": "no"}
                )
                assert (status, step["pid"]) == (200, session["pid"])
        told = await metrics(server.url)
        assert told["gym_llm_sessions_open"] == 24
        assert told["gym_llm_sessions_capacity"] == 16_384
        assert told["gym_llm_server_processes"] == 2
        labels = 'env="gym_llm/FollowUp-v0",wire="plain_wire:PlainWire"'
        assert told[f"gym_llm_step_seconds_count{{{labels}}}"] == 48


@in_loop
async def test_a_name_of_the_clients_own_is_one_workers_and_a_socket_comes_back_to_its_session():
    async with serving() as server, aiohttp.ClientSession() as client:
        for name in map(str, range(8)):
            _, opened = await ask(server.url, "POST", "/plain", headers={"X-Name": name})
            assert opened["session"] == name
            assert (await ask(server.url, "POST", "/plain", headers={"X-Name": name}))[0] == 404
            for _ in range(3):
                async with client.ws_connect(f"{server.url}/plain/ws?session_id={name}") as socket_:
                    await socket_.send_str("who")
                    assert (await socket_.receive_json()) == {"session": name, "pid": opened["pid"]}
                    await socket_.send_bytes(data := os.urandom(300_000))
                    assert await socket_.receive_bytes() == data[::-1]


@in_loop
async def test_a_worker_that_dies_is_started_again_and_its_sessions_are_lost():
    async with serving() as server:
        opened = [(await ask(server.url, "POST", "/plain"))[1] for _ in range(12)]
        (dead, lost), (_, kept) = (
            (number, [s["session"] for s in opened if s["session"][1] == number]) for number in "01"
        )
        pid = next(session["pid"] for session in opened if session["session"] == lost[0])
        mine = {"X-Session": lost[0]}
        with suppress(aiohttp.ClientError):  # the dying worker resets its connections; the other one answers
            status, _ = await ask(server.url, "POST", "/plain/step", headers=mine, json={"die": True})
            assert status == 404
        async with asyncio.timeout(30):  # until then the kernel may still give it connections
            while psutil.pid_exists(pid):
                await asyncio.sleep(0.01)
        for _ in range(4):
            for session in lost:
                status, said = await ask(server.url, "POST", "/plain/step", headers={"X-Session": session}, json={})
                assert (status, said["plain"]) == (404, "SessionLost")
            for session in kept:
                step = await ask(server.url, "POST", "/plain/step", headers={"X-Session": session}, json={"say": "no"})
                assert step[0] == 200
            await asyncio.sleep(0.5)
        async with asyncio.timeout(60):
            while (await metrics(server.url))["gym_llm_server_processes"] < 2:
                await asyncio.sleep(0.1)
            while not (await ask(server.url, "POST", "/plain"))[1]["session"].startswith(f"w{dead}g1-"):
                pass


@in_loop
async def test_room_is_that_of_all_workers_together():
    async with serving(capacity=8) as server, aiohttp.ClientSession() as client:  # one connection: one worker's
        for _ in range(8):
            async with client.post(f"{server.url}/plain") as answer:
                assert answer.status == 200
        async with client.post(f"{server.url}/plain") as answer:
            assert (answer.status, (await answer.json())["plain"]) == (503, "AtCapacity")


@in_loop
async def test_the_listener_for_the_others_is_nobody_elses():
    async with serving(token="let-me-in-9!") as server:
        assert server._folder is not None
        folder = Path(server._folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        path = next(folder.glob("*.sock"))
        for headers in ({}, {"X-Gym-LLM-Inner": "x"}, {"Authorization": "Bearer let-me-in-9!"}):
            client = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path)))
            async with client, client.get("http://inner/room", headers=headers) as answer:
                assert answer.status == 401
        headers = {"Authorization": "Bearer let-me-in-9!", "X-Gym-LLM-Inner": server._secret}
        assert (await ask(server.url, "GET", "/room", headers=headers))[0] == 404
        assert (await ask(server.url, "GET", "/metrics", headers={"X-Gym-LLM-Inner": server._secret}))[0] == 401


@in_loop
async def test_what_cannot_be_served_is_said_and_leaves_no_process():
    before = set(psutil.Process().children())
    with pytest.raises(UsageError, match="workers"):
        EnvWorkers(ID, workers=0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = EnvWorkers(ID, workers=2, protocols=PLAIN, port=taken.getsockname()[1])
        with pytest.raises(UsageError, match="Cannot listen on"):
            await server.__aenter__()
    async with serving() as first:
        with pytest.raises(UsageError, match="Cannot listen on"):
            await EnvWorkers(ID, workers=2, protocols=PLAIN, port=first.port).__aenter__()
    assert set(psutil.Process().children()) <= before


@in_loop
async def test_every_wires_sessions_are_found_from_any_worker():
    """Cookies of NeMo Gym's, names of its environment servers, headers of MCP's, ids of OpenEnv's."""
    async with EnvWorkers(ID, workers=2, tasks=TASKS, port=0) as server:
        url, task = server.url, row("B?", expected_answer="yes", follow_ups=["And?"] * 9)
        for _ in range(4):
            async with aiohttp.request("POST", f"{url}/seed_session", json=task) as answer:
                cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
            for _ in range(4):  # a tool that is not there, of a session that is
                status, _ = await ask(url, "POST", "/nothing", json={}, headers=cookie)
                assert status == 200
            initialize = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            }
            headers = {"Accept": "application/json, text/event-stream"}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}
            async with aiohttp.request("POST", f"{url}/mcp", json=body, headers=headers) as answer:
                headers["mcp-session-id"] = answer.headers["mcp-session-id"]
            for name in ("reset", "submit", "submit"):
                arguments = {"answer": "no"} if name == "submit" else {"task_index": 0}
                body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
                body["params"] = {"name": name, "arguments": arguments}
                async with aiohttp.request("POST", f"{url}/mcp", json=body, headers=headers) as answer:
                    assert (answer.status == 200 and "And?" in await answer.text()) or name == "reset"
            body = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
            _, made = await ask(url, "POST", "/mcp", json=body)
            socket_url = f"{url}/ws?session_id={made['result']['session_id']}"
            async with aiohttp.ClientSession() as client:
                for turn in range(4):  # each time on a new connection
                    async with client.ws_connect(socket_url) as socket_:
                        await socket_.send_json(
                            {"type": "step", "data": {"output": "no"}} if turn else {"type": "reset"}
                        )
                        assert (await socket_.receive_json())["type"] == "observation"
                        await socket_.send_json({"type": "state"})
                        assert (await socket_.receive_json())["data"]["step_count"] == turn
        named = {"resources_session_id": "mine", "episode_id": {"rollout_id": "r", "attempt": 0}}
        seed = {**named, "task_id": {"taskset": "t", "task_id": "1"}, "task_data": {"expected_answer": "yes"}}
        answers = [await ask(url, "POST", "/seed_session", json=seed) for _ in range(4)]
        assert {status for status, _ in answers} == {200}
        assert (await metrics(url))["gym_llm_sessions_open"] == 4 * 3 + 1


@in_loop
async def test_a_tool_call_to_a_killed_workers_session_says_that_it_is_lost():
    async with EnvWorkers(ID, workers=2, tasks=TASKS, protocols=["nemo"], port=0) as server:
        async with aiohttp.request("POST", f"{server.url}/seed_session", json=TASKS[0]) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
        number = int(cookie.partition("=w")[2][0])
        psutil.Process(server._workers[number]._process.pid).kill()  # type: ignore[union-attr]
        async with asyncio.timeout(60):
            for path in ("/get_weather", "/step"):
                while True:
                    with suppress(aiohttp.ClientError):  # the kernel gave the connection to the dying process
                        body = {"output": []} if path == "/step" else {}
                        status, said = await ask(server.url, "POST", path, json=body, headers={"Cookie": cookie})
                        break
                assert (status, said["failure_kind"]) == (404, "session_lost"), said
        unsigned = {"Cookie": cookie[:-3] + "AAA"}
        status, said = await ask(server.url, "POST", "/get_weather", json={}, headers=unsigned)
        assert status == 404 and "failure_kind" not in said


_SCRIPT = """
import asyncio, sys
from gym_llm.serve import EnvWorkers

async def main():
    async with EnvWorkers("gym_llm/Weather-v0", workers=2, protocols=["plain_wire:PlainWire"], port=0) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_workers_end_with_a_parent_that_is_killed_and_leave_nothing_behind():
    folder = tempfile.mkdtemp(prefix="gl")  # not pytest's, whose names are too long for a Unix socket
    environment = {**os.environ, "TMPDIR": folder}
    arguments = [sys.executable, "-c", _SCRIPT]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://")
        children = psutil.Process(process.pid).children()
        assert len(os.listdir(folder)) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(children) == 2
    assert psutil.wait_procs(children, timeout=20)[1] == []
    os.rmdir(folder)  # it is empty again
