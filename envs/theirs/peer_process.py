"""PeerProcess: child processes that play a framework's episodes, many in each.

A child plays its requests one after the other (those of an async peer at once). If it dies or hangs, its oldest request
fails. The other episodes go on in a new child: their actions are played again there, because with one seed a
peer does the same again. If an observation differs, that episode fails, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from gym_llm.envs.theirs.room import MOST_CHARACTERS
from gym_llm.errors import DeadlinePassed, InfrastructureError, WorkerDied
from gym_llm.utils.json_codec import dumps, loads

_CHILD = Path(__file__).parent / "child.py"
_LINE_BYTES = 8 * MOST_CHARACTERS
_KEPT_VARIABLES = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "VIRTUAL_ENV", "PYTHONPATH"),
    *("HF_HOME", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TALES_SOURCE", "TALES_CACHE_HOME"),
)
_DEATHS = 20
_START_SECONDS = 120.0


class PeerFailed(InfrastructureError):
    """Raised when a framework's code raises an exception, or returns something else than a turn."""

    failure_kind = "verifier_error"


def kept_variables() -> dict[str, str]:
    """Return those of this process's environment variables that a child gets."""
    return {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}


class _Child:
    """One process and its unanswered requests, in their order."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self._writer: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._is_late = self._has_answered = False
        self.plays = 0
        self.is_dead = False
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, command: list[str], seconds: float) -> _Child:
        """Start a process with a few of this one's variables."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept_variables(), "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        child, loop = cls(process, seconds), asyncio.get_running_loop()
        lines = asyncio.StreamReader(limit=_LINE_BYTES)
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), process.stdout)
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        child._transports, child._writer = [reading, writer], writer
        child._reader = asyncio.create_task(child._read(lines))
        return child

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            DeadlinePassed: If the child hung at this request.
            WorkerDied: If the child died at this request.
            ConnectionResetError: If it died at another one.
        """
        if self.is_dead:
            raise ConnectionResetError
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        if len(self._waiting) == 1:
            self._watch()
        assert self._writer is not None
        self._writer.write(dumps({"id": number, **request}))
        return await future

    async def _read(self, lines: asyncio.StreamReader) -> None:
        try:
            while line := await lines.readline():
                answer = loads(line)
                answer["digest"] = hashlib.blake2b(line.partition(b",")[2], digest_size=16).digest()  # without its id
                self._has_answered = True
                future = self._waiting.pop(answer["id"], None)
                if future is None:
                    continue
                if not future.done():
                    future.set_result(answer)
                self._watch()
        except (ValueError, KeyError, TypeError, OSError):  # no answer of ours: a line that is too long, no JSON
            pass
        finally:
            self._end()

    def _watch(self) -> None:
        """Give the request that is first now its time."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        seconds = self._seconds + (0.0 if self._has_answered else _START_SECONDS)  # it imports the framework first
        self._timer = loop.call_later(seconds, self._late) if self._waiting else None

    def _late(self) -> None:
        self._is_late = True
        self._kill()

    def _kill(self) -> None:
        """End it and what it started, which would hold its pipe open."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> None:
        self.is_dead = True
        if self._timer is not None:
            self._timer.cancel()
        self._kill()
        code = self._process.wait()
        for transport in self._transports:
            transport.close()
        for place, future in enumerate(self._waiting.values()):
            if future.done():
                continue
            if place:
                future.set_exception(ConnectionResetError())
            elif self._is_late:
                future.set_exception(DeadlinePassed(f"The framework took longer than {self._seconds:g} s."))
            else:
                future.set_exception(WorkerDied(f"The framework's process ended with {code}.", exit_code=code))
        self._waiting.clear()

    async def aclose(self) -> None:
        """End the process."""
        self._kill()
        if self._reader is not None:
            await asyncio.wait([self._reader])
            await asyncio.sleep(0)  # its pipes close in the loop's next turn


class PeerProcess:
    """The children of one framework on one event loop.

    Args:
        name: The framework's file in `peers/`.
        python: The interpreter that has its packages.
        seconds: How long a request may take.
        children: The most processes at once.
    """

    def __init__(self, name: str, python: Path, seconds: float, children: int | None = None) -> None:
        self._command = [str(python), str(_CHILD), name]
        self._seconds, self._most = seconds, children or min(4, os.cpu_count() or 1)
        self._children: list[_Child] = []
        self._lock = asyncio.Lock()

    async def child(self) -> _Child:
        """Return the child with the fewest episodes; start one while there are fewer than allowed."""
        async with self._lock:
            self._children = [child for child in self._children if not child.is_dead]
            idle = min(self._children, key=lambda child: child.plays, default=None)
            if idle is None or (idle.plays and len(self._children) < self._most):
                idle = await _Child.start(self._command, self._seconds)
                self._children.append(idle)
            idle.plays += 1
            return idle

    async def samples(self, arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Return what the framework's `samples` does."""
        answer = await (await self.child()).ask({"op": "samples", "arguments": arguments})
        samples: list[dict[str, Any]] | None = _turn_of(answer)["samples"]
        return samples

    async def aclose(self) -> None:
        """End all children."""
        for child in self._children:
            await child.aclose()


class RemotePlay:
    """An episode in a child; the interface of `room.Play`."""

    _numbers = itertools.count()

    def __init__(self, processes: PeerProcess, arguments: dict[str, Any], *, recording: bool = False) -> None:
        self._processes, self._arguments, self._recording = processes, arguments, recording
        self._child: _Child | None = None
        self._number = next(self._numbers)
        self._actions: list[dict[str, Any]] = []
        self._turns: list[bytes] = []  # digests
        self._last: dict[str, Any] = {}
        self._seed: int | None = None

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin, and return the first turn."""
        self._seed = seed
        return await self._go_on()

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Go on, and return the next turn."""
        self._actions.append(action)
        return await self._go_on()

    async def close(self) -> None:
        """End the episode. A child that is dead already is not an error."""
        child, self._child = self._child, None
        if child is not None and not child.is_dead:
            child.plays -= 1
            with contextlib.suppress(ConnectionResetError, WorkerDied, DeadlinePassed):
                await child.ask({"op": "close", "play": self._number})

    async def _go_on(self) -> dict[str, Any]:
        for _ in range(_DEATHS):
            try:
                if self._child is None:
                    await self._play_again()
                while len(self._turns) < len(self._actions) + 1:
                    self._turns.append(await self._next(len(self._turns)))
                return self._last
            except ConnectionResetError:  # it died at another episode's request
                self._child = None
        raise WorkerDied(f"The framework's process ended {_DEATHS} times while other episodes played in it.")

    async def _play_again(self) -> None:
        for place, before in enumerate(self._turns):
            if await self._next(place) != before:
                raise PeerFailed("The framework's process ended, and the episode differs when it is played again.")

    async def _next(self, place: int) -> bytes:
        if place == 0:
            self._child = await self._processes.child()
            opened = {"arguments": self._arguments, "seed": self._seed, "recording": self._recording}
            answer = await self._child.ask({"op": "open", "play": self._number, **opened})
        else:
            assert self._child is not None
            answer = await self._child.ask({"op": "step", "play": self._number, "action": self._actions[place - 1]})
        self._last = _turn_of(answer)
        digest: bytes = answer["digest"]
        return digest


def _turn_of(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        error = PeerFailed(answer["error"])
        error.add_note(answer["traceback"])
        raise error
    turn: dict[str, Any] = answer["turn"]
    return turn
