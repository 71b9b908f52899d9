"""OpenEnv's own clients play a served Weather: argument URL. What it prints is what they saw."""

import asyncio
import json
import sys

from openenv.core import GenericEnvClient, MCPToolClient
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsAction

URL, TOKEN = sys.argv[1:3]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CALL = {"type": "function_call", "name": "get_weather", "call_id": "c1", "arguments": '{"city": "Sydney"}'}


def raised(function, *arguments):
    try:
        function(*arguments)
    except (RuntimeError, ConnectionError) as error:
        return str(error)
    raise AssertionError("nothing was raised")


def synchronous():
    """The generic client: an episode by Responses items, one by tool actions, one of a single turn."""
    with GenericEnvClient(base_url=URL, headers=HEADERS).sync() as env:
        begun = env.reset(task_index=0)
        assert begun.reward is None and begun.done is False
        step = env.step({"output": [CALL]})
        assert "Sydney" in step.observation["request"]["input"][-1]["output"]
        ended = env.step({"output": "It is mild in Sydney."})
        assert ended.done and ended.reward == 1.0, ended
        state = env.state()
        assert state["step_count"] == 2 and state["outcome"] == "scored"

        env.reset(task_index=0)
        listed = env.step({"type": "list_tools"})
        assert [tool["name"] for tool in listed.observation["tools"]] == ["get_weather"]
        called = env.step({"type": "call_tool", "tool_name": "get_weather", "arguments": {"city": "Sydney"}})
        assert "Sydney" in called.observation["result"]
        assert env.step({"output": "Mild."}).reward == 1.0

        assert "EXECUTION_ERROR" in raised(env.step, {"output": "again"})
        assert "VALIDATION_ERROR" in raised(env.step, {"outptu": "again"})
        env.reset(seed=5, episode_id="named")
        assert env.state()["episode_id"] == "named"
        assert env.step({"output": "No."}).done
    unwelcome = GenericEnvClient(base_url=URL).sync()
    return raised(unwelcome.connect)


async def tools():
    """The tool client: its session is made over /mcp, and played over both."""
    async with MCPToolClient(base_url=URL, headers=HEADERS) as env:
        await env.reset(task_index=0)
        listed = await env.list_tools()
        assert [tool.name for tool in listed] == ["get_weather"] and listed[0].input_schema["required"] == ["city"]
        assert "Sydney" in await env.call_tool("get_weather", city="Sydney")
        stepped = await env.step(CallToolAction(tool_name="get_weather", arguments={"city": "Sydney"}))
        assert isinstance(stepped.observation, CallToolObservation) and "Sydney" in stepped.observation.result
        assert (await env.step(ListToolsAction())).observation.tools == listed
        missing = await env.step(CallToolAction(tool_name="nothing", arguments={}))
        assert missing.observation.error.error_type.value == "tool_not_found"
        assert (await env.state()).step_count == 3
        return (await env.step("It is mild.")).reward


async def many():
    """Sixteen clients at once, each an episode of its own."""

    async def play(number):
        async with GenericEnvClient(base_url=URL, headers=HEADERS) as env:
            begun = await env.reset(task_index=number % 5)
            await asyncio.sleep(0.01 * (number % 3))
            assert (await env.state())["task_index"] == number % 5
            return begun.observation["request"]["input"][0]["content"]

    return len(set(await asyncio.gather(*map(play, range(16)))))


unwelcome = synchronous()
print(json.dumps({"unwelcome": unwelcome, "tool_reward": asyncio.run(tools()), "tasks": asyncio.run(many())}))
