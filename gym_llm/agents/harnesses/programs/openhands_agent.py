"""Play with the default agent of OpenHands, without its browser, and with the environment's tools over MCP."""

import os
import sys
from pathlib import Path

from openhands.sdk import LLM, Conversation
from openhands.sdk.conversation.response_utils import get_agent_final_response
from openhands.sdk.mcp.config import coerce_mcp_config
from openhands.tools.preset.default import get_default_agent

model = LLM(
    model=f"openai/{os.environ['OPENAI_MODEL']}",
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
)
servers = coerce_mcp_config({"mcpServers": {"gym": {"url": os.environ["GYM_LLM_MCP_URL"], "transport": "http"}}})
agent = get_default_agent(model, cli_mode=True).model_copy(update={"mcp_config": servers})
conversation = Conversation(
    agent,
    workspace=os.getcwd(),
    persistence_dir=Path(os.environ["GYM_LLM_FOLDER"]) / "conversation",
    visualizer=None,
)
conversation.send_message(sys.stdin.read())
conversation.run()
print(get_agent_final_response(conversation.state.events))
conversation.close()
