"""A Python interpreter in a sandbox that keeps its state from one cell to the next."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from gym_llm.concurrency.answered_once import current_memory, request_key
from gym_llm.errors import SandboxError
from gym_llm.sandbox.channel import Channel
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import Limit, Sandbox, reply_timeout
from gym_llm.utils.secrets import redacted_logger

logger = redacted_logger(__name__)
_EVICTED = "The interpreter was ended, and its state is lost: all sessions together held too much memory."


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of a cell.

    Attributes:
        stdout: Its output, up to `Limits.output_bytes`.
        stderr: Likewise.
        error: The traceback of an exception; None without one.
        value: `repr` of the last line's value, if that line is an expression and not None; else None.
        text: `str` of it.
        limit: The limit that the cell passed, for which the interpreter was killed; else None.
        state_lost: Whether the interpreter has ended, so that the next cell begins in a new one.
        cpu_seconds: Processor time of the cell.
        wall_seconds: Seconds by the clock.
    """

    stdout: str
    stderr: str
    error: str | None
    value: str | None
    text: str | None
    limit: Limit | None
    state_lost: bool
    cpu_seconds: float
    wall_seconds: float


class PythonSession:
    """An interpreter that starts with the first cell, and again after a cell that ended it.

    Between cells all its processes are stopped. Its files, in /tmp, last as long as the interpreter. If the waiting
    sessions of a sandbox exceed its memory, the largest is ended. Its next cell does not run and reports this.

    Args:
        sandbox: The sandbox.
        limits: Limits of each cell (time, output), and of the whole session (memory, files).
    """

    def __init__(self, sandbox: Sandbox, limits: Limits | None = None) -> None:
        self._sandbox = sandbox
        self._limits = limits or Limits()
        self._channel: Channel | None = None
        self._evicted = False
        self._not_run: list[tuple[str, float | None, CellResult]] = []

    async def run(self, code: str, *, cpu_seconds: float | None = None) -> CellResult:
        """Run a cell.

        Args:
            code: Python. The result has the last line's value if that line is an expression.
            cpu_seconds: What this cell may take, if it is not what the session's limits say.

        Raises:
            SandboxError: If the sandbox failed; the state is lost.
        """
        if (memory := current_memory()) is None:
            return await self._run(code, cpu_seconds)
        key = request_key("cell", [code, cpu_seconds])
        if (outcome := memory.recall("cell", key)) is not None:
            cell = CellResult(**outcome[1])
            self._not_run.append((code, cpu_seconds, cell))
            if cell.state_lost:
                self._not_run.clear()
            return cell
        await self._catch_up()
        cell = await self._run(code, cpu_seconds)
        memory.keep("cell", key, ["answer", asdict(cell)])
        return cell

    async def _catch_up(self) -> None:
        """Run the cells whose results a restored episode has had already: the next one needs what they defined."""
        cells, self._not_run = self._not_run, []
        for code, cpu_seconds, before in cells:
            cell = await self._run(code, cpu_seconds)
            if (cell.stdout, cell.value, cell.state_lost) != (before.stdout, before.value, before.state_lost):
                logger.warning("A cell of a restored episode has another result now: its state may be another one.")

    async def _run(self, code: str, cpu_seconds: float | None) -> CellResult:
        limits = self._limits if cpu_seconds is None else replace(self._limits, cpu_seconds=cpu_seconds)
        async with self._sandbox.slots:
            if self._evicted:
                self._evicted = False
                return CellResult("", "", _EVICTED, None, None, "memory", True, 0.0, 0.0)
            self._sandbox.memory.forget(self)
            channel = self._channel or await self.start()
            try:
                await channel.send({"limits": limits.as_json()}, [code.encode("utf-8", "replace")])
                answer, (stdout, stderr, *pieces) = await channel.receive(reply_timeout(limits))
            except BaseException:
                await self.close()
                raise
        if answer["over"]:
            await self.close()
        else:
            await self._sandbox.memory.wait(self, answer["held_bytes"])
        texts = {name: piece.decode("utf-8", "replace") for name, piece in zip(answer["texts"], pieces, strict=True)}
        return CellResult(
            stdout=stdout.decode("utf-8", "replace"),
            stderr=stderr.decode("utf-8", "replace"),
            error=texts.get("error") if not answer["over"] else _why(answer),
            value=texts.get("repr"),
            text=texts.get("str"),
            limit=answer["limit"] if answer["limit"] != "ended" else None,
            state_lost=answer["over"],
            cpu_seconds=answer["cpu_seconds"],
            wall_seconds=answer["wall_seconds"],
        )

    async def start(self) -> Channel:
        """Start the interpreter now instead of with the next cell.

        Raises:
            SandboxError: If the sandbox failed, at a second try too.
        """
        try:
            self._channel = await self._start()
        except SandboxError:
            self._channel = await self._start()
        return self._channel

    async def evict(self) -> None:
        """End the interpreter, as others need its memory: the next cell is not run, and says so."""
        self._evicted = True
        await self._end()

    async def close(self) -> None:
        """End the interpreter and whatever it started."""
        self._evicted = False
        self._not_run.clear()
        await self._end()

    async def _end(self) -> None:
        self._sandbox.memory.forget(self)
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _start(self) -> Channel:
        channel = await self._sandbox.channel()
        try:
            await channel.send({"kind": "cells", "argv": None, **self._sandbox.common(self._limits)}, [])
            await channel.receive(reply_timeout(self._limits))
        except BaseException:
            await channel.close()
            raise
        return channel


def _why(answer: dict[str, object]) -> str:
    why = {
        "cpu": "it took too much processor time",
        "wall": "it waited too long",
        "memory": "it used too much memory",
        "processes": "it started too many processes",
    }.get(str(answer["limit"]))
    if why is None:
        signal, code = answer["signal"], answer["exit_code"]
        why = f"signal {signal} ended it" if signal is not None else f"it ended with exit code {code}"
    return f"The interpreter was ended, and its state is lost: {why}."
