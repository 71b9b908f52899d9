"""Agents' tools over HTTP and MCP: whatever is sent is answered in a sentence, to who has the key."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from testing import row

import gym_llm
from gym_llm.agents import AgentEpisode

MCP = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def play(agent: Any, env_id: str = "gym_llm/Weather-v0", count: int = 1, **more: Any) -> list[Any]:
    async def collected() -> list[Any]:
        records = gym_llm.rollout(env_id, "constant:It is cold.", agent=agent, limit=count, **more)
        return [record async for record in records]

    return asyncio.run(collected())


async def ask(method: str, url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
    headers = {"Content-Type": "application/json", **headers}
    async with aiohttp.ClientSession() as http, http.request(method, url, data=data, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def mcp(url: str, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    status, answer = await ask("POST", url, body, Accept=MCP["Accept"])
    assert status == 200, answer
    return answer["result"]


def test_an_episode_is_played_over_plain_http() -> None:
    async def agent(episode: AgentEpisode) -> None:
        url = episode.tools_url
        status, tools = await ask("GET", f"{url}/tools")
        assert status == 200 and tools["tools"][0]["name"] == "get_weather"
        assert (await ask("GET", f"{url}/request"))[1]["input"] == episode.request["input"]
        city = episode.request["input"][0]["content"].strip("?").partition(" in ")[2] or "Oslo"
        status, said = await ask("POST", f"{url}/tools/get_weather", {"city": city})
        assert status == 200 and json.loads(said["output"])["city"] == city
        status, said = await ask("POST", f"{url}/tools/none", "")
        assert status == 200 and "no tool named 'none'" in said["output"]
        assert await ask("POST", f"{url}/submit", {"answer": "cold"}) == (200, {"over": True})
        assert await ask("POST", f"{url}/submit", {"answer": "cold"}) == (410, {"error": "The episode is over."})

    (record,) = play(agent)
    assert record["error"] is None and record["info"]["turn"] == 3


def test_an_episode_is_played_over_mcp() -> None:
    async def agent(episode: AgentEpisode) -> None:
        url = episode.mcp_url
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        assert (await mcp(url, "initialize", **hello))["protocolVersion"] == "2025-11-25"
        names = [tool["name"] for tool in (await mcp(url, "tools/list"))["tools"]]
        assert names == ["get_weather", "submit"]
        said = await mcp(url, "tools/call", name="get_weather", arguments={"city": "Oslo"})
        assert "cold" in said["content"][0]["text"]
        wrong = await mcp(url, "tools/call", name="submit", arguments={"answer": 3})
        assert wrong["isError"] and "An answer is" in wrong["content"][0]["text"]
        said = await mcp(url, "tools/call", name="submit", arguments={"answer": "It is cold."})
        assert said["content"][0]["text"] == "The episode is over."

    (record,) = play(agent)
    assert record["error"] is None and record["info"]["turn"] == 2


def test_nobody_without_a_key_is_answered() -> None:
    urls: list[str] = []

    async def agent(episode: AgentEpisode) -> str:
        urls.append(episode.tools_url)
        root = episode.tools_url.partition("/s/")[0]
        key = {"Authorization": f"Bearer {episode.api_key}"}
        assert (await ask("GET", f"{root}/tools", **key))[0] == 200
        for url, headers in (
            (f"{root}/tools", {}),
            (f"{root}/s/{episode.api_key}x/tools", {}),
            (f"{root}/tools", {"Authorization": "Bearer gl-guess"}),
        ):
            assert (await ask("GET", url, **headers))[0] == 401
        status, _ = await ask("POST", f"{root}/s/guess/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, **MCP)
        assert status == 401
        assert (await ask("GET", f"{root}/tools", Host="evil.example", **key))[0] == 403
        assert (await ask("GET", f"{root}/tools", Origin="http://evil.example", **key))[0] == 403
        if len(urls) == 2:  # the first one's episode is over
            assert (await ask("GET", f"{urls[0]}/tools"))[0] == 401
        return "done"

    assert [record["error"] for record in play(agent, count=2, concurrency=1)] == [None, None]
    assert urls[0] != urls[1]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/submit", "no JSON {", 400),
        ("/submit", {}, 400),
        ("/submit", {"answer": None}, 400),
        ("/submit", {"output": [{"type": "message", "role": "user", "content": "x"}]}, 400),
        ("/submit", [3], 400),
        ("/submit", "[" * 100_000, 400),
        ("/nothing", {}, 404),
        ("/tools/get_weather", b"\xff\xfe", 200),
        ("/tools/get_weather", "[" * 100_000, 200),
        ("/tools/%00%ff", {}, 200),
    ],
)
def test_what_makes_no_sense_is_answered_in_a_sentence(path: str, body: Any, status: int) -> None:
    answers: list[Any] = []

    async def agent(episode: AgentEpisode) -> str:
        answers.append(await ask("POST", f"{episode.tools_url}{path}", body))
        return "It is cold."

    (record,) = play(agent)
    assert record["error"] is None and answers[0][0] == status
    assert "error" in json.dumps(answers[0][1]) or "no tool named" in json.dumps(answers[0][1])


def test_a_tool_of_the_environments_own_may_be_called_submit() -> None:
    import gymnasium as gym

    from gym_llm import VerifierEnv, tool

    class Submits(VerifierEnv):
        """Has a tool with this name."""

        @tool
        def submit(self, guess: int) -> str:
            """Guess."""
            return f"{guess} is wrong"

        def verify(self, task: Any, episode: Any) -> float:
            return 1.0

    async def agent(episode: AgentEpisode) -> str:
        tools = (await mcp(episode.mcp_url, "tools/list"))["tools"]
        assert [list(each["inputSchema"]["properties"]) for each in tools] == [["guess"]]
        said = await mcp(episode.mcp_url, "tools/call", name="submit", arguments={"guess": 3})
        return str(said["content"][0]["text"])

    gym.register("agent_tests/Submits-v0", Submits)
    try:
        (record,) = play(agent, "agent_tests/Submits-v0", tasks=[row()])
    finally:
        del gym.registry["agent_tests/Submits-v0"]
    assert record["response"]["output"][-1]["content"][0]["text"] == "3 is wrong"
