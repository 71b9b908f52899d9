"""`gym-llm capture`: serve an engine to agents and keep every call with its tokens."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.errors import UsageError

_EXAMPLES = """\
examples:
  gym-llm capture pocket
  gym-llm capture vllm:Qwen/Qwen3-4B --engine-option max_model_len=8192
  gym-llm capture http://localhost:8000/v1 --model Qwen/Qwen3-4B --engine-option api=completions --port 9000
  gym-llm capture vllm:Qwen/Qwen3-4B --other gpt-5-mini=https://api.openai.com/v1
  GYM_LLM_TOKEN=... gym-llm capture pocket --host 0.0.0.0

POST /sessions opens a session. The agent uses its id as the API key for /v1/chat/completions, /v1/responses and
/v1/messages. GET /sessions/ID/trajectory returns one entry for each branch of the conversation: the token ids, a mask
of the sampled ids, and their log probabilities. /sessions/ID/rollout and /trace_entries follow OpenEnv's formats. With
GYM_LLM_TOKEN set, clients need it to open sessions. Ctrl-C ends the server. These engines report token ids: pocket,
transformers:MODEL, vllm:MODEL and vLLM servers. To play environments with an agent:
`gym-llm rollout ENV_ID --agent "python my_agent.py"`.
"""
app = typer.Typer()


@app.command("capture", cls=Command, epilog=_EXAMPLES)
def capture(
    engine: Annotated[str, typer.Argument(metavar="SPEC", help="the engine, e.g. pocket or vllm:MODEL")],
    *,
    model: options.Model = None,
    engine_option: options.EngineOptions = None,
    other: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SPEC",
            help="another model that agents may ask for (at a URL, by this name); its calls are not trained on",
        ),
    ] = None,
    upstreams: Annotated[
        bool,
        typer.Option("--upstreams", help="let clients that open a session name another model server"),
    ] = False,
    port: options.Port = 8000,
    host: options.Host = "127.0.0.1",
    token: options.Token = None,
    max_sessions: Annotated[int, typer.Option(metavar="N", min=1, help="sessions at once")] = 4_096,
    idle_seconds: Annotated[
        float, typer.Option(metavar="S", help="seconds after which an idle session is closed")
    ] = 3_600.0,
) -> int:
    """Serve a model to agents, and keep the exact tokens of every call for training."""
    from gym_llm.agents.capture import CaptureServer
    from gym_llm.cli.interrupts import run_until_interrupted
    from gym_llm.cli.progress import show_waiting
    from gym_llm.engines import make_engine
    from gym_llm.serve.event_loop import loop_factory

    arguments: dict[str, Any] = {**({} if model is None else {"model": model}), **dict(engine_option or [])}
    parsers = ["reasoning", "tool_calls"]
    try:
        served = make_engine(engine, parsers=parsers, **arguments)
        others = {
            name: make_engine(spec, parsers=parsers, **_model_at(spec, name)) for name, spec in map(_named, other or [])
        }
        server = CaptureServer(
            served,
            host=host,
            port=port,
            token=token,
            others=others,
            upstreams=upstreams,
            capacity=max_sessions,
            idle_seconds=idle_seconds,
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None

    async def serve() -> None:
        with show_waiting(f"Starting {served.model}") as started:
            async with server:
                started()
                print(_welcome(served.model, server.url, token is not None), flush=True)
                await asyncio.Event().wait()

    run_until_interrupted(serve, loop_factory())
    return 0


def _welcome(model: str, url: str, has_token: bool) -> str:
    header = ' -H "Authorization: Bearer $GYM_LLM_TOKEN"' if has_token else ""
    return f"""{model} is served at {url}. Ctrl-C ends it.
  a session: curl -X POST{header} -H 'Content-Type: application/json' -d '{{}}' {url}/sessions
  an agent:  OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=SESSION_ID python my_agent.py
             or ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=SESSION_ID
  its data:  curl{header} {url}/sessions/SESSION_ID/trajectory"""


def _model_at(spec: str, name: str) -> dict[str, str]:
    """Name the model: a server may have several, and would answer with its first."""
    return {"model": name} if spec.startswith(("http://", "https://")) else {}


def _named(text: str) -> tuple[str, str]:
    name, equals, spec = text.partition("=")
    if not (name and equals and spec):
        raise UsageError(f"--other is NAME=SPEC, e.g. gpt-5-mini=https://api.openai.com/v1; got {text!r}.")
    return name, spec
