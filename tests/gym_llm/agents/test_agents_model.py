"""The models of agents' episodes over HTTP: each to who has its key; whatever else is sent is refused in a sentence."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import openai
import pytest
from agent_playing import Says, play
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from testing import row

from gym_llm import collect
from gym_llm.agents import AgentEpisode

CHAT = {"messages": [{"role": "user", "content": "2+2?"}]}


async def ask(episode: AgentEpisode, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, (str, bytes)) else json.dumps(body)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {episode.api_key}", **headers}
    url = episode.addresses.anthropic_url + path
    async with aiohttp.ClientSession() as http, http.post(url, data=data, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


def test_openais_client_streams_and_lists_the_model() -> None:
    async def agent(episode: AgentEpisode) -> str:
        async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["says"]
            stream = await client.chat.completions.create(model="any", messages=CHAT["messages"], stream=True)  # type: ignore[call-overload]
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            answer = await client.responses.create(model="any", input="2+2?")
        return f"{text} {answer.output_text}"

    record = play(agent)
    assert record["info"]["answer"] == "four four" and record["info"]["agent"]["model_calls"] == 2


def test_anthropics_client_asks_the_same_model() -> None:
    async def agent(episode: AgentEpisode) -> str:
        url = episode.addresses.anthropic_url
        async with AsyncAnthropic(base_url=url, api_key=episode.api_key, max_retries=0) as client:
            messages: Any = [{"role": "user", "content": episode.prompt}]
            answer = await client.messages.create(model="any", max_tokens=9, messages=messages)
            async with client.messages.stream(model="any", max_tokens=9, messages=messages) as stream:
                return f"{answer.content[0].text} {await stream.get_final_text()}"  # type: ignore[union-attr]

    record = play(agent)
    assert record["info"]["answer"] == "four four" and len(record["trajectory"]) == 2


def test_the_key_may_stand_in_the_path_or_in_a_header_and_no_other_is_answered() -> None:
    async def agent(episode: AgentEpisode) -> str:
        key, path = episode.api_key, "/v1/chat/completions"
        for good in ({"Authorization": "", "X-API-Key": key}, {}):
            assert (await ask(episode, path, CHAT, **good))[0] == 200
        assert (await ask(episode, f"/s/{key}{path}", CHAT, Authorization=""))[0] == 200
        for bad in ({"Authorization": ""}, {"Authorization": "Bearer gl-guess"}, {"Authorization": f"Bearer {key}x"}):
            status, answer = await ask(episode, path, CHAT, **bad)
            assert status == 401 and "key" in answer["error"]["message"]
        for elsewhere in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert (await ask(episode, path, CHAT, **elsewhere))[0] == 403
        return "done"

    record = play(agent)
    assert record["error"] is None and record["info"]["agent"]["model_calls"] == 3


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", "no JSON {", 400),
        ("/v1/chat/completions", [3], 400),
        ("/v1/chat/completions", {}, 400),
        ("/v1/chat/completions", {"messages": [{"role": "nobody"}]}, 400),
        ("/v1/chat/completions", {**CHAT, "temperature": "hot"}, 400),
        ("/v1/responses", {"input": [{"type": "function_call_output"}]}, 400),
        ("/v1/responses", "[" * 100_000, 400),
        ("/v1/nothing", {}, 404),
        ("/v1/responses", b"\xff", 400),
    ],
)
def test_what_makes_no_sense_is_refused_and_is_no_call(path: str, body: Any, status: int) -> None:
    async def agent(episode: AgentEpisode) -> str:
        answered, answer = await ask(episode, path, body)
        assert answered == status and isinstance(answer["error"]["message"], str)
        return "done"

    record = play(agent)
    assert record["error"] is None and record["info"]["agent"]["model_calls"] == 0


def test_what_nobody_waited_for_is_not_trained_on() -> None:
    class Slow(Says):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            await asyncio.sleep(0.2 if len(self.requests) == 0 else 0)
            return await super().respond(request, episode_id=episode_id)

    async def agent(episode: AgentEpisode) -> str:
        async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0) as client:
            with pytest.raises(openai.APITimeoutError):
                await client.responses.create(model="any", input="2+2?", timeout=0.05)
            await asyncio.sleep(0.3)
            answer = await client.responses.create(model="any", input="Sure?")
        return answer.output_text

    record = play(agent, Slow())
    assert record["info"]["answer"] == "four" and len(record["trajectory"]) == 1
    assert sum(record["trajectory"][0]["loss_mask"]) == 1


def test_after_its_episode_an_agent_is_answered_no_more() -> None:
    keys: list[AgentEpisode] = []

    async def agent(episode: AgentEpisode) -> str:
        for earlier in keys:
            assert (await ask(episode, "/v1/responses", {"input": "x"}, Authorization=f"Bearer {earlier.api_key}"))[
                0
            ] == 401
        keys.append(episode)
        return "done"

    tasks = [row("a"), row("b")]
    records = collect("agent_tests/Two-v0", Says(), agent=agent, tasks=tasks, concurrency=1, progress=False)
    assert [record["error"] for record in records] == [None, None] and len({each.api_key for each in keys}) == 2
