"""MachineAgent: a program that plays an episode inside of a machine: the task's own, or one made for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gym_llm.agents.agent_episode import AgentEpisode
from gym_llm.agents.agent_process import STDERR_BYTES, Ended, tail
from gym_llm.agents.agent_program import Program, task_of
from gym_llm.agents.harnesses.libraries import loaded
from gym_llm.agents.launch import Launch
from gym_llm.concurrency import finish
from gym_llm.errors import EngineError, SandboxError
from gym_llm.protocols.http.http_server import HttpServer
from gym_llm.sandbox.backends import own_python
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.machine import PATH, MachineProblem
from gym_llm.sandbox.machines.machine_place import MachinePlace
from gym_llm.utils.secrets import redact

FOLDER = "/run/gym_llm_agent"
"""The episode's folder in a machine."""
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/")
_FILES_BYTES = 64 << 20  # of files that a command names
_UNBOUNDED = 1e12  # seconds: it waits for its model as long as its episode lasts
_END_SECONDS = 20.0

Open = Callable[[Sequence[str]], Awaitable[MachinePlace]]


class MachineAgent:
    """Runs a program in a machine as the agent of an episode.

    The machine has no network. The servers of the model and the tools accept connections from the machine's loopback,
    at the same ports as on the host. They answer the episode's key only.

    Args:
        program: The program.
        open_place: Opens the machine, with the program's layers.
        servers: The servers that the program may reach.
        seconds: The agent's time limit.
    """

    def __init__(self, program: Program, open_place: Open, servers: Sequence[HttpServer], seconds: float) -> None:
        self._portable = make_portable(program)
        self._program = self._portable.program
        self._name = program.name
        self._open_place = open_place
        self._servers = servers
        self._place: MachinePlace | None = None
        self._seconds = seconds

    async def open(self) -> float:
        """Open the machine; return the agent's time limit.

        Raises:
            SandboxError: If it cannot be started.
            UsageError: If its image is missing.
        """
        self._place = place = await self._open_place([str(layer) for layer in self._program.layers])
        if place.seconds is not None:
            self._seconds = max(1.0, min(self._seconds, place.seconds))
        return self._seconds

    async def __call__(self, episode: AgentEpisode) -> str | None:
        """Play.

        Raises:
            EngineError: If the program cannot be started, fails, or passes a limit of the machine.
        """
        place, program, key = self._place, self._program, episode.addresses.api_key
        assert place is not None
        episode.on_first_call = place.machine.forget_output
        launch = program.launch(episode.addresses, FOLDER, task_of(episode))
        workdir = place.workdir or (launch.workdir if program.harness else FOLDER)
        try:
            await place.machine.upload(FOLDER, _packed(launch, self._portable.files))
            if not place.machine.network:
                for server, opened in zip(
                    self._servers, await place.machine.listen([one.port for one in self._servers]), strict=True
                ):
                    server.open_door(opened, key)
            environment = {
                "PATH": PATH,
                "LANG": "C.UTF-8",
                "PYTHONUNBUFFERED": "1",
                **place.machine.image.environment,
                **place.environment,
            }
            command, path = launch.command, environment["PATH"]
            environment |= launch.environment
            if program.harness:
                command = loaded(command, program.layers)
                # Its commands find the image's programs first: a task's tests use the task's Python, not the harness's.
                environment["PATH"] = ":".join([f"{FOLDER}/bin", path, *(f"{layer}/bin" for layer in program.layers)])
            header = {
                "argv": list(command),
                "cwd": workdir,
                "user": place.user,
                "environment": environment,
                "limits": place.machine.limits.of_a_run(self._seconds, _UNBOUNDED).as_json(),
                "error_bytes": STDERR_BYTES,
            }
            await place.machine.begin(header, launch.stdin)
            ended = await self._ended(place, episode)
        except MachineProblem as error:
            raise EngineError(
                f"The agent {self._name!r} cannot be started in its machine: {str(error).rstrip('.')}.",
                failure_kind="agent_run_error",
            ) from None
        finally:
            for server in self._servers:
                server.close_doors(key)
        return None if ended is None else program.conclude(ended, episode)

    async def close(self) -> None:
        """End the machine; that of a task ends with its environment, too."""
        if self._place is not None:
            await self._place.machine.close()

    async def _ended(self, place: MachinePlace, episode: AgentEpisode) -> Ended | None:
        """Wait for the program's end; None if the environment has ended it, before its tests for instance."""
        waiting = asyncio.ensure_future(place.machine.ended())
        try:
            answer, output = await asyncio.shield(waiting)
        except SandboxError as error:
            if error.failure_kind == "session_lost":  # the environment has closed the machine
                return None
            raise
        finally:
            if not waiting.done():
                await finish(_kill(place, waiting), _END_SECONDS)
        stdout, stderr = (piece.decode("utf-8", "replace") for piece in output)
        episode.said = redact(tail(stderr.replace(episode.api_key, "***")))
        if answer["killed"]:
            return None
        if (limit := answer["limit"]) is not None:
            said = f" It wrote at last: {episode.said}" if episode.said else ""
            raise EngineError(
                f"The agent {self._name!r} has passed its machine's limit of {_LIMITS[limit]}.{said}",
                failure_kind="agent_run_error",
            )
        code = answer["exit_code"] if answer["exit_code"] is not None else -int(answer["signal"])
        return Ended(code, stdout, stderr)


_LIMITS = {"cpu": "processor time", "wall": "time", "memory": "memory", "processes": "processes", "output": "output"}


async def _kill(place: MachinePlace, waiting: asyncio.Future[Any]) -> None:
    """End the program in its machine, and wait for its end."""
    try:
        await place.machine.kill()
        await asyncio.wait({waiting}, timeout=_END_SECONDS)
    except SandboxError:  # the machine is closed, and the program with it
        pass
    finally:
        if not waiting.done():
            waiting.cancel()
        with suppress(SandboxError, asyncio.CancelledError):
            await waiting


@dataclass(frozen=True, slots=True)
class Portable:
    """A program as it runs in a machine.

    Attributes:
        program: The program, with the paths of the machine.
        files: Contents and modes of the files that its command names, by their paths in the episode's folder.
    """

    program: Program
    files: Mapping[str, tuple[int, bytes]]


def make_portable(program: Program) -> Portable:
    """Return a program as it runs in a machine.

    A harness has everything in its layers. Of a command, the files that it names come along. Where its program belongs
    to this interpreter's environment, that is a layer; a plain `python` outside of /usr means this interpreter.

    Raises:
        EngineError: If the files are too large.
    """
    if program.harness:
        return Portable(program, {})
    words = list(program.command)
    layers = [*program.layers]
    own = own_python().shown
    first = os.path.join(program.folder, words[0]) if os.sep in words[0] else shutil.which(words[0]) or ""
    if words[0] in ("python", "python3") and not first.startswith(_SYSTEM):
        first = sys.executable  # as a shell with this environment would find it
    if any(first.startswith(f"{folder}/") for folder in (*own, os.path.abspath(sys.prefix))):
        words[0] = first
        layers += [Path(folder) for folder in own]
    roots = [*_SYSTEM, *(f"{layer}/" for layer in layers)]
    files: dict[str, tuple[int, bytes]] = {}
    for index, word in enumerate(words):
        path = os.path.join(program.folder, word)
        if not os.path.isfile(path) or path.startswith(tuple(roots)):
            continue
        if os.path.getsize(path) + sum(len(data) for _, data in files.values()) > _FILES_BYTES:
            raise EngineError(
                f"The files that the agent's command names have more than {_FILES_BYTES >> 20} MiB: {word}.",
                failure_kind="agent_run_error",
            )
        name = f"program/{index}/{os.path.basename(path)}"
        files[name] = stat.S_IMODE(os.stat(path).st_mode), Path(path).read_bytes()
        words[index] = f"{FOLDER}/{name}"
    return Portable(replace(program, command=tuple(words), layers=tuple(layers)), files)


def _packed(launch: Launch, more: Mapping[str, tuple[int, bytes]]) -> bytes:
    """A launch's files as an archive for the episode's folder."""
    files = [(f"{name}/", 0o755, b"") for name in launch.folders]
    files += [(name, 0o755 if data.startswith(b"#!") else 0o644, data) for name, data in launch.files.items()]
    return tree.pack_files([*files, *((name, mode, data) for name, (mode, data) in more.items())])
