"""Plays environments of a server with openreward's own client: `python openreward_client.py URL SEVERAL TOKEN`."""

import asyncio
import json
import os
import sys

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"

from openreward.api.environments.client import AsyncEnvironmentsAPI, ToolCallError, ToolFailed


def texts(blocks):
    return [block.text for block in blocks if block.type == "text"]


async def play(environment, index, turns):
    """An episode: prompts, tools, and what each turn gives."""
    async with environment.session(split="train", index=index) as session:
        seen = {
            "prompt": texts(await session.get_prompt()),
            "tools": [tool.name for tool in await session.list_tools()],
        }
        seen["messages"] = [(message.role, texts(message.blocks)) for message in await session.get_messages()]
        seen["final"] = await session.is_assistant_message_final()
        seen["turns"] = []
        for turn in turns:
            try:
                if isinstance(turn, str):
                    output = await session.call_terminal_tool(turn)
                else:
                    output = await session.call_tool(*turn)
            except (ToolCallError, ToolFailed) as error:
                seen["turns"].append([type(error).__name__, str(error)])
                continue
            seen["turns"].append([texts(output.blocks), output.reward, output.finished])
        return seen


async def main(url, several, token):
    async with AsyncEnvironmentsAPI(url, token) as client:
        weather = client.get(name="Weather-v0", base_url=url)
        turns = [("get_weather", {"city": "Paris"}), ("no_tool", {}), "It is mild.", "Once more."]
        seen = {"weather": await play(weather, 0, turns)}
        seen["splits"] = await weather.list_splits()
        seen["tasks"] = await weather.num_tasks("train")
        task = await weather.get_task("train", 2)
        async with weather.session(task) as session:
            seen["third"] = texts(await session.get_prompt())
        listed = await weather.get_task_range("train", 1, 3)
        seen["range"] = [each.task_spec["index"] for each in listed]
        named = client.get(name="FollowUp-v0", variant="FollowUp-v0", base_url=several)
        seen["named"] = await play(named, 0, [" \u2003spaces " * 3_000, "again"])
        try:
            await play(client.get(name="Weather-v0", base_url=url), 10_000, [])
        except Exception as error:
            seen["refused"] = f"{type(error).__name__} {error}"
    async with AsyncEnvironmentsAPI(url, "wrong") as client:
        try:
            await play(client.get(name="Weather-v0", base_url=url), 0, [])
        except Exception as error:
            seen["unwelcome"] = type(error).__name__
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
