"""`gym-llm serve-model`: serve an engine over the OpenAI and Anthropic APIs."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.errors import UsageError

_EXAMPLES = """\
examples:
  gym-llm serve-model pocket
  gym-llm serve-model pocket --port 8001
  gym-llm serve-model transformers:Qwen/Qwen3-0.6B
  GYM_LLM_TOKEN=... gym-llm serve-model pocket --host 0.0.0.0

Routes: POST /v1/responses, /v1/chat/completions and /v1/messages (Anthropic); GET /v1/models and /health. Reasoning and
tool calls are separate items. A stream starts when the whole answer is there. Ctrl-C ends the server. To serve a model
with vLLM, use `vllm serve`.
"""
app = typer.Typer()


@app.command("serve-model", cls=Command, epilog=_EXAMPLES)
def serve_model(
    engine: Annotated[str, typer.Argument(metavar="SPEC", help="the engine, e.g. pocket or transformers:MODEL")],
    *,
    port: options.Port = 8000,
    host: options.Host = "127.0.0.1",
    token: options.Token = None,
) -> int:
    """Serve a model over HTTP for clients of the OpenAI and Anthropic APIs."""
    from gym_llm.cli.interrupts import run_until_interrupted
    from gym_llm.cli.progress import show_waiting
    from gym_llm.engines import make_engine
    from gym_llm.serve import ModelServer

    try:
        served = make_engine(engine, parsers=["reasoning", "tool_calls"])
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None

    async def serve() -> None:
        with show_waiting(f"Starting {served.model}") as started:
            async with ModelServer(served, host=host, port=port, token=token) as server:
                started()
                print(
                    f"{served.model} answers at {server.url} (Responses, Chat Completions, Messages). Ctrl-C ends it.",
                    flush=True,
                )
                await asyncio.Event().wait()

    run_until_interrupted(serve)
    return 0
