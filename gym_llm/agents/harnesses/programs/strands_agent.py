"""Play with an agent of Strands, with the environment's tools over MCP."""

import os
import sys

from mcp.client.streamable_http import streamablehttp_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

model = OpenAIModel(
    client_args={"base_url": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]},
    model_id=os.environ["OPENAI_MODEL"],
)
with MCPClient(lambda: streamablehttp_client(os.environ["GYM_LLM_MCP_URL"])) as client:
    agent = Agent(model=model, tools=client.list_tools_sync(), callback_handler=None)
    print(str(agent(sys.stdin.read())).strip())
