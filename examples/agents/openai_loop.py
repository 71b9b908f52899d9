"""An agent: a loop around the `openai` client, as a program of its own.

    gym-llm rollout gym_llm/Weather-v0 --agent "python examples/agents/openai_loop.py" --show 1

The client finds the model in OPENAI_BASE_URL and OPENAI_API_KEY. The task is on the standard input; the environment's
tools are at GYM_LLM_TOOLS_URL. What is printed is the answer.
"""

import json
import os
import sys
import urllib.request
from typing import Any

from openai import OpenAI


def call_tool(name: str, arguments: str) -> str:
    """Call a tool of the environment."""
    url = f"{os.environ['GYM_LLM_TOOLS_URL']}/tools/{name}"
    with urllib.request.urlopen(urllib.request.Request(url, arguments.encode(), method="POST")) as answer:
        return str(json.load(answer)["output"])


def main() -> None:
    """Ask the model, make the calls that it wants, and print what it says without any."""
    with open(os.environ["GYM_LLM_TASK"], encoding="utf-8") as file:
        tools: list[Any] = [{"type": "function", "function": tool} for tool in json.load(file)["tools"]]
    messages: list[Any] = [{"role": "user", "content": sys.stdin.read()}]
    client = OpenAI()
    while True:
        chat = client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=messages, tools=tools)
        message = chat.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            print(message.content or "")
            return
        for call in message.tool_calls:
            assert call.type == "function"
            output = call_tool(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


if __name__ == "__main__":
    main()
