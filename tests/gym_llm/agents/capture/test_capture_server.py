"""A CaptureServer gives agents a model in three APIs, and its sessions' openers what was sampled, to the token."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anthropic
import gymnasium as gym
import openai
import pytest
from testing import in_loop, wait_for

from gym_llm import make_engine
from gym_llm.agents.capture import CaptureServer
from gym_llm.engines import Engine
from gym_llm.protocols.dialect import Refusal
from gym_llm.protocols.responses.dialect import answer, read
from gym_llm.types import TOKEN_FIELDS

ASK = [{"role": "user", "content": "What is 2+2?"}]


class Logged(Engine):
    """The pocket model, and all that it samples, as the truth about it."""

    def __init__(self, seed=0):
        self.engine = make_engine("pocket", parsers=["reasoning", "tool_calls"], seed=seed)
        self.model, self.capabilities = self.engine.model, self.engine.capabilities
        self.log: list[tuple[list[int], list[int], list[float]]] = []
        self.gate: asyncio.Event | None = None

    async def start(self):
        await self.engine.start()

    async def respond(self, request, *, episode_id=""):
        response = await self.engine.respond(request, episode_id=episode_id)
        for item in response["output"]:
            if TOKEN_FIELDS[0] in item:
                self.log.append(tuple(list(item[name]) for name in TOKEN_FIELDS))  # type: ignore[arg-type]
        if self.gate is not None:
            await self.gate.wait()
        return response

    async def aclose(self):
        await self.engine.aclose()


class Client:
    """Opens sessions and asks what came of them."""

    def __init__(self, server: CaptureServer, http: aiohttp.ClientSession):
        self.server, self.http = server, http

    async def call(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        async with self.http.request(method, self.server.url + path, **options) as reply:
            assert reply.status == status, await reply.text()
            return await reply.json()

    async def open(self, **body: Any) -> str:
        opened: str = (await self.call("POST", "/sessions", json=body))["session_id"]
        return opened

    async def trajectory(self, session: str) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = (await self.call("GET", f"/sessions/{session}/trajectory"))["trajectory"]
        return told

    def gpt(self, session: str) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.server.url}/v1", api_key=session, max_retries=0)

    def claude(self, session: str) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=self.server.url, api_key=session, max_retries=0)


@asynccontextmanager
async def served(engine: Engine | None = None, **options: Any) -> AsyncGenerator[Client, None]:
    engine = engine or Logged()
    async with CaptureServer(engine, **options) as server, aiohttp.ClientSession() as http:
        yield Client(server, http)


def sampled(branch: dict[str, Any]) -> tuple[list[int], list[float]]:
    """The ids of a branch that count, and their log probabilities."""
    chosen = [index for index, counts in enumerate(branch["loss_mask"]) if counts]
    return [branch["input_ids"][index] for index in chosen], [branch["logprobs"][index] for index in chosen]


def has(branch: dict[str, Any], prompt: list[int], ids: list[int], log_probs: list[float]) -> bool:
    """Whether a branch has this sample, to be trained on, after exactly this prompt."""
    end = len(prompt) + len(ids)
    return (
        branch["input_ids"][:end] == prompt + ids
        and branch["loss_mask"][len(prompt) : end] == [1] * len(ids)
        and branch["logprobs"][len(prompt) : end] == log_probs
    )


@in_loop
async def test_a_conversation_has_all_that_was_sampled_in_each_api():
    engine, counts = Logged(), []
    async with served(engine) as client:
        for dialect in ("chat", "responses", "messages"):
            engine.log.clear()
            session = await client.open(sampling={"temperature": 0.0})  # each answer has a text
            said: list[Any] = list(ASK)
            for _ in range(3):
                if dialect == "chat":
                    chat = await client.gpt(session).chat.completions.create(model="any", messages=said)
                    text: str = chat.choices[0].message.content or ""
                    said += [chat.choices[0].message.model_dump(exclude_none=True), *ASK]
                elif dialect == "responses":
                    answer = await client.gpt(session).responses.create(model="any", input=said)
                    text = answer.output_text
                    said += [*(item.model_dump(exclude_none=True) for item in answer.output), *ASK]
                else:
                    message = await client.claude(session).messages.create(model="any", max_tokens=99, messages=said)
                    text = message.content[-1].text
                    said += [{"role": "assistant", "content": [block.to_dict() for block in message.content]}, *ASK]
                assert text
            branches = await client.trajectory(session)
            assert len(engine.log) == 3
            assert sum(branch["loss_mask"].count(1) for branch in branches) == sum(len(ids) for _, ids, _ in engine.log)
            assert all(any(has(branch, *one) for branch in branches) for one in engine.log)
            counts.append(len(branches))
    assert len(set(counts)) == 1  # what the template makes of the history, whichever API tells it


@in_loop
async def test_tools_in_namespaces_are_plain_to_the_model_and_whole_to_the_client():
    env = gym.make("gym_llm/Weather-v0")
    request, _ = env.reset(options={"task_index": 0})
    env.close()
    plain = request["tools"]
    tools: Any = [{"type": "namespace", "name": "mcp__gym", "description": "Weather", "tools": plain}]
    items: Any = request["input"]
    engine = Logged()
    async with served(engine) as client:
        key = await client.open(sampling={"temperature": 0.0})
        async with client.gpt(key) as gpt:
            async with gpt.responses.stream(model="m", input=items, tools=tools) as stream:
                first = await stream.get_final_response()
            (call,) = [item for item in first.output if item.type == "function_call"]
            assert (call.namespace, call.name) == ("mcp__gym", plain[0]["name"])
            said = [item.model_dump(exclude_none=True) for item in first.output]
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
            await gpt.responses.create(model="m", input=[*items, *said, result], tools=tools)
        (branch,) = await client.trajectory(key)
        assert branch["input_ids"][: len(engine.log[0][0])] == engine.log[0][0]
        other = await client.open()
        async with client.gpt(other) as gpt:
            await gpt.responses.create(model="m", input=items, tools=plain)
        assert engine.log[2][0] == engine.log[0][0]


@in_loop
async def test_tools_of_one_name_in_two_namespaces_are_told_apart():
    def tools(*names: str) -> list[dict[str, Any]]:
        look = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
        return [{"type": "namespace", "name": name, "description": "", "tools": [look]} for name in names]

    body = {"model": "m", "input": "Hi", "tools": tools("a", "b")}
    assert [tool["name"] for tool in read(body)["tools"]] == ["a__look", "b__look"]
    call = {"type": "function_call", "call_id": "1", "name": "b__look", "arguments": "{}"}
    response: Any = {"id": "r", "output": [call], "status": "completed"}
    (answered,) = answer(response, body)["output"]
    assert (answered["namespace"], answered["name"]) == ("b", "look")
    again = read({**body, "input": [answered]})["input"]
    assert (again[0]["name"], "namespace" in again[0]) == ("b__look", False)
    for wrong in ({"type": "namespace"}, {"type": "namespace", "name": "a", "tools": [{}]}):
        with pytest.raises(Refusal, match="A namespace has"):
            read({**body, "tools": [wrong]})


@in_loop
async def test_who_has_no_session_is_answered_401_in_the_words_of_its_api():
    async with served() as client:
        with pytest.raises(openai.AuthenticationError, match="session"):
            await client.gpt("other").chat.completions.create(model="any", messages=ASK)
        with pytest.raises(anthropic.AuthenticationError):
            await client.claude("other").messages.create(model="any", max_tokens=9, messages=ASK)
        session = await client.open()
        assert (await client.call("DELETE", f"/sessions/{session}"))["deleted"] is True
        assert (await client.call("DELETE", f"/sessions/{session}"))["deleted"] is False
        with pytest.raises(openai.AuthenticationError):
            await client.gpt(session).chat.completions.create(model="any", messages=ASK)


@in_loop
async def test_sessions_are_behind_the_servers_token_and_pages_of_other_sites_are_refused():
    async with served(token="secret") as client:
        for method, path in (("POST", "/sessions"), ("GET", "/sessions"), ("GET", "/sessions/x/rollout")):
            await client.call(method, path, 401)
        await client.call("GET", "/metrics", 401)
        key = {"Authorization": "Bearer secret"}
        opened = await client.call("POST", "/sessions", headers=key, json={})
        gpt = client.gpt(opened["session_id"])
        answer = await gpt.chat.completions.create(model="any", messages=ASK, temperature=0)
        assert answer.choices[0].message.content
        await client.call("GET", "/health")
        await client.call("GET", "/sessions", 403, headers={**key, "Host": "example.com"})
        await client.call("GET", "/sessions", 403, headers={**key, "Origin": "http://example.com"})
        with pytest.raises(openai.AuthenticationError):  # the token opens sessions, it is none
            await client.gpt("secret").chat.completions.create(model="any", messages=ASK)


@in_loop
async def test_the_key_may_stand_in_the_path_and_nemo_gyms_paths_open_a_session():
    async with served() as client:
        session = await client.open()
        for prefix in (f"/s/{session}", "/ng-rollout/r-1", "/ng-rollout/r-1/training-token-capture"):
            body = {"model": "any", "messages": ASK}
            assert (await client.call("POST", f"{prefix}/v1/chat/completions", json=body))["choices"]
        assert len(await client.trajectory(session)) == 1
        assert len(await client.trajectory("r-1")) == 2
        await client.call("POST", "/s/unknown/v1/chat/completions", 401, json={"messages": ASK})


@in_loop
async def test_who_guesses_the_name_of_a_path_can_ask_nothing_without_the_token():
    async with served(token="sesame-4711-open") as client:
        body, headers = {"messages": ASK, "max_tokens": 4}, {"Authorization": "Bearer sesame-4711-open"}
        path = "/ng-rollout/0-1/v1/chat/completions"
        await client.call("POST", path, json=body, headers=headers)
        await client.call("POST", path, json=body, headers=headers)
        await client.call("POST", path, 401, json=body)
        await client.call("POST", "/s/0-1/v1/chat/completions", 401, json=body)
        await client.call("POST", "/v1/chat/completions", 401, json=body, headers={"Authorization": "Bearer 0-1"})
        assert len(client.server.sessions["0-1"].calls) == 2


@in_loop
async def test_an_answer_that_is_cut_off_as_it_is_written_is_not_trained_on():
    class Long(Logged):
        async def respond(self, request, *, episode_id=""):
            response = await super().respond(request, episode_id=episode_id)
            (*_, last) = response["output"]
            last = {**last, "type": "message", "role": "assistant"}
            last["content"] = [{"type": "output_text", "text": "x" * 20_000_000, "annotations": []}]
            return {**response, "output": [last]}

    async with served(Long()) as client:
        for stream in (False, True):
            session = await client.open()
            body = {"messages": ASK, "max_tokens": 4, "stream": stream}
            async with client.http.post(f"{client.server.url}/s/{session}/v1/chat/completions", json=body) as reply:
                await reply.content.readexactly(100)
                reply.close()
            calls = client.server.sessions[session].calls
            async with asyncio.timeout(10):
                while calls[0].status != "abandoned":
                    await asyncio.sleep(0.01)
            assert await client.trajectory(session) == []


@in_loop
async def test_a_stream_that_is_cut_off_is_not_trained_on_and_its_retry_is():
    engine = Logged()
    async with served(engine) as client:
        session = await client.open()
        engine.gate = asyncio.Event()
        asking = asyncio.create_task(client.gpt(session).chat.completions.create(model="any", messages=ASK))
        while not engine.log:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait({asking})
        while client.server.sessions[session].under_way:
            await asyncio.sleep(0.01)
        engine.gate = None
        stream = await client.gpt(session).chat.completions.create(model="any", messages=ASK, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        assert text
        (branch,) = await client.trajectory(session)
        assert sampled(branch) == (engine.log[1][1], engine.log[1][2])


@in_loop
async def test_other_models_are_answered_and_never_trained_on():
    other = make_engine("constant:I am another.")
    async with served(others={"helper": other}) as client:
        session = await client.open()
        gpt = client.gpt(session)
        said = (await gpt.chat.completions.create(model="helper", messages=ASK)).choices[0].message.content
        assert said == "I am another."
        assert await client.trajectory(session) is None
        await gpt.chat.completions.create(model="policy", messages=ASK)
        assert len(await client.trajectory(session)) == 1
        assert [model.id async for model in gpt.models.list()] == ["pocket", "helper"]


@in_loop
async def test_after_its_last_call_an_agent_is_told_to_stop_and_nothing_is_kept_of_that():
    async with served() as client:
        session = await client.open(max_model_calls=1, metadata={"budget_stops": "mine"})
        for _ in range(3):
            last = await client.gpt(session).chat.completions.create(model="any", messages=ASK)
        assert last.choices[0].message.content == "Step budget exhausted; stopping."
        document = await client.call("GET", f"/sessions/{session}/rollout")
        assert (document["budget_stop_count"], document["stats"]["n_turns"]) == (2, 1)


@in_loop
async def test_a_sessions_sampling_is_what_counts():
    async with served() as client:
        session = await client.open(sampling={"temperature": 0.0, "top_k": -1, "max_tokens": 3})
        chats = client.gpt(session).chat.completions
        answers = [await chats.create(model="any", messages=ASK, temperature=1.5, max_tokens=50) for _ in range(2)]
        assert {answer.usage.completion_tokens for answer in answers if answer.usage} == {3}
        assert all(branch["loss_mask"].count(1) == 3 for branch in await client.trajectory(session))


@in_loop
async def test_what_openers_ask_wrongly_is_a_sentence():
    async with served(capacity=1) as client:
        for body in (
            *({"sampling": 3}, {"sampling": {"temperature": "hot"}}, {"sampling": {"input": []}}, {"metadata": []}),
            *({"max_model_calls": -1}, {"purpose": "fun"}, {"session_id": "a b"}, {"session_id": 3}, {"defaults": [1]}),
        ):
            told = await client.call("POST", "/sessions", 400, json=body)
            assert told["error"]["message"]
        told = await client.call("POST", "/sessions", 400, json={"sampling": {"temprature": 0.5}})
        assert "temperature" in told["error"]["message"]
        told = await client.call("POST", "/chat/completions", 404, json={})
        assert "/v1" in told["error"]["message"]
        told = await client.call("POST", "/sessions", 403, json={"llm_url": "http://169.254.169.254/"})
        assert "leave llm_url out" in told["error"]["message"]
        await client.open(session_id="mine")
        told = await client.call("POST", "/sessions", 503, json={})
        assert "All 1 sessions are taken" in told["error"]["message"]
        await client.call("POST", "/sessions", 400, data="[", headers={"Content-Type": "application/json"})
        await client.call("GET", "/sessions/other/trajectory", 404)


@in_loop
async def test_sessions_expire_that_nobody_asks():
    async with served(idle_seconds=0.3) as client:
        session = await client.open()
        await asyncio.sleep(1.0)
        await client.call("GET", f"/sessions/{session}", 404)


@in_loop
async def test_a_clock_that_jumps_ends_no_session(monkeypatch: pytest.MonkeyPatch):
    async with served(idle_seconds=2.0) as client:
        session = await client.open()
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 86_400)
        await asyncio.sleep(1.0)
        assert (await client.call("GET", f"/sessions/{session}"))["idle_s"] < 10


@in_loop
async def test_another_model_server_answers_a_session_where_that_is_allowed():
    from gym_llm.serve import ModelServer

    async with ModelServer(make_engine("pocket"), port=0) as elsewhere, served(upstreams=True) as client:
        opened = await client.call("POST", "/sessions", json={"llm_url": elsewhere.url, "model": "pocket"})
        answer = await client.gpt(opened["session_id"]).chat.completions.create(model="any", messages=ASK)
        assert answer.choices[0].message.content
        assert len(await client.trajectory(opened["session_id"])) == 1
        await client.call("POST", "/sessions", 502, json={"llm_url": "http://127.0.0.1:9/v1", "model": "m"})


@in_loop
async def test_model_servers_that_no_session_has_any_more_make_room_for_others():
    from gym_llm.serve import ModelServer

    async with ModelServer(make_engine("pocket"), port=0) as elsewhere, served(upstreams=True) as client:

        async def opened(number: int, status: int = 200) -> Any:
            asked = {"llm_url": elsewhere.url, "model": "pocket", "api_key": f"key-of-number-{number}"}
            return (await client.call("POST", "/sessions", status, json=asked)).get("session_id")

        kept = [await opened(number) for number in range(16)]
        await opened(16, 503)
        await client.call("DELETE", f"/sessions/{kept.pop()}")
        kept.append(await opened(16))
        for session in kept:
            await client.gpt(session).chat.completions.create(model="any", messages=ASK, max_tokens=2)


@in_loop
async def test_another_model_server_is_not_told_this_machines_own_key(monkeypatch):
    from gym_llm.serve import ModelServer

    monkeypatch.setenv("OPENAI_API_KEY", "sesame-4711-open")
    async with (
        ModelServer(make_engine("pocket"), port=0, token="sesame-4711-open") as elsewhere,
        served(upstreams=True) as client,
    ):
        asked = {"llm_url": elsewhere.url, "model": "pocket"}
        told = await client.call("POST", "/sessions", 502, json=asked)
        assert "API key" in told["error"]["message"]
        await client.call("POST", "/sessions", json={**asked, "api_key": "sesame-4711-open"})


@in_loop
async def test_what_an_api_cannot_say_is_not_trained_on():
    class Searches(Logged):
        async def respond(self, request, *, episode_id=""):
            response = await super().respond(request, episode_id=episode_id)
            return {**response, "output": [*response["output"], {"type": "web_search_call", "id": "ws_1"}]}

    async with served(Searches()) as client:
        session = await client.open()
        for stream in (False, True):
            body = {"messages": ASK, "max_tokens": 8, "stream": stream}
            await client.call("POST", f"/s/{session}/v1/messages", 500, json=body)
        assert await client.trajectory(session) == []
        assert [call.status for call in client.server.sessions[session].calls] == ["abandoned"] * 2


@in_loop
async def test_stream_options_that_are_none_are_refused_before_the_model_is_asked():
    async with served() as client:
        session = await client.open()
        body = {"messages": ASK, "stream": True, "stream_options": "include_usage"}
        told = await client.call("POST", f"/s/{session}/v1/chat/completions", 400, json=body)
        assert told["error"]["param"] == "stream_options"
        assert client.server.sessions[session].calls == []


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tmp_path):
    command = [sys.executable, "-m", "gym_llm.cli", "capture", "pocket", "--port", "0", "--other", "b=constant:B"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert "pocket is served at http://127.0.0.1:" in first
        finally:
            process.terminate()
        wait_for(lambda: process.poll() is not None)


def test_another_model_at_a_url_is_asked_for_by_its_name(monkeypatch):
    from gym_llm.cli import capture

    made: dict[str, Engine] = {}
    monkeypatch.setattr("gym_llm.cli.interrupts.run_until_interrupted", lambda *_: None)
    monkeypatch.setattr("gym_llm.agents.capture.CaptureServer", lambda *_, others, **__: made.update(others))
    capture.capture("pocket", other=["gpt-5-mini=https://api.openai.com/v1", "judge=constant:4"])
    assert {name: engine.model for name, engine in made.items()} == {"gpt-5-mini": "gpt-5-mini", "judge": "constant"}
