"""HTTPEngine against servers that send too much, or what no server should."""

import asyncio
import errno
import json
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from gym_llm.engines import http
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.http_bodies import completion_to_response
from gym_llm.engines.http_client import Endpoint
from gym_llm.engines.http_failures import retry_after, server_message
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.protocols.chat.completions import chat_to_response
from gym_llm.utils.limits import ITEMS, LIMITS

REQUEST = {"input": [{"role": "user", "content": "2+2?"}]}
MAX_ITEMS = LIMITS[ITEMS].default
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _quick_and_keyless(monkeypatch):
    monkeypatch.setattr(http, "BACKOFF_SECONDS", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def completion(**fields):
    choice = {"index": 0, "message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}
    return {"id": "c1", "model": "m", "choices": [choice | fields]}


def with_tokens(prompt=(1,), sampled=(2, 3), log_probs=(-0.5, -0.25)):
    content = [{"token": "x", "logprob": log_prob} for log_prob in log_probs]
    return completion(token_ids=list(sampled), logprobs={"content": content}) | {"prompt_token_ids": list(prompt)}


@asynccontextmanager
async def serving(answer, models=None) -> AsyncIterator[str]:
    """A server that answers POSTs with `answer(request)`, a coroutine, and GETs with `models(request)` if given."""

    async def handle(request):
        if request.method == "POST":
            return await answer(request)
        return await models(request) if models else web.json_response({"data": [{"id": "m"}]})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def ask(answer, models=None, **options):
    """The response to one request, or the error that it or the start ends in."""

    async def run():
        async with serving(answer, models) as url:
            try:
                async with HTTPEngine(url, **options) as engine:
                    return await engine.respond(REQUEST, episode_id="0-0")
            except EngineError as error:
                return error

    return asyncio.run(run())


def saying(body, status=200, **options):
    async def answer(request):
        return web.Response(
            body=body if isinstance(body, bytes) else json.dumps(body).encode(), status=status, **options
        )

    return answer


class Endless:
    """Sends blocks until nobody listens; `sent` counts the bytes."""

    def __init__(self, status=200, encoding=None, block=b"x" * 65_536, blocks=100_000):
        self.status, self.encoding, self.block, self.blocks = status, encoding, block, blocks
        self.sent = self.asked = 0

    async def __call__(self, request):
        self.asked += 1
        response = web.StreamResponse(status=self.status)
        if self.encoding:
            response.headers["Content-Encoding"] = self.encoding
        await response.prepare(request)
        squeeze = zlib.compressobj(9, wbits=31 if self.encoding == "gzip" else 15)
        for _ in range(self.blocks):
            data = squeeze.compress(self.block) if self.encoding else self.block
            if data:
                await response.write(data)
            self.sent += len(self.block)
        await response.write_eof(squeeze.flush() if self.encoding else b"")
        return response


def test_a_body_without_end_is_an_error_that_names_the_limit_and_the_option():
    endless = Endless()
    error = ask(endless, max_response_bytes=MIB, max_retries=2)
    assert isinstance(error, EngineError)
    assert "more than 1 MiB: raise max_response_bytes" in str(error)
    assert endless.asked == 1 and endless.sent < 50 * MIB


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_becomes_large_by_decompression_counts_as_such(encoding):
    bomb = Endless(encoding=encoding, block=bytes(MIB), blocks=64)
    error = ask(bomb, max_response_bytes=MIB)
    assert isinstance(error, EngineError) and "more than 1 MiB" in str(error)


def test_a_body_up_to_the_limit_is_read_whole():
    body = json.dumps(completion(message={"role": "assistant", "content": "x" * MIB})).encode()
    assert len(ask(saying(body), max_response_bytes=len(body))["output"][0]["content"][0]["text"]) == MIB
    assert "more than" in str(ask(saying(body), max_response_bytes=len(body) - 1))
    small = json.dumps(completion()).encode()
    assert "more than" in str(ask(saying(small), max_response_bytes=len(small) - 1))


def test_a_large_body_of_brackets_is_refused_and_a_text_of_brackets_is_not():
    nested = [{"type": "x", "x": json.loads("[" * 240 + "]" * 240)}] * (MIB // 480)
    error = ask(saying({"id": "r", "status": "completed", "output": nested}), api="responses")
    assert isinstance(error, EngineError) and "texts in 1,0" in str(error)
    text = '[{\\"' * (MIB // 5)
    assert (
        ask(saying(completion(message={"role": "assistant", "content": text})))["output"][0]["content"][0]["text"]
        == text
    )


@pytest.mark.parametrize("encoding", [None, "gzip"])
@pytest.mark.parametrize("status", [400, 500])
def test_of_an_error_without_end_the_beginning_is_told(status, encoding):
    endless = Endless(status, encoding, block=b"out of order " * 5_000, blocks=400)
    error = ask(endless, max_retries=1)
    assert isinstance(error, EngineError) and f"answered {status}: out of order" in str(error)
    assert endless.asked == (1 if status == 400 else 2)


@pytest.mark.parametrize("status", [200, 503])
def test_a_list_of_models_without_end_ends_the_start_with_a_sentence(status):
    error = ask(saying(completion()), Endless(status), max_response_bytes=MIB)
    assert isinstance(error, EngineUnavailable)
    assert ("more than 1 MiB" if status == 200 else "answered GET /models with 503: xxx") in str(error)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1"])
def test_the_limit_is_a_number_of_bytes(limit):
    with pytest.raises(ValueError, match="max_response_bytes is an integer of 1 or more"):
        HTTPEngine("http://localhost:1/v1", max_response_bytes=limit)


_CHILD = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from test_hostile_servers import Endless, ask, saying, completion, MIB
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
ask(saying(completion()))
before = peak()
bomb = Endless(encoding="gzip", block=bytes(MIB), blocks=400)
for hostile in (Endless(blocks=6400), bomb, Endless(500, blocks=6400)):
    ask(hostile, max_retries=0)
ask(saying(completion()), Endless(blocks=6400))
print(peak() - before)
"""


@pytest.mark.slow
def test_memory_stays_small_whatever_is_sent():
    """Each of these is 400 MiB; the limit, as it is unless one says otherwise, is 64."""
    folder = __file__.rpartition("/")[0]
    done = subprocess.run([sys.executable, "-c", _CHILD, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"choices":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"choices": [{"message": ' + b'{"content":' * 900 + b"1" + b"}" * 900 + b"}]}",
        b'{"id": ' + b"[" * 950 + b"]" * 950 + b', "choices": [{"message": {"content": "4"}}]}',
        b'{"id": "c", "model": ' + b"[" * 990 + b"]" * 990 + b', "choices": [{"message": {"content": "4"}}]}',
        b'{"id": "c", "choices": [{"message": {"tool_calls": [{"id": ' + b"[" * 950 + b"]" * 950 + b"}]}}]}",
        b'{"created": ' + b"9" * 5_000 + b', "choices": [{"message": {"content": "4"}}]}',
        b'{"created": ' + b"9" * 4_000 + b', "choices": [{"message": {"content": "4"}}]}',
        b'{"choices": [{"message": {"content": ' + b"9" * 4_000 + b"}}]}",
        b'{"choices": [{"message": {"content": null, "tool_calls": 7}}]}',
        b'{"choices": [{"message": [1]}]}',
        b"\xff\xfe",
        b"",
    ],
    ids=range(13),
)  # fmt: skip
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_json_that_is_deep_or_has_huge_numbers_ends_the_request_and_nothing_else(body, api):
    assert isinstance(ask(saying(body), api=api), (dict, EngineError))
    assert isinstance(ask(saying(body, status=500), api=api, max_retries=0), EngineError)
    assert isinstance(ask(saying(body), saying(body), api=api), EngineUnavailable)


def test_the_beginning_of_an_error_that_is_deep_is_told():
    deep: list = []
    for _ in range(900):
        deep = [deep]
    assert server_message(json.dumps({"error": {"message": deep}}).encode()).startswith("[[[")


@pytest.mark.parametrize("tokens", [{"sampled": [-1, 2]}, {"sampled": [2.0, 3]}, {"sampled": ["2", "3"]},
    {"sampled": [None, 3]}, {"sampled": [[2], 3]}, {"sampled": [2**31, 3]}, {"prompt": [-7]}, {"prompt": ["x"]},
    {"sampled": [2]}, {"log_probs": [-0.5]}, {"log_probs": [-0.5, float("nan")]}, {"log_probs": [-0.5, float("inf")]},
    {"log_probs": [-0.5, float("-inf")]}, {"log_probs": [-0.5, 0.5]}, {"log_probs": [-0.5, "-0.5"]},
    {"log_probs": [-0.5, None]}])  # fmt: skip
def test_tokens_that_cannot_be_end_the_request(tokens):
    error = ask(saying(with_tokens(**tokens)), token_ids=True)
    assert isinstance(error, EngineError) and ("token ids" in str(error) or "log prob" in str(error))
    body = {"prompt": [1], "sampled": [2, 3], "log_probs": [-0.5, -0.25]} | tokens
    fields = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
    item = {"type": "message", "role": "assistant", "content": [], **dict(zip(fields, body.values(), strict=True))}
    error = ask(saying({"output": [item], "status": "completed"}), api="responses")
    assert isinstance(error, EngineError) and ("token ids" in str(error) or "log prob" in str(error))
    if "prompt" not in tokens:
        choice = {"text": "4", "token_ids": body["sampled"], "logprobs": {"token_logprobs": body["log_probs"]}}
        with pytest.raises(EngineError, match=r"token ids|log prob"):
            completion_to_response({"choices": [choice]}, model="m", prompt=[1])


def test_tokens_of_a_responses_server_are_kept():
    item = {"type": "message", "role": "assistant", "content": [], "prompt_token_ids": [1]}
    item |= {"generation_token_ids": [2], "generation_log_probs": [-0.5]}
    assert ask(saying({"output": [item], "status": "completed"}), api="responses")["output"] == [item]
    del item["generation_log_probs"]
    assert "log prob" in str(ask(saying({"output": [item]}), api="responses"))


@pytest.mark.parametrize("item", [None, 3, "x", [1]])
def test_items_that_are_none_end_the_request(item):
    assert "an item of its `output` is" in str(ask(saying({"output": [item]}), api="responses"))


def calls(count, call_id="c"):
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call] * count}


@pytest.mark.parametrize("identifier", ["i" * 200_000, ["i" * 200_000], 10**1000])
def test_a_long_id_is_not_copied_to_every_item(identifier):
    tracemalloc.start()
    try:
        response = chat_to_response(completion(message=calls(2_000)) | {"id": identifier})
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB  # 400 MB where each has the id
    finally:
        tracemalloc.stop()
    ids = {item["id"] for item in response["output"]}
    assert len(ids) == 2_000 and max(map(len, ids)) < 300
    assert response == chat_to_response(completion(message=calls(2_000)) | {"id": identifier})


def test_an_id_of_usual_length_is_kept():
    response = chat_to_response(completion(message=calls(1)) | {"id": "x" * 256})
    assert response["id"] == "resp_" + "x" * 256 and response["output"][0]["call_id"] == "c"
    assert len(chat_to_response(completion(message=calls(1, "y" * 257)))["output"][0]["call_id"]) == 32


@pytest.mark.parametrize("message", [
    calls(MAX_ITEMS + 1), {"content": [{"type": "text", "text": ""}] * (MAX_ITEMS + 1)},
    {"content": "", "reasoning": "</think><think>" * MAX_ITEMS},
])  # fmt: skip
def test_more_items_than_a_model_can_say_are_refused(message):
    with pytest.raises(EngineError, match=r"4,096.* is the limit"):
        chat_to_response(completion(message=message))


def test_a_response_of_more_items_is_refused():
    error = ask(saying({"output": [{}] * (MAX_ITEMS + 1)}), api="responses")
    assert "has 4,097 items; 4,096 is the limit" in str(error)


@pytest.mark.parametrize("header", [
    "Mon, 01 Jan 0001 00:00:00 +2359", "Fri, 31 Dec 9999 23:59:59 -2359", "9" * 400, "1e999", "-1e999", "nan", "inf",
    "Mon, 99 Foo 99999999999999999999 99:99:99 GMT", "", " ", ",", "\u0661", "Fri, 31 Dec 9999 23:59:59 GMT", "-5",
    "Mon, 01 Jan 2024 00:00:00 +99999999999999999999", "1" * 8000, ":::", "Mon, 01 Jan 2024 00:00:00 -0000",
])  # fmt: skip
def test_an_absurd_retry_after_is_a_pause_of_at_most_a_minute(header):
    assert 0.0 <= retry_after(header) <= 60.0


def test_after_an_absurd_retry_after_the_request_is_sent_again():
    asked = []

    async def answer(request):
        asked.append(datetime.now(UTC))
        headers = {"Retry-After": "Mon, 01 Jan 0001 00:00:00 +2359"}
        return web.json_response(completion()) if len(asked) > 1 else web.Response(status=503, headers=headers)

    assert ask(answer)["output"][0]["content"][0]["text"] == "4" and len(asked) == 2


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize("status", [400, 500])
def test_terminal_escapes_of_a_server_are_in_no_message_and_no_log(status, caplog):
    bodies = [{"error": {"message": f"no {ESCAPES}"}}, {"detail": [ESCAPES]}, {"error": {"message": {"x": ESCAPES}}}]
    for body in [*(json.dumps(body).encode() for body in bodies), f"no {ESCAPES}".encode(), b""]:
        error = str(ask(saying(body, status), max_retries=0))
        assert f"answered {status}" in error and error.isprintable()
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert str(ask(saying(ESCAPES.encode()))).isprintable()


@pytest.mark.parametrize("head", [b"500 bad \x1b[31m day", b"200 fine\r\nbad \x1b[31m header: x", b"\x1b[31m"])
def test_terminal_escapes_of_a_status_line_or_a_header_are_in_no_message(head):
    async def answer(reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        body = b'{"data": [{"id": "m"}]}' if request.startswith(b"GET") else b""
        line = b"200 OK" if body else head
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (line, len(body), body))
        writer.close()

    async def run():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            async with HTTPEngine(url, max_retries=0) as engine:
                with pytest.raises(EngineError) as caught:
                    await engine.respond(REQUEST)
        return str(caught.value)

    assert asyncio.run(run()).isprintable()


@pytest.mark.parametrize("name", [f"m{ESCAPES}", "", 3, ["m"], None, "m" * 2_000])
def test_a_model_whose_name_is_none_is_not_asked(name):
    error = ask(saying(completion()), saying({"data": [{"id": name}, {"object": "model"}, 7]}))
    assert isinstance(error, EngineUnavailable) and "lists no models" in str(error)


@pytest.mark.parametrize("length", [0, -5, True, 1.5, "9"])
def test_a_context_that_is_none_ends_no_episode(length):
    response = ask(saying(completion()), saying({"data": [{"id": "m", "max_model_len": length}]}))
    assert response["status"] == "completed"


async def cut(request):
    request.transport.close()
    return web.Response()


async def cut_inside(request):
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    request.transport.close()
    return response


async def hang(request):
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (cut, "transport_peer_drop"),
        (cut_inside, "transport_peer_drop"),
        (hang, "transport_timeout"),
        (saying({}, 429), "provider_quota_exhausted"),
        (saying({}, 402), "provider_quota_exhausted"),
        (saying({}, 500), "provider_unavailable"),
        (saying({}, 503), "provider_unavailable"),
        (saying({}, 400), "agent_request_failed"),
        (saying({}, 404), "agent_request_failed"),
        (saying(b"<html>"), "provider_unavailable"),
        (saying(b""), "provider_unavailable"),
        (saying(b'{"choices": [{"message": {"content": "4'), "provider_unavailable"),
        (saying(b"data: {}\n\ndata: [DONE]"), "provider_unavailable"),
        (saying(b"{Bad gateway}"), "provider_unavailable"),
        (saying({}), "agent_run_error"),
        (saying(with_tokens(sampled=[-1, 2])), "agent_run_error"),
        (saying(b"x" * 9_999), "agent_run_error"),
    ],
)
def test_an_error_says_what_kind_of_failure_it_is(answer, kind):
    error = ask(answer, max_retries=1, timeout=0.5, max_response_bytes=9_000)
    assert (error.failure_kind, type(error)) == (kind, EngineError)


def test_a_server_that_went_away_is_unreachable_also_where_the_time_ends_the_tries():
    async def run(**options):
        async with serving(saying({})) as url:
            engine = HTTPEngine(url, **options)
            await engine.start()
        try:
            await engine.respond(REQUEST)
        except EngineError as error:
            return error.failure_kind
        finally:
            await engine.aclose()

    assert asyncio.run(run(max_retries=1)) == "transport_unreachable"
    assert asyncio.run(run(max_retries=10_000, timeout=0.3)) == "transport_unreachable"


def test_a_key_in_an_answer_changes_nothing_about_the_kind():
    error = ask(saying(b'{"no": "sk-secret"}'), api_key="sk-secret")
    assert error.failure_kind == "agent_run_error" and "sk-secret" not in str(error)


def test_a_process_without_a_file_left_blames_itself_and_no_server(caplog):
    def no_socket(address):
        raise OSError(errno.EMFILE, "Too many open files")

    async def run():
        async with serving(saying({})) as url, HTTPEngine(url, max_retries=1) as engine:
            await engine._session.close()
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=no_socket))
            engine._session = session
            engine._endpoints = {server: Endpoint(session, server.endpoint) for server in engine.router.servers}
            with pytest.raises(EngineError, match="Too many open files") as caught:
                await engine.respond(REQUEST)
            return caught.value, engine.router.servers[0]

    error, server = asyncio.run(run())
    assert error.failure_kind == "transport_local_resource"
    assert not server.resting and not server.failures and not caplog.records


@pytest.mark.parametrize(
    ("answer", "kind"), [(saying({}, 401), "agent_request_failed"), (saying({}, 500), "provider_unavailable")]
)
def test_a_start_that_fails_has_a_kind_too(answer, kind):
    assert ask(saying({}), answer).failure_kind == kind
    with pytest.raises(EngineUnavailable) as caught:
        asyncio.run(HTTPEngine("http://127.0.0.1:1/v1").start())
    assert caught.value.failure_kind == "transport_unreachable"
