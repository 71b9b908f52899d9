"""HTTPEngine against real servers on loopback."""

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any

import pytest
from aiohttp import web
from testing import serving

from gym_llm.engines import health, http
from gym_llm.engines.http import HTTPEngine
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.types import Request, message_text

REQUEST: Request = {"input": [{"role": "user", "content": "2+2?"}]}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def _quick_and_keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BACKOFF_SECONDS", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def completion(text: str = "4", **choice: Any) -> web.Response:
    message = {"role": "assistant", "content": text}
    body = {
        "id": "c1",
        "model": "served",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
    }
    return web.json_response(body)


def failing(status: int, message: str = "no", **headers: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)


class Server:
    """Answers POSTs with a handler or with the answers of a list in turn (the last one for good), GETs with models."""

    def __init__(self, answers: Handler | list[Handler], models: tuple[str, ...] = ("m",)) -> None:
        self.answers = answers
        self.models = models
        self.down = False
        self.asked = 0
        self.bodies: list[Any] = []
        self.paths: list[str] = []
        self.headers: list[Any] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            self.asked += 1
            if self.down:
                return failing(503)
            return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})
        self.paths.append(request.path)
        self.headers.append(request.headers)
        self.bodies.append(json.loads(await request.read()))
        if callable(self.answers):
            return await self.answers(request)
        return await self.answers[min(len(self.bodies), len(self.answers)) - 1](request)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[str]:
        async with serving({"/{path:.*}": self.handle}, handler_cancellation=True, shutdown_timeout=0.1) as url:
            yield f"{url}/v1"


async def good(request: web.Request) -> web.Response:
    return completion()


async def disconnect(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def disconnect_inside(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.close()
    return response


def answering(response: Callable[[], web.Response]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return response()

    return answer


def ask(server: Server, request: Request = REQUEST, **options: Any) -> Any:
    """The response to one request, or the error it ends in."""

    async def run() -> Any:
        async with server.run() as url, HTTPEngine(url, **options) as engine:
            try:
                return await engine.respond(request, episode_id="0-0")
            except EngineError as error:
                return error

    return asyncio.run(run())


def test_chat_request_and_answer() -> None:
    server = Server(good)
    request: Request = {**REQUEST, "temperature": 0.5, "max_output_tokens": 9, "chat_template_kwargs": {"x": 1}}
    response = ask(server, request, extra_body={"top_k": 3, "temperature": 0.7})
    assert server.paths == ["/v1/chat/completions"]
    assert server.bodies == [
        {
            "messages": [{"role": "user", "content": "2+2?"}],
            "temperature": 0.7,
            "max_completion_tokens": 9,
            "chat_template_kwargs": {"x": 1},
            "model": "m",
            "top_k": 3,
        }
    ]
    assert message_text(response["output"]) == "4"
    assert response["status"] == "completed" and response["model"] == "served"
    assert request["temperature"] == 0.5


def test_responses_api_sends_the_request_as_it_is_but_for_token_fields() -> None:
    answer = {
        "id": "r1",
        "object": "response",
        "status": "completed",
        "output": [{"type": "x", "any": 1}],
        "model": "m",
    }
    server = Server(answering(lambda: web.json_response(answer)))
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
    request: Request = {"input": [*REQUEST["input"], {**said, **tokens}], "chat_template_kwargs": {"x": 1}}
    response = ask(server, request, api="responses", model="chosen")
    assert server.paths == ["/v1/responses"]
    assert server.bodies == [{"input": [*REQUEST["input"], said], "chat_template_kwargs": {"x": 1}, "model": "chosen"}]
    assert response == answer
    assert "prompt_token_ids" in request["input"][1]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (web.json_response, "no list `output`"),
        (
            lambda _: web.json_response({"output": [], "status": "failed", "error": {"message": "broke"}}),
            "of status 'failed': broke",
        ),
        (lambda _: web.Response(text="<html>"), "not JSON: an HTML page"),
    ],
)
def test_responses_api_answers_that_are_none(answer: Callable[[Any], web.Response], expected: str) -> None:
    error = ask(Server(answering(lambda: answer([]))), api="responses", max_retries=0)
    assert isinstance(error, EngineError) and expected in str(error)


def test_token_ids_are_asked_for_and_arrive_on_the_last_item() -> None:
    body = {
        "id": "c1",
        "model": "m",
        "prompt_token_ids": [5, 6],
        "choices": [
            {
                "message": {"role": "assistant", "content": "4"},
                "finish_reason": "stop",
                "token_ids": [7, 8],
                "logprobs": {"content": [{"token": "4", "logprob": -0.5}, {"token": "", "logprob": -0.25}]},
            }
        ],
    }
    server = Server(answering(lambda: web.json_response(body)))
    last = ask(server, token_ids=True)["output"][-1]
    assert server.bodies[0]["return_token_ids"] is True and server.bodies[0]["logprobs"] is True
    assert last["prompt_token_ids"] == [5, 6]
    assert last["generation_token_ids"] == [7, 8]
    assert last["generation_log_probs"] == [-0.5, -0.25]


def test_token_ids_are_not_asked_for_by_default() -> None:
    server = Server(good)
    ask(server)
    assert server.bodies[0].keys() == {"messages", "model"}


@pytest.mark.parametrize(
    "failure",
    [
        *(disconnect, disconnect_inside),
        *(answering(lambda s=s: failing(s)) for s in (408, 409, 500, 503)),
        *(
            answering(lambda t=t: web.Response(text=t))
            for t in ("<html>502</html>", "", "Bad gateway", '{"choices": [')
        ),
    ],
)
def test_passing_failures_are_retried(failure: Handler) -> None:
    server = Server([failure, failure, good])
    assert message_text(ask(server)["output"]) == "4"
    assert len(server.bodies) == 3
    assert server.bodies[0] == server.bodies[2]


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, sleep = [], asyncio.sleep

    async def no_time(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", no_time)
    # A date has whole seconds: two from now are more than one second away.
    after = (lambda: "0.3") if form == "seconds" else (lambda: formatdate(time.time() + 2, usegmt=True))
    server = Server([answering(lambda: failing(429, **{"Retry-After": after()})), good])
    assert message_text(ask(server)["output"]) == "4"
    assert max(waits) >= (0.3 if form == "seconds" else 0.9), waits


def test_retries_end() -> None:
    server = Server(answering(lambda: failing(500, "out of memory")))
    error = ask(server, max_retries=2)
    assert isinstance(error, EngineError) and len(server.bodies) == 3
    assert "3 tries" in str(error) and "500" in str(error) and "out of memory" in str(error)


def test_the_deadline_covers_retries_and_names_the_last_failure() -> None:
    server = Server(answering(lambda: failing(503, "loading", **{"Retry-After": "60"})))
    error = ask(server, timeout=0.2)
    assert isinstance(error, EngineError) and "0.2 s" in str(error) and "loading" in str(error)


def test_the_deadline_ends_a_server_that_says_nothing() -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return completion()

    error = ask(Server(silent), timeout=0.2)
    assert isinstance(error, EngineError) and "No answer within 0.2 s" in str(error)


def test_other_client_errors_are_not_retried_and_say_what_the_server_said() -> None:
    server = Server(answering(lambda: failing(404, "The model `x` does not exist. " + "long " * 200)))
    error = ask(server)
    assert isinstance(error, EngineError) and len(server.bodies) == 1
    assert "404" in str(error) and "does not exist" in str(error) and len(str(error)) < 400


def test_a_server_that_knows_max_tokens_only_gets_that_and_it_is_remembered() -> None:
    async def old(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        known = "max_completion_tokens" not in body
        return completion() if known else failing(400, "Unrecognized request argument: max_completion_tokens")

    async def main() -> None:
        server = Server(old)
        async with server.run() as url, HTTPEngine(url) as engine:
            for _ in range(2):
                assert (await engine.respond({**REQUEST, "max_output_tokens": 9}))["status"] == "completed"
        assert [body.get("max_tokens") for body in server.bodies] == [None, 9, 9]

    asyncio.run(main())


def test_a_limit_that_is_wrong_by_both_names_is_said_with_the_first() -> None:
    async def strict(request: web.Request) -> web.Response:
        name = next(key for key in json.loads(await request.read()) if key.startswith("max_"))
        hint = "" if name == "max_completion_tokens" else ": use max_completion_tokens"
        return failing(400, f"{name} is wrong{hint}")

    server = Server(strict)
    for _ in range(2):
        error = ask(server, {**REQUEST, "max_output_tokens": 9})
        assert str(error).endswith("answered 400: max_completion_tokens is wrong")
    assert len(server.bodies) == 4


def test_redirects_are_not_followed() -> None:
    server = Server(answering(lambda: web.Response(status=307, headers={"Location": "http://127.0.0.1:1/"})))
    error = ask(server)
    assert isinstance(error, EngineError) and "307" in str(error) and len(server.bodies) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too big", "code": "context_length_exceeded"}},
        {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, …", "code": 400},
        {
            "error": {
                "message": "The decoder prompt (length 9) is longer than the maximum model length of 8.",
                "code": 400,
            }
        },
        {"error": {"message": "Your input exceeds the context window of this model."}},
        {"error": {"message": "the request exceeds the available context size"}},
    ],
)
def test_context_overflow_is_an_incomplete_response(body: dict[str, Any]) -> None:
    response = ask(Server(answering(lambda: web.json_response(body, status=400))))
    assert response["status"] == "incomplete" and response["output"] == []
    assert response["incomplete_details"] == {"reason": "context_length_exceeded"}
    assert response["model"] == "m"


def test_other_bad_requests_are_errors() -> None:
    assert isinstance(ask(Server(answering(lambda: failing(400, "temperature must be >= 0")))), EngineError)


def test_text_that_orjson_refuses_travels_both_ways() -> None:
    text = '{"choices": [{"message": {"role": "assistant", "content": "\\ud800", "x": NaN}}]}'
    server = Server(answering(lambda: web.Response(text=text, content_type="application/json")))
    response = ask(server, {"input": [{"role": "user", "content": "\udfff"}]})
    assert server.bodies[0]["messages"][0]["content"] == "\udfff"
    assert message_text(response["output"]) == "\ud800"


def test_the_key_is_sent_but_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-very-secret"
    server = Server(answering(lambda: failing(400, f"bad key {key}")))
    error = ask(server, api_key=f"{key}\n")
    assert server.headers[0]["Authorization"] == f"Bearer {key}"
    shown = f"{error} {error!r} {HTTPEngine('http://h/v1', api_key=key)!r} {caplog.text}"
    assert key not in shown and "***" in str(error)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    server = Server(good)
    ask(server)
    assert server.headers[0]["Authorization"] == "Bearer from-env"


def test_without_a_key_no_authorization_is_sent() -> None:
    server = Server(good)
    ask(server)
    assert "Authorization" not in server.headers[0]


def test_episodes_stay_on_their_server_and_new_ones_go_to_the_least_loaded() -> None:
    async def run() -> None:
        gate = asyncio.Event()

        async def held(request: web.Request) -> web.Response:
            await gate.wait()
            return completion()

        first, second = Server(held), Server(held)
        async with first.run() as a, second.run() as b, HTTPEngine(f"{a}, {b}") as engine:
            asks = [asyncio.create_task(engine.respond(REQUEST, episode_id=str(i))) for i in range(10)]
            while len(first.bodies) + len(second.bodies) < 10:
                await asyncio.sleep(0.01)
            assert len(first.bodies) == len(second.bodies) == 5
            gate.set()
            await asyncio.gather(*asks)
            for _ in range(3):
                await engine.respond(REQUEST, episode_id="0")
            assert sorted([len(first.bodies), len(second.bodies)]) == [5, 8]

    asyncio.run(run())


def test_an_episode_leaves_a_server_that_failed() -> None:
    async def run() -> None:
        broken, healthy = Server(answering(lambda: failing(500))), Server(good)
        async with broken.run() as a, healthy.run() as b, HTTPEngine([a, b]) as engine:
            for _ in range(3):
                await engine.respond(REQUEST, episode_id="e")
            await engine.respond(REQUEST, episode_id="new")
        assert len(broken.bodies) == 1 and len(healthy.bodies) == 4

    asyncio.run(run())


def test_an_episode_leaves_a_server_that_is_gone() -> None:
    async def run() -> None:
        gone, healthy = Server(good), Server(good)
        async with healthy.run() as b:
            async with gone.run() as a:
                engine = HTTPEngine([a, b])
                await engine.start()
                await engine.respond(REQUEST, episode_id="e")
                assert len(gone.bodies) == 1
            await engine.respond(REQUEST, episode_id="e")
            assert len(healthy.bodies) == 1
            await engine.aclose()

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_server_that_failed_gets_new_episodes_when_it_lists_its_models_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.02)

    async def run() -> None:
        first, second = Server([answering(lambda: failing(500)), good]), Server(good)
        async with first.run() as a, second.run() as b, HTTPEngine([a, b]) as engine:
            first.down = True
            await engine.respond(REQUEST, episode_id="e")
            asked = first.asked
            await until(lambda: first.asked > asked + 2)
            for number in range(5):
                await engine.respond(REQUEST, episode_id=f"meanwhile {number}")
            assert len(first.bodies) == 1 and len(second.bodies) == 6
            first.down = False
            await until(lambda: not engine.router.servers[0].resting)
            asked = first.asked
            await engine.respond(REQUEST, episode_id="afterwards")
            assert len(first.bodies) == 2
            await asyncio.sleep(0.1)
            assert first.asked == asked  # a server that answers is left alone

    with caplog.at_level(logging.INFO, "gym_llm.engines.health"):
        asyncio.run(run())
    said = [record.getMessage().split("/v1 ")[1] for record in caplog.records]
    assert said == ["answered 500: no; new episodes go to other servers until it answers", "answers again"]


def test_a_server_that_lists_its_models_but_goes_on_failing_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.1)

    async def run() -> None:
        server = Server(good)
        async with server.run() as url, HTTPEngine(url) as engine:
            served, checks, asked = engine.router.servers[0], engine._health, server.asked
            for _ in range(30):
                checks.failed(served)
                await asyncio.sleep(0.01)
            assert served.resting and server.asked == asked
            await until(lambda: not served.resting)
            assert server.asked == asked + 1

    asyncio.run(run())


def test_a_server_that_lets_a_deadline_pass_is_left_to_rest() -> None:
    async def run() -> None:
        async def silent(request: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return completion()

        stuck, healthy = Server(silent), Server(good)
        async with stuck.run() as a, healthy.run() as b, HTTPEngine([a, b], timeout=0.2) as engine:
            with pytest.raises(EngineError, match=r"No answer within 0\.2 s"):
                await engine.respond(REQUEST, episode_id="e")
            for number in range(5):
                await engine.respond(REQUEST, episode_id=["e", "f"][number % 2])
            assert len(stuck.bodies) == 1 and len(healthy.bodies) == 5

    asyncio.run(run())


def test_a_server_that_hung_and_lists_its_models_gets_one_episode_at_a_time_until_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.02)

    async def run() -> None:
        stuck = True

        async def maybe(request: web.Request) -> web.Response:
            while stuck:
                await asyncio.sleep(0.01)
            return completion()

        async def slow(request: web.Request) -> web.Response:
            await asyncio.sleep(0.02)
            return completion()

        first, second = Server(maybe), Server(slow)
        async with first.run() as a, second.run() as b, HTTPEngine([a, b], timeout=1.0) as engine:
            hung = engine.router.servers[0]
            with pytest.raises(EngineError):
                await engine.respond(REQUEST, episode_id="first")
            await until(lambda: not hung.resting)
            asks = [engine.respond(REQUEST, episode_id=str(number)) for number in range(100)]
            answers = await asyncio.gather(*asks, return_exceptions=True)
            lost = sum(isinstance(answer, EngineError) for answer in answers)
            assert lost == 1 and len(first.bodies) == 2  # the one on trial
            await until(lambda: not hung.resting)
            stuck = False
            await engine.respond(REQUEST, episode_id="trial")
            assert not hung.on_trial and len(first.bodies) == 3
            await asyncio.gather(*(engine.respond(REQUEST, episode_id=f"after {number}") for number in range(20)))
            assert len(first.bodies) == 13

    asyncio.run(run())


def test_an_episode_leaves_its_server_while_that_rests_and_stays_where_all_rest() -> None:
    async def run() -> None:
        first, second = Server(good), Server(good)
        async with first.run() as a, second.run() as b, HTTPEngine([a, b]) as engine:
            await engine.respond(REQUEST, episode_id="e")
            engine.router.servers[0].resting = True
            await engine.respond(REQUEST, episode_id="e")
            engine.router.servers[1].resting = True
            for _ in range(3):
                await engine.respond(REQUEST, episode_id="e")
            assert (len(first.bodies), len(second.bodies)) == (1, 4)

    asyncio.run(run())


def test_a_server_that_had_little_of_the_time_is_not_blamed_for_the_deadline() -> None:
    async def run() -> None:
        async def late(request: web.Request) -> web.Response:
            await asyncio.sleep(0.8)
            return failing(500)

        async def slow(request: web.Request) -> web.Response:
            await asyncio.sleep(0.9)
            return completion()

        first, second = Server(late), Server(slow)
        async with first.run() as a, second.run() as b, HTTPEngine([a, b], timeout=1.0) as engine:
            with pytest.raises(EngineError, match="No answer within 1 s"):
                await engine.respond(REQUEST, episode_id="e")
            assert len(second.bodies) == 1
            assert [server.resting for server in engine.router.servers] == [True, False]

    asyncio.run(run())


def test_a_url_without_its_version_is_answered_with_one_that_has_it() -> None:
    async def run() -> str:
        async def missing(request: web.Request) -> web.Response:
            return failing(404)

        server = Server(missing)
        server.models = ()
        async with server.run() as url:
            with pytest.raises(EngineUnavailable) as caught:
                await HTTPEngine(url.removesuffix("/v1")).start()
        return str(caught.value)

    assert re.search(r"lists no models \(200: .*Did you mean http://127\.0\.0\.1:\d+/v1\?", asyncio.run(run()))


def test_closing_with_requests_under_way_blames_no_server(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async def silent(request: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return completion()

        server = Server(silent)
        async with server.run() as url:
            engine = HTTPEngine(url)
            await engine.start()
            asks = [asyncio.create_task(engine.respond(REQUEST)) for _ in range(20)]
            await until(lambda: len(server.bodies) == 20)
            await engine.aclose()
            answers = await asyncio.gather(*asks, return_exceptions=True)
            assert all(isinstance(answer, EngineError) for answer in answers)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert not caplog.records


def test_a_cancelled_close_stays_cancelled() -> None:
    async def run() -> None:
        checks = health.HealthChecks(lambda server: asyncio.sleep(60, True))
        url = http.URL("http://h/v1")
        checks.failed(http.Server(url, url))
        await asyncio.sleep(0)
        closing = asyncio.create_task(checks.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(run())


@pytest.mark.parametrize("payload", ["[" * 100_000, '{"choices": [{"message": {}}], "created": 1' + "0" * 400 + "}"])
def test_what_no_answer_can_be_read_from_is_an_error_of_ours(payload: str) -> None:
    response = ask(Server(answering(lambda: web.Response(text=payload, content_type="application/json"))))
    assert isinstance(response, EngineError)


def test_an_error_whose_body_is_nested_deeply_is_retried() -> None:
    server = Server([answering(lambda: web.Response(text="[" * 100_000, status=500)), good])
    assert message_text(ask(server)["output"]) == "4"


@pytest.mark.parametrize("cut", range(150, 260, 5))
def test_the_key_is_in_no_error_wherever_that_is_cut(cut: int) -> None:
    key = "sk-verysecret-0123456789"
    for body in ({"error": "x" * cut + key}, "y" * cut + key):
        answer = web.json_response(body) if isinstance(body, dict) else web.Response(text=body)
        said = str(ask(Server(answering(lambda answer=answer: answer)), api_key=key, max_retries=0))
        assert key[:6] not in said and ("xxx" in said or "yyy" in said)


def test_closing_the_engine_ends_the_checks_and_starting_it_forgets_them() -> None:
    async def run() -> None:
        async def silent(request: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return completion()

        broken = Server([answering(lambda: failing(500)), silent, good])
        async with broken.run() as url:
            engine = HTTPEngine(url)
            before = asyncio.all_tasks()
            await engine.start()
            ask = asyncio.create_task(engine.respond(REQUEST))
            await until(lambda: len(broken.bodies) == 2)
            await engine.aclose()
            with pytest.raises(EngineError):  # the connection under it was closed, which is a failure, too
                await ask
            assert asyncio.all_tasks() - before <= {ask}
            await engine.start()
            assert not engine.router.servers[0].resting
            await engine.respond(REQUEST)
            await engine.aclose()

    asyncio.run(run())


def test_a_cancelled_call_gives_back_its_slot_and_its_connection() -> None:
    async def run() -> None:
        arrived, hung_up = asyncio.Event(), asyncio.Event()

        async def silent(request: web.Request) -> web.Response:
            arrived.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                hung_up.set()
                raise
            return completion()

        async with Server(silent).run() as url, HTTPEngine(url) as engine:
            call = asyncio.create_task(engine.respond(REQUEST))
            await arrived.wait()
            assert engine.router.servers[0].in_flight == 1
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert engine.router.servers[0].in_flight == 0
            await asyncio.wait_for(hung_up.wait(), 5)

    asyncio.run(run())


def test_more_requests_are_in_flight_than_aiohttp_would_connect() -> None:
    async def run() -> None:
        count, waiting, everyone = 300, 0, asyncio.Event()

        async def barrier(request: web.Request) -> web.Response:
            nonlocal waiting
            waiting += 1
            if waiting == count:
                everyone.set()
            await everyone.wait()
            return completion()

        async with Server(barrier).run() as url, HTTPEngine(url, timeout=20) as engine:
            await asyncio.gather(*(engine.respond(REQUEST, episode_id=str(i)) for i in range(count)))

    asyncio.run(run())


def start(*urls: str, **options: Any) -> None:
    async def run() -> None:
        async with HTTPEngine(list(urls), **options):
            pass

    asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1/v1", "Connection refused"),
        ("http://no-such-host.invalid/v1", "host name does not resolve"),
    ],
)
def test_start_says_why_a_server_cannot_be_reached(url: str, expected: str) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        start(url, model="m")
    assert url in str(caught.value) and expected in str(caught.value)


@pytest.mark.parametrize(
    ("response", "options", "expected"),
    [
        (lambda: failing(401), {}, "wants an API key"),
        (lambda: failing(401), {"api_key": "k"}, "refused the API key"),
        (lambda: failing(503, "loading the model"), {"model": "m"}, "503: loading the model"),
        (lambda: failing(404), {}, "give its name"),
        (lambda: web.json_response({"data": []}), {}, "give its name"),
        (lambda: web.Response(text="<html>"), {}, "give its name"),
    ],
)
def test_start_says_why_a_server_does_not_serve(
    response: Callable[[], web.Response], options: dict[str, str], expected: str
) -> None:
    server = Server(good)
    server.handle = answering(response)  # type: ignore[method-assign]

    async def run() -> None:
        async with server.run() as url, HTTPEngine(url, **options):  # type: ignore[arg-type]
            pass

    with pytest.raises(EngineUnavailable, match=expected):
        asyncio.run(run())


def test_start_checks_every_server() -> None:
    async def run() -> None:
        async with Server(good).run() as url, HTTPEngine([url, "http://127.0.0.1:1/v1"]):
            pass

    with pytest.raises(EngineUnavailable, match=r"127\.0\.0\.1:1/v1"):
        asyncio.run(run())


def test_start_says_that_tls_does_not_work() -> None:
    async def run() -> None:
        async with Server(good).run() as url, HTTPEngine(url.replace("http:", "https:")):
            pass

    with pytest.raises(EngineUnavailable, match=r"https://127.* cannot be reached"):
        asyncio.run(run())


def test_the_model_is_the_first_one_listed_and_servers_must_agree() -> None:
    async def run() -> None:
        async with Server(good, ("x", "y")).run() as a, Server(good, ("y",)).run() as b:
            async with HTTPEngine(a) as engine:
                assert engine.model == "x"
            async with HTTPEngine([a, b], model="y") as engine:
                assert engine.model == "y"
            with pytest.raises(EngineUnavailable, match=r"different models \(x, y\)"):
                await HTTPEngine([a, b]).start()

    asyncio.run(run())


def test_an_engine_that_was_not_started_says_so() -> None:
    with pytest.raises(EngineError, match="not running"):
        asyncio.run(HTTPEngine("http://127.0.0.1:1/v1").respond(REQUEST))


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("ftp://h/v1", {}, "http://localhost:8000/v1"),
        ("http://", {}, "http://localhost:8000/v1"),
        ("http://h:99999/v1", {}, "not a URL"),
        ("http://h/v1?key=1", {}, "no query"),
        ("", {}, "http://localhost:8000/v1"),
        ("http://h/v1", {"api": "complete"}, "'chat', 'responses' or 'completions'"),
        ("http://h/v1", {"api": "responses", "token_ids": True}, "no token ids"),
        ("http://h/v1", {"history": "append"}, "api='completions'"),
        ("http://h/v1", {"tokenizer": "x"}, "api='completions'"),
        ("http://h/v1", {"timeout": 0}, "timeout is > 0"),
        ("http://h/v1", {"max_retries": -1}, "max_retries >= 0"),
        ("http://h/v1", {"timeout": "long"}, "got 'long' and 10"),
        ("http://h/v1", {"api_key": 12345678}, "api_key is a text, got int.$"),
        ("http://h/v1", {"api_key": "a\nb"}, "api_key .* control character"),
        ("http://h/v1", {"token_ids": "no"}, "token_ids is true or false"),
        ("http://h/v1", {"extra_body": [1]}, "extra_body a mapping"),
    ],
)
def test_wrong_arguments_are_refused_at_once(url: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        HTTPEngine(url, **options)


def test_passwords_in_urls_are_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="api_key=") as caught:
        HTTPEngine("http://me:hunter2@h/v1")
    assert "hunter2" not in str(caught.value)


def test_retries_are_logged_and_a_failing_server_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server([answering(lambda: failing(500, "key-1 is broken")), answering(lambda: failing(503)), good])
    with caplog.at_level(logging.INFO, "gym_llm.engines.http"):
        ask(server, api_key="key-1")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    retries = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert len(warnings) == 1 and "answered 500: *** is broken" in warnings[0]
    assert [retry.split(" in ")[0] for retry in retries] == ["Retry 1 of episode '0-0'", "Retry 2 of episode '0-0'"]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"city": "Rome"', "{}"),
        ("[1]", "{}"),
        ("null", "{}"),
        ("", "{}"),
        ('{"city":  "Rome"}', '{"city":  "Rome"}'),
    ],
)
def test_arguments_that_are_no_object_are_not_sent(arguments: str, sent: str) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": arguments}
    output = {"type": "function_call_output", "call_id": "c1", "output": "No."}
    server = Server(good)
    ask(server, {"input": [*REQUEST["input"], call, output]})
    assert server.bodies[0]["messages"][1]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": sent}
    assert call["arguments"] == arguments
