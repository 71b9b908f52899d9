"""`gym-llm serve`: serve environments over HTTP and WebSocket."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import complete_env, printable, shown_argument
from gym_llm.cli.unread import Unread, refuse_unread
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from gym_llm.serve import EnvServer, EnvWorkers

_EXAMPLES = """\
examples:
  gym-llm serve gym_llm/Weather-v0
  gym-llm serve gym_llm/MathVerify-v0 --tasks train.jsonl --as openenv
  gym-llm serve gym_llm/Counter-v0 gym_llm/Weather-v0 --port 9000
  gym-llm serve ./my_env.py --env-kwargs '{"max_turns": 4}'
  GYM_LLM_TOKEN=... gym-llm serve gym_llm/Weather-v0 --host 0.0.0.0
  gym-llm serve gym_llm/MathVerify-v0 --tasks train.jsonl --workers 8
  gym-llm serve gym_llm/MathVerify-v0 --tasks train.jsonl --workers 64 --ray-address head:6379
  gym-llm serve gym_llm/Weather-v0 --export weather_env              a package for OpenEnv's hub
  gym-llm serve gym_llm/Weather-v0 --containerfile > Containerfile   an image for podman or docker

The first environment is at the root, and each is below its own name, /Weather-v0. GET /openapi.json lists all routes of
the protocols, GET /metrics is for Prometheus, GET /health needs no token. Every client plays its own sessions. Ctrl-C
ends the server and the episodes under way.
"""
_AS = "protocols: openenv, nemo, mcp, ors; several separated by commas (default: the first three)"
_ENV_KWARGS = """the environment's further arguments; with several environments those of all, or ENV_ID=JSON for one
(several: give it again)"""
_TRIES = {
    "openenv": ("", "-X POST {url}/reset -H 'Content-Type: application/json' -d '{{\"seed\": 1}}'"),
    "nemo": ("", "{url}/reverify_mode"),  # a session needs a row of the environment's
    "ors": ("", "{url}/tools"),
    "mcp": (
        "/mcp",
        "-X POST {url}/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "
        """-d '{{"jsonrpc": "2.0", "id": 1, "method": "ping"}}'""",
    ),
}
"""For each protocol: the path for its clients, and the rest of a curl command that tries it."""
app = typer.Typer()


@app.command("serve", cls=Command, epilog=_EXAMPLES)
def serve(
    context: typer.Context,
    env_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ENV_ID...", help="e.g. gym_llm/Weather-v0, or a file: ./my_env.py", autocompletion=complete_env
        ),
    ],
    *,
    protocols: Annotated[str | None, typer.Option("--as", metavar="PROTOCOLS", show_default=False, help=_AS)] = None,
    port: options.Port = 8000,
    host: options.Host = "127.0.0.1",
    token: options.Token = None,
    tasks: Annotated[
        str | None,
        typer.Option(metavar="FILE", show_default=False, help="tasks instead of the environment's own, as for rollout"),
    ] = None,
    env_kwargs: Annotated[list[str] | None, typer.Option(metavar="JSON", show_default=False, help=_ENV_KWARGS)] = None,
    max_sessions: Annotated[int, typer.Option(metavar="N", min=1, help="sessions at once")] = 16_384,
    idle_seconds: Annotated[
        float, typer.Option(metavar="S", help="seconds after which an idle session is closed")
    ] = 1_800.0,
    step_timeout: Annotated[
        float, typer.Option(metavar="S", min=0, help="seconds a reset or a step may take; 0: no limit")
    ] = 600.0,
    workers: Annotated[int, typer.Option(metavar="N", min=0, help="serve from N processes; 0: this one")] = 0,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="A", show_default=False, help="start the workers on this Ray cluster: host:6379"),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default=False, help="write the folder of an OpenEnv package, then exit"),
    ] = None,
    containerfile: Annotated[
        bool, typer.Option("--containerfile", help="print a Containerfile for this server, then exit")
    ] = False,
) -> int:
    """Serve environments to clients of OpenEnv, NeMo Gym, MCP and ORS."""
    from gym_llm.cli.shared_options import read_kwargs_by_env

    if ray_address and not workers:
        raise UsageError("--ray-address only makes sense with --workers N.")
    refuse_unread(
        context,
        Unread("containerfile", export is None, "with --export: give one of them."),
        Unread(
            "protocols max_sessions idle_seconds step_timeout workers", export is None, "with --export: leave it out."
        ),
        Unread(
            "port host token ray_address", export is None and not containerfile, "with --export or --containerfile."
        ),
    )
    kwargs = read_kwargs_by_env(env_kwargs or [], env_ids)
    options: dict[str, Any] = {
        "protocols": None if protocols is None else [name.strip() for name in protocols.split(",")],
        "tasks": tasks,
        "env_kwargs": kwargs if len(env_ids) > 1 else kwargs[env_ids[0]],
        "host": host,
        "port": port,
        "token": token,
        "capacity": max_sessions,
        "idle_seconds": idle_seconds,
        "step_timeout": step_timeout or None,
    }
    server = _make_server(env_ids, workers, ray_address, options)
    if export is not None:
        return _export(env_ids, export, tasks, kwargs)
    if containerfile:
        numbers = max_sessions, idle_seconds, step_timeout, workers
        print(_containerfile(env_ids, tasks, protocols, env_kwargs or [], *numbers), end="")
        return 0
    return _run(server, token)


def _run(server: EnvServer | EnvWorkers, token: str | None) -> int:
    from gym_llm.cli.interrupts import run_until_interrupted
    from gym_llm.concurrency.relaxed_gc import freeze_gc
    from gym_llm.serve.event_loop import loop_factory

    async def run() -> None:
        async with server:
            freeze_gc()
            print(_welcome(server.url, server.env_ids, server.protocols, token), flush=True)
            await asyncio.Event().wait()

    run_until_interrupted(run, loop_factory())
    print("Closed.", file=sys.stderr)
    return 0


def _make_server(
    env_ids: list[str], workers: int, ray_address: str | None, options: dict[str, Any]
) -> EnvServer | EnvWorkers:
    import gymnasium as gym

    from gym_llm.concurrency.relaxed_gc import relax_gc
    from gym_llm.serve import EnvServer, EnvWorkers

    try:
        if workers:
            return EnvWorkers(env_ids, workers=workers, ray_address=ray_address, **options)
        server = EnvServer(env_ids, **options)
    except gym.error.UnregisteredEnv as error:
        raise _missing(env_ids, error) from None
    except (gym.error.Error, TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    relax_gc()
    return server


def _missing(env_ids: Sequence[str], error: Exception) -> UsageError:
    import gymnasium as gym

    from gym_llm.core.registry.env_files import env_spec, not_found

    for name in env_ids:
        try:
            env_spec(name)
        except gym.error.UnregisteredEnv:
            return not_found(name)
    return UsageError(str(error))


def _export(env_ids: list[str], folder: Path, tasks: str | None, kwargs: dict[str, dict[str, Any]]) -> int:
    from gym_llm.serve.openenv.hub_folder import export_openenv

    if len(env_ids) > 1 and any(kwargs.values()):
        raise UsageError("--export takes --env-kwargs for one environment only.")
    files = export_openenv(env_ids, folder, tasks=tasks, env_kwargs=kwargs[env_ids[0]] or None)
    print(f"{printable(str(folder))}: {len(files)} files. Next: cd {printable(str(folder))} && openenv push")
    return 0


def _containerfile(
    env_ids: list[str],
    tasks: str | None,
    protocols: str | None,
    env_kwargs: list[str],
    max_sessions: int,
    idle_seconds: float,
    step_timeout: float,
    workers: int,
) -> str:
    from gym_llm.serve.containerfile import containerfile

    arguments = [] if protocols is None else ["--as", protocols]
    for text in env_kwargs:
        if shown_argument(text) != text:
            raise UsageError("--env-kwargs contains a secret, which every user of the image could read.")
        arguments += ["--env-kwargs", text]
    for option, value, default in (
        ("--max-sessions", max_sessions, 16_384),
        ("--idle-seconds", idle_seconds, 1_800.0),
        ("--step-timeout", step_timeout, 600.0),
        ("--workers", workers, 0),
    ):
        arguments += [option, f"{value:.15g}"] if value != default else []
    wheels = sorted(Path().glob("gym_llm-*.whl"))
    return containerfile(env_ids, tasks=tasks, arguments=arguments, requirement=wheels[-1].name if wheels else None)


def _welcome(url: str, env_ids: Sequence[str], protocols: Sequence[str], token: str | None) -> str:
    lines = [f"{printable(', '.join(env_ids))} at {url} ({url}/openapi.json). Ctrl-C ends it."]
    for protocol in protocols:
        path, request = _TRIES.get(protocol, ("", "{url}/openapi.json"))
        header = "" if token is None else ' -H "Authorization: Bearer $GYM_LLM_TOKEN"'
        lines += [f"  {protocol:8} {url}{path}", f"  {'':8} try: curl{header} {request.format(url=url)}"]
    if len(env_ids) > 1:
        names = [env_id.rpartition("/")[2] for env_id in env_ids]
        lines.append("each alone: " + ", ".join(f"{url}/{name}" for name in names))
    return "\n".join(lines)
