"""Play with a ToolCallingAgent of smolagents, with the environment's tools over MCP."""

import os
import sys

from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

model = OpenAIServerModel(
    model_id=os.environ["OPENAI_MODEL"],
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    tool_choice="auto",  # not all engines can force a call
)
server = {"url": os.environ["GYM_LLM_MCP_URL"], "transport": "streamable-http"}
with MCPClient(server, structured_output=False) as tools:
    agent = ToolCallingAgent(tools=tools, model=model, max_steps=50, verbosity_level=0)
    print(agent.run(sys.stdin.read()))
