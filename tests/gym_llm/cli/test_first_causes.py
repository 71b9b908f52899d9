"""Servers that misbehave: the cause is on the terminal at once, and again at the end."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from socket import SO_LINGER, SOL_SOCKET, create_server
from typing import Any

import pytest
from aiohttp import web

import gym_llm
from gym_llm.cli import main
from gym_llm.engines import make_engine

Capture = pytest.CaptureFixture[str]
SPENT = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": None}}
LIMITED = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}


async def reset(request: web.BaseRequest) -> web.Response:
    assert request.transport is not None
    request.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()
    return web.Response()


async def slow(request: web.BaseRequest) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


def answers(body: Any, status: int = 200, **headers: str) -> Callable[[web.BaseRequest], Any]:
    async def answer(request: web.BaseRequest) -> web.Response:
        if isinstance(body, str):
            return web.Response(text=body, status=status, content_type="text/html")
        return web.json_response(body, status=status, headers=headers)

    return answer


SERVERS: dict[str, tuple[Callable[[web.BaseRequest], Any], str]] = {
    "key": (answers({"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, 401), "invalid_api_key"),
    "model": (answers({"error": {"message": "The model `m` does not exist"}}, 404), "does not exist"),
    "path": (answers("<h1>Not Found</h1>", 404), 'answered 404: the HTML page "Not Found"'),
    "html": (answers("<!DOCTYPE html><h1>Sign in</h1>"), 'the HTML page "Sign in"'),
    "bytes": (answers("\0\1\2\3" * 100), "400 bytes that are not text"),
    "rate": (answers(LIMITED, 429, **{"Retry-After": "40"}), "waiting 40 s"),
    "quota": (answers(SPENT, 429), "quota is spent"),
    "balance": (answers({"error": {"message": "Insufficient Balance"}}, 402), "quota is spent"),
    "broken": (answers({"error": {"message": "CUDA out of memory"}}, 500), "CUDA out of memory"),
    "empty": (answers(""), "not JSON"),
    "shape": (answers({"hello": 1}), "not a chat completion"),
    "reset": (reset, "reset"),
    "slow": (slow, "No answer within 1 s"),
}
WAITS = ("rate", "broken", "reset", "html", "bytes", "empty", "shape")
"""Failures that may pass: the request is sent again, so that the run has no end to look at here."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with a path for each way to misbehave."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"data": [{"id": "m"}]})
        found: web.StreamResponse = await SERVERS[request.path.split("/")[1]][0](request)
        return found

    listener, loop = create_server(("127.0.0.1", 0)), asyncio.new_event_loop()

    async def listen() -> web.Server:
        server = web.Server(handle, access_log=None)
        await loop.create_server(server, sock=listener)
        return server

    server = loop.run_until_complete(listen())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    asyncio.run_coroutine_threadsafe(server.shutdown(0), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


@pytest.mark.parametrize("command", ["eval", "rollout"])
@pytest.mark.parametrize("name", [name for name in SERVERS if name not in WAITS])
def test_a_cause_is_printed_at_once_and_at_the_end(
    address: str,
    in_an_empty_folder: None,
    capsys: Capture,
    caplog: pytest.LogCaptureFixture,
    name: str,
    command: str,
) -> None:
    url, cause = f"{address}/{name}/v1", SERVERS[name][1]
    options = ["--engine-option", "timeout=1", "--retries", "0"]
    assert main([command, "gym_llm/Arithmetic-v0", "--limit", "3", "--engine", url, "--output", "o", *options]) == 1
    said = capsys.readouterr()
    masked = [message for message in caplog.messages if message.startswith("masked (")]
    assert len(masked) == 1 and cause in masked[0]
    assert cause in said.out and "\ncomplete" not in said.out and "Traceback" not in said.err
    assert "matplotlib" not in said.out or find_spec("matplotlib") is None


@pytest.mark.parametrize("name", WAITS)
def test_a_request_that_is_sent_again_says_why_within_two_seconds(address: str, name: str) -> None:
    async def ask() -> None:
        async with make_engine(f"{address}/{name}/v1") as engine:
            await asyncio.wait_for(engine.respond({"input": [{"role": "user", "content": "2+2?"}]}), 2)

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("gym_llm")
    logger.addHandler(handler)
    try:
        with pytest.raises(Exception) as caught:
            asyncio.run(ask())
    finally:
        logger.removeHandler(handler)
    assert SERVERS[name][1] in f"{lines} {caught.value}"
    assert len([line for line in lines if "answered 429" in line]) <= 1


def test_an_account_without_credit_ends_the_run_at_its_first_answer(
    address: str, in_an_empty_folder: None, capsys: Capture
) -> None:
    began, url = time.monotonic(), f"{address}/quota/v1"
    arguments = ["--limit", "500", "--engine", url, "--output", "o", "--max-failures", "any"]
    assert main(["rollout", "gym_llm/Arithmetic-v0", *arguments]) == 1
    assert time.monotonic() - began < 10
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "rollout"])
def test_a_limit_over_the_number_of_tasks_says_so(in_an_empty_folder: None, capsys: Capture, command: str) -> None:
    arguments = [command, "gym_llm/MultipleChoice-v0", "--engine", "random", "--output"]
    assert main([*arguments, "a", "--limit", "50"]) == 0
    assert "has 5 tasks, fewer than the limit of 50: all are played." in capsys.readouterr().err
    assert main([*arguments, "b", "--episodes", "7"]) == 0
    assert "7 episodes play each up to 2 times" in capsys.readouterr().err


def test_rollout_in_python_logs_the_cause_at_once_and_at_the_end(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async for _ in gym_llm.rollout("gym_llm/Arithmetic-v0", f"{address}/key/v1", limit=3):
            assert len(caplog.messages) == 1 and "invalid_api_key" in caplog.messages[0]

    asyncio.run(play())
    assert len(caplog.messages) == 2 and "No episode has a score" in caplog.messages[1]
