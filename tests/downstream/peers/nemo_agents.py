"""NeMo Gym's own agents, with its own HTTP client, play rows against our servers; run by tests/downstream.

Arguments: the URL of the resources server, that of the model server, a file of rows, and who plays: `simple` (seeds,
calls tools, has it verified), `gymnasium` (resets and steps), or `environment` (0.7's environment server over a simple
agent). Prints what each row came to, and what the server makes of them all.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from urllib.parse import urlsplit

import aiohttp
import nemo_gym_path  # noqa: F401 # before everything else of its own
import uvicorn
from nemo_gym import server_utils
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient, set_global_aiohttp_client
from omegaconf import OmegaConf
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

ENV, MODEL, ROWS, WHO = sys.argv[1:5]
SERVERS = {
    "env": ("resources_servers", ENV),
    "policy": ("responses_api_models", MODEL),
    "agent": ("responses_api_agents", "http://127.0.0.1:0"),
    "environment": ("environment_servers", "http://127.0.0.1:0"),
}


def config(name):
    """A server's part of the global configuration."""
    kind, url = SERVERS[name]
    address = urlsplit(url)
    return {kind: {name: {"host": address.hostname, "port": address.port, "entrypoint": "app.py"}}}


@asynccontextmanager
async def running(application, name, client):
    """An application on a port of its own, which the client is told."""
    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=0, log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    client.global_config_dict[name][SERVERS[name][0]][name]["port"] = port
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def agent(client):
    """The agent of this run."""
    base = {"host": "127.0.0.1", "port": 0, "entrypoint": "app.py", "name": "agent"}
    servers = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy"},
    }
    kind, config_kind = (
        (GymnasiumAgent, GymnasiumAgentConfig) if WHO == "gymnasium" else (SimpleAgent, SimpleAgentConfig)
    )
    return kind(config=config_kind(**base, **servers), server_client=client)


def environment(client):
    """0.7's environment server, which seeds, lets the agent play, and has it verified."""
    from environment_servers.single_agent_turn.app import (
        SingleAgentTurnEnvironmentServer,
        SingleAgentTurnEnvironmentServerConfig,
    )

    config = SingleAgentTurnEnvironmentServerConfig(
        host="127.0.0.1",
        port=0,
        entrypoint="app.py",
        name="environment",
        resources_server={"type": "resources_servers", "name": "env"},
        agent_server={"type": "responses_api_agents", "name": "agent"},
        resources_tool_transports=["direct_http"],
        cleanup_timeout_seconds=30,
    )
    return SingleAgentTurnEnvironmentServer(config=config, server_client=client)


def episode(row, number):
    """A row as an environment server is asked for it."""
    row = dict(row)
    task_input = {"responses_create_params": row.pop("responses_create_params"), "task_data": row}
    task = {"task_id": {"taskset": "ours", "task_id": str(number)}, "task_input": task_input}
    return {"episode_id": {"rollout_id": f"r{number}", "attempt": 0}, "task": task}


async def main():
    with open(ROWS, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    everything = OmegaConf.create({name: config(name) for name in SERVERS})
    client = ServerClient(head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=everything)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(running(agent(client).setup_webserver(), "agent", client))
        if WHO == "environment":
            url = await stack.enter_async_context(running(environment(client).setup_webserver(), "environment", client))
            bodies = [episode(row, number) for number, row in enumerate(rows)]
        else:
            bodies = [{**row, "_ng_task_index": number, "_ng_rollout_index": 0} for number, row in enumerate(rows)]
        http = await stack.enter_async_context(aiohttp.ClientSession())

        async def run(body):
            async with http.post(f"{url}/run", json=body) as reply:
                text = await reply.text()
                assert reply.status == 200, text
                return json.loads(text)

        results = await asyncio.gather(*map(run, bodies))
        if WHO == "environment":
            results = [result["result"] or result for result in results]
        stripped = [{**result, "_ng_task_index": n, "_ng_rollout_index": 0} for n, result in enumerate(results)]
        async with http.post(f"{url}/aggregate_metrics", json={"verify_responses": stripped}) as reply:
            assert reply.status == 200, await reply.text()
            aggregated = await reply.json()
    await server_utils.get_global_aiohttp_client().close()
    print(json.dumps({"version": version("nemo-gym"), "results": results, "aggregated": aggregated}))


asyncio.run(main())
