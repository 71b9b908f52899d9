"""A model's server, asked over real sockets by the official client."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import openai
import pytest
from testing import message_item, response

import gym_llm
from gym_llm import make_engine
from gym_llm.engines.engine import Engine
from gym_llm.errors import EngineError, UsageError
from gym_llm.serve import ModelServer
from gym_llm.utils.limits import REQUEST_BYTES


class Parrot(Engine):
    """Says what it heard; fails or hangs where it is told to."""

    model = "parrot"

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.given_up = asyncio.Event()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.requests.append(request)
        text = request["input"][-1]["content"]
        if text == "fail":
            raise EngineError("The parrot has flown.")
        if text == "break":
            raise KeyError("seeds")
        if text == "hang":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.given_up.set()
                raise
        if text == "long":
            return response(status="incomplete", incomplete_details={"reason": "context_length_exceeded"})
        tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
        return response({**message_item(text), **tokens}, model="parrot")


@asynccontextmanager
async def serving(engine: Engine, **options: Any) -> AsyncGenerator[Any, None]:
    async with ModelServer(engine, port=0, **options) as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key=options.get("token") or "none", max_retries=0)
        async with client:
            client.server = server  # type: ignore[attr-defined]
            yield client


def test_the_pocket_model_plays_by_both_apis() -> None:
    async def main() -> None:
        async with serving(make_engine("pocket", parsers=["reasoning", "tool_calls"])) as client:
            assert [model.id async for model in client.models.list()] == ["pocket"]
            answer = await client.responses.create(model="pocket", input="What is 2 + 3?")
            assert answer.status == "completed" and "\\boxed{5}" in answer.output_text
            assert answer.output[0].type == "reasoning" and answer.usage.output_tokens > 0
            chat = await client.chat.completions.create(
                model="pocket", messages=[{"role": "user", "content": "What is 2 + 3?"}]
            )
            assert "\\boxed{5}" in chat.choices[0].message.content and chat.choices[0].finish_reason == "stop"
            assert chat.choices[0].message.reasoning_content and chat.usage.completion_tokens > 0

    asyncio.run(main())


def test_our_own_engine_plays_against_it_with_token_ids() -> None:
    async def main() -> list[Any]:
        async with serving(make_engine("pocket")) as client:
            options = {"token_ids": True}
            url = client.server.url
            return [
                record
                async for record in gym_llm.rollout("gym_llm/Weather-v0", url, episodes=4, engine_options=options)
            ]

    records = asyncio.run(main())
    assert [record["error"] for record in records] == [None] * 4
    assert all(sum(segment["loss_mask"]) for record in records for segment in record["trajectory"])
    assert any(record["reward"] == 1.0 for record in records)


@pytest.mark.parametrize(
    ("ask", "status", "said"),
    [
        (lambda c: c.responses.create(model="gpt", input="x"), 404, "There is no model 'gpt' here, only 'parrot'."),
        (lambda c: c.responses.create(model="parrot", input="fail", stream=True), 400, "The parrot has flown."),
        (lambda c: c.responses.create(model="parrot", input="x", previous_response_id="r"), 400, "No history is kept"),
        (lambda c: c.responses.create(model="parrot", input=[{"role": "robot", "content": "x"}]), 400, "robot"),
        (lambda c: c.responses.create(model="parrot", input="fail"), 400, "The parrot has flown."),
        (lambda c: c.responses.create(model="parrot", input="long"), 400, "longer than the model's context"),
        (lambda c: c.responses.create(model="parrot", input="break"), 500, "KeyError: 'seeds'"),
        (lambda c: c.chat.completions.create(model="parrot", messages=[], n=2), 400, "One answer is sampled"),
        (lambda c: c.chat.completions.create(model="parrot", messages="x"), 400, "`messages` is str"),
        (lambda c: c.chat.completions.create(model="parrot", messages=[3]), 400, "This is not a chat"),
        (lambda c: c.embeddings.create(model="parrot", input="x"), 404, "This server makes no embeddings"),
    ],
)
def test_what_cannot_be_answered_is_said_as_openai_says_it(
    ask: Callable[[Any], Awaitable[Any]], status: int, said: str
) -> None:
    async def main() -> None:
        async with serving(Parrot()) as client:
            with pytest.raises(openai.APIStatusError) as caught:
                await ask(client)
            assert caught.value.status_code == status and said in caught.value.message
            assert set(caught.value.body) == {"message", "type", "param", "code"}
            assert (await client.responses.create(model="parrot", input="still there")).output_text == "still there"

    asyncio.run(main())


def test_a_chat_has_token_ids_only_where_they_are_asked_for() -> None:
    async def main() -> None:
        async with serving(Parrot()) as client:
            ask = {"model": "parrot", "messages": [{"role": "user", "content": "hello"}]}
            plain = await client.chat.completions.create(**ask)
            assert "prompt_token_ids" not in plain.to_dict() and plain.choices[0].logprobs is None
            exact = await client.chat.completions.create(**ask, extra_body={"return_token_ids": True})
            assert exact.to_dict()["prompt_token_ids"] == [1] and exact.choices[0].to_dict()["token_ids"] == [2]
            assert client.server.engine.requests[0] == client.server.engine.requests[1]

    asyncio.run(main())


def test_with_a_token_only_who_knows_it_is_answered() -> None:
    async def main() -> None:
        async with serving(Parrot(), token="sesame") as client, aiohttp.ClientSession() as session:
            assert (await client.responses.create(model="parrot", input="open")).output_text == "open"
            for given in ("", "Bearer sesam", "Bearer sésame", "sesame"):
                async with session.get(f"{client.server.url}/models", headers={"Authorization": given}) as answer:
                    assert answer.status == 401 and (await answer.json())["error"]["code"] == "invalid_api_key"
            async with session.get(client.server.url.replace("/v1", "/health")) as answer:
                assert await answer.json() == {"status": "ok"}

    asyncio.run(main())


def test_bodies_are_bounded_json_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUEST_BYTES, "1000")

    async def main() -> None:
        async with serving(Parrot()) as client, aiohttp.ClientSession() as session:
            url, as_json = f"{client.server.url}/responses", {"Content-Type": "application/json"}
            for data, headers, status, said in (
                (b'"' + b"x" * 2000 + b'"', as_json, 413, "at most 1,000 bytes"),
                (b"{", as_json, 400, "not JSON"),
                (b"[" * 900, as_json, 400, "not JSON"),
                (b"[]", as_json, 400, "got list"),
                (b'{"input": "x"}', {"Content-Type": "text/plain"}, 415, "Content-Type: application/json"),
            ):
                async with session.post(url, data=data, headers=headers) as answer:
                    assert answer.status == status and said in (await answer.json())["error"]["message"]

    asyncio.run(main())


def test_a_page_that_resolves_to_this_machine_is_refused() -> None:
    async def main() -> None:
        async with serving(Parrot()) as client, aiohttp.ClientSession() as session:
            for host, status in (("evil.example", 403), ("evil.example:80", 403), ("localhost:1", 200), ("[::1]", 200)):
                async with session.get(f"{client.server.url}/models", headers={"Host": host}) as answer:
                    assert answer.status == status, host

    asyncio.run(main())


def test_a_request_whose_client_leaves_is_given_up() -> None:
    async def main() -> None:
        engine = Parrot()
        async with serving(engine) as client:
            with pytest.raises(openai.APITimeoutError):
                await client.responses.create(model="parrot", input="hang", timeout=0.5)
            await asyncio.wait_for(engine.given_up.wait(), 20)

    asyncio.run(main())


def test_other_machines_need_a_token_and_a_port_is_one_servers() -> None:
    with pytest.raises(UsageError, match="token"):
        ModelServer(Parrot(), host="0.0.0.0")
    with pytest.raises(UsageError, match="token"):
        ModelServer(Parrot(), token=" ")

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = ModelServer(Parrot(), port=taken.getsockname()[1])
            with pytest.raises(UsageError, match="Cannot listen"):
                await server.__aenter__()

    asyncio.run(main())


@pytest.mark.slow
def test_the_command_serves_until_ctrl_c() -> None:
    command = [sys.executable, "-m", "gym_llm.cli", "serve-model", "pocket", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("pocket answers at http://127.0.0.1:"), process.stderr.read()
            with openai.OpenAI(base_url=line.split()[3], api_key="none") as client:
                assert "\\boxed{5}" in client.responses.create(model="pocket", input="What is 2 + 3?").output_text
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0 and process.stderr.read().startswith("Starting pocket ...\n")


def test_models_and_tokens_are_told_and_what_is_not_served_is_refused_in_each_apis_words() -> None:
    async def main() -> None:
        import anthropic

        engine = make_engine("pocket")
        ask: Any = [{"role": "user", "content": "What is 2 + 3?"}]
        async with serving(engine) as client:
            claude = anthropic.AsyncAnthropic(base_url=client.server.url[:-3], api_key="none", max_retries=0)
            assert (await client.models.retrieve("pocket")).id == "pocket"
            assert (await claude.models.retrieve("pocket")).display_name == "pocket"
            assert [model.id async for model in claude.models.list()] == ["pocket"]
            with pytest.raises(openai.NotFoundError, match="pocket"):
                await client.models.retrieve("a/b")
            counted = await claude.messages.count_tokens(model="pocket", messages=ask, system="Be brief.")
            said = await claude.messages.create(model="pocket", messages=ask, system="Be brief.", max_tokens=9)
            assert counted.input_tokens == said.usage.input_tokens > 0
            with pytest.raises(anthropic.NotFoundError, match="pocket"):
                await claude.messages.count_tokens(model="gpt", messages=ask)
            with pytest.raises(openai.NotFoundError, match="not stored"):
                await client.responses.retrieve("resp_1")
            with pytest.raises(openai.NotFoundError, match="not stored"):
                await client.responses.input_items.list("resp_1")
            with pytest.raises(openai.NotFoundError, match="embeddings"):
                await client.embeddings.create(model="pocket", input="x")
        async with serving(Parrot()) as client:
            claude = anthropic.AsyncAnthropic(base_url=client.server.url[:-3], api_key="none", max_retries=0)
            with pytest.raises(anthropic.NotFoundError, match="cannot count"):
                await claude.messages.count_tokens(model="parrot", messages=ask)

    asyncio.run(main())
