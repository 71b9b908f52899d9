"""What an episode's failure is called, by what was raised; Python's groups of errors and HTTP clients' are known."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import httpx
import pytest
import requests

from gym_llm.errors import EngineError, JudgeError
from gym_llm.records.failures import failure_kind, failure_of


def of_httpx(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://localhost/judge")
    return httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, request=request))


def caused_by(cause: BaseException) -> Exception:
    """As clients raise their own error from a lower one."""
    try:
        try:
            raise cause
        except type(cause) as error:
            raise ValueError("the client's own") from error
    except ValueError as error:
        return error


class LikeOpenAI(Exception):
    """With its status, as openai's have it."""

    def __init__(self, status_code: Any) -> None:
        self.status_code = status_code


@pytest.mark.parametrize(
    "error, kind",
    [
        (of_httpx(429), "provider_quota_exhausted"),
        (of_httpx(500), "provider_unavailable"),
        (of_httpx(503), "provider_unavailable"),
        (of_httpx(404), "verifier_error"),
        (caused_by(of_httpx(503)), "provider_unavailable"),
        (LikeOpenAI(429), "provider_quota_exhausted"),
        (LikeOpenAI("429"), "verifier_error"),
        (aiohttp.ServerDisconnectedError(), "transport_peer_drop"),
        (aiohttp.ClientPayloadError(), "transport_peer_drop"),
        (httpx.RemoteProtocolError("no answer"), "transport_peer_drop"),
        (httpx.ReadError("cut"), "transport_peer_drop"),
        (httpx.ConnectError("nobody"), "transport_unreachable"),
        (httpx.ConnectTimeout("late"), "transport_timeout"),
        (httpx.UnsupportedProtocol("a bug"), "verifier_error"),
        (requests.ReadTimeout(), "transport_timeout"),
        (caused_by(httpx.PoolTimeout("full")), "transport_timeout"),
        (caused_by(ConnectionRefusedError()), "transport_unreachable"),
        (ExceptionGroup("two", [KeyError("x"), JudgeError("down")]), "judge_failed"),
        (ExceptionGroup("one", [ExceptionGroup("within", [ConnectionResetError()])]), "transport_peer_drop"),
        (BaseExceptionGroup("bugs", [KeyError("x"), SystemExit(3)]), "verifier_error"),
        (ExceptionGroup("of a client", [of_httpx(503)]), "provider_unavailable"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
def test_a_kind_is_what_was_raised(error: BaseException, kind: str) -> None:
    assert failure_kind(error, "verify") == kind


def test_a_task_group_s_failure_is_its_task_s() -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(EngineError("full", failure_kind="provider_quota_exhausted")))
            group.create_task(asyncio.sleep(60))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(grouped())
    assert failure_kind(caught.value, "verify") == "provider_quota_exhausted"


def test_a_process_of_many_failures_still_logs_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    for number in range(150):
        failure_of(ValueError("no"), "verify", f"mine/Quiz-v{number}")
    failure_of(ValueError("no"), "verify", "mine/Quiz-v149")
    assert [message.split()[3] for message in caplog.messages] == [f"mine/Quiz-v{number}" for number in range(150)]
