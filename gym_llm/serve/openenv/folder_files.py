"""The files of an exported folder, as templates (`string.Template`); see `export`."""

_README = """\
---
title: $title
emoji: 🏋️
colorFrom: blue
colorTo: green
sdk: docker
pinned: false
app_port: $port
tags:
  - openenv
  - gym-llm
---

# $title

$description

Served by gym_llm, over OpenEnv's protocol, NeMo Gym's, and MCP:

$env_list

Set the secret `GYM_LLM_TOKEN` of the Space: whoever knows it may play. The client comes with the Space:

```bash
pip install git+https://huggingface.co/spaces/ORG/$name
```

```python
from $name import $class_name, ResponsesAction

with $class_name(base_url="https://ORG-$name.hf.space", token="...").sync() as env:
    result = env.reset(task_index=0)
    print(result.observation.request["input"])
$example
    print(result.reward, result.done)
```

An action is a text, or output items of OpenAI's Responses API, with function calls among them. An observation is the
request to answer next, whole. An episode that failed is an error (`EXECUTION_ERROR`) and never a reward.
"""

_DOCKERFILE = """\
FROM python:3.12-slim
WORKDIR /app/env
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY . /app/env
RUN pip install --no-cache-dir "$requirement"
RUN useradd --create-home --uid 1000 player
USER player
EXPOSE $port
# The client is installed from this folder and needs openenv; the server does not.
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s --retries=3 \\
    CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/health', timeout=2)"
CMD ["python", "-m", "server.app"]
"""

_DOCKERIGNORE = """\
.git
.venv
__pycache__
"""

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "openenv-$name"
version = "$version"
description = "$title as an OpenEnv environment: its client, and its server."
requires-python = ">=3.10"
dependencies = ["openenv>=0.10"]  # the client's

[project.optional-dependencies]
server = ["gym-llm"]  # on no package index: the Dockerfile says where it comes from

[project.scripts]
server = "$name.server.app:main"

[tool.setuptools]
packages = ["$name", "$name.server"]
package-dir = { "$name" = ".", "$name.server" = "server" }
"""

_INIT = '''\
"""$title: its client, and what it sends and gets."""

from .client import $class_name
from .models import RequestObservation, ResponsesAction, SessionState

__all__ = ["$class_name", "RequestObservation", "ResponsesAction", "SessionState"]
'''

_MODELS = '''\
"""What is sent and what comes back, typed."""

from typing import Any

from openenv.core.env_server.types import Action, Observation, State
from pydantic import ConfigDict


class ResponsesAction(Action):
    """A model's turn: a text, or output items of a Responses answer."""

    output: str | list[dict[str, Any]]


class RequestObservation(Observation):
    """The request to answer next, whole, and what is known of the episode.

    The actions `list_tools` and `call_tool` are answered with other fields: `tools`, or `tool_name` and `result`.
    """

    model_config = ConfigDict(extra="allow")

    request: dict[str, Any] = {}
    info: dict[str, Any] = {}
    truncated: bool = False


class SessionState(State):
    """The session; what OpenEnv's `State` does not have is in its further fields."""

    session_id: str | None = None
    outcome: str | None = None
    total_reward: float | None = None
    failure_kind: str | None = None
'''

_CLIENT = '''\
"""The client of $title."""

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from .models import RequestObservation, ResponsesAction, SessionState


class $class_name(EnvClient[ResponsesAction, RequestObservation, SessionState]):
    """Plays $title: each client has a session of its own.

    Args:
        base_url: Where it is served.
        token: What the server asks for.
        more: As for `EnvClient`.
    """

    def __init__(self, base_url: str | None = None, *, token: str | None = None, **more: Any) -> None:
        if token is not None:
            more["headers"] = {**(more.get("headers") or {}), "X-API-Key": token}
        super().__init__(base_url, **more)

    def _step_payload(self, action: ResponsesAction | dict[str, Any]) -> dict[str, Any]:
        return action if isinstance(action, dict) else {"output": action.output}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[RequestObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = RequestObservation(**payload.get("observation", {}), reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done, metadata=payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> SessionState:
        return SessionState(**payload)
'''

_APP = '''\
"""The server: `python -m server.app`; the variable GYM_LLM_TOKEN says what clients have to send."""

import asyncio
import os
from pathlib import Path

ENV_IDS = $env_ids
TASKS = $tasks
ENV_KWARGS = $per_env


async def serve(host: str, port: int) -> None:
    """Serve until the process is ended."""
    from gym_llm.serve import EnvServer

    token = os.environ.get("GYM_LLM_TOKEN")
    server = EnvServer(ENV_IDS, tasks=TASKS, env_kwargs=ENV_KWARGS, host=host, port=port, token=token)
    async with server:
        print(f"Serving {', '.join(ENV_IDS)} at {server.url}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """The command `server`."""
    import argparse

    from gym_llm.serve.event_loop import loop_factory

    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=$port)
    options = parser.parse_args()
    os.chdir(Path(__file__).resolve().parent.parent)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(options.host, options.port))


if __name__ == "__main__":
    main()
'''

FILES = {
    "README.md": _README,
    "Dockerfile": _DOCKERFILE,
    "pyproject.toml": _PYPROJECT,
    "__init__.py": _INIT,
    "client.py": _CLIENT,
    "models.py": _MODELS,
    "server/__init__.py": '"""The server of $title."""\n',
    "server/app.py": _APP,
    ".dockerignore": _DOCKERIGNORE,
}
"""By their place in the folder."""
