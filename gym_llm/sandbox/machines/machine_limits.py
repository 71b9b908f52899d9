"""The limits of a machine, and the results of its commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from gym_llm.concurrency.answered_once import answered_once
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import Limit

_MEGA = 1 << 20


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a command (Harbor's `ExecResult`, and the limit that it passed).

    Attributes:
        stdout: Its output, up to `MachineLimits.output_bytes`.
        stderr: Likewise.
        return_code: Its exit code; 128 and the number of the signal that ended it, 124 after its time,
            126 if it could not be started.
        limit: The limit that it passed, else None.
        cpu_seconds: Processor time of it, and of what runs beside it.
    """

    stdout: str
    stderr: str
    return_code: int
    limit: Limit | None = None
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """The limits of a machine; a task's `cpus`, `memory_mb` and `storage_mb`.

    Attributes:
        cpus: Processors' worth of time: a command has as many seconds of it as its timeout times this.
        memory_mb: MiB of all processes together; if they pass it, all of them are killed.
        storage_mb: MiB of files beside those of the image. They are memory, too.
        processes: Processes at a time.
        output_bytes: Bytes of standard output, and as many of standard error; the rest is dropped.
    """

    cpus: float = 1.0
    memory_mb: int = 2048
    storage_mb: int = 2048
    processes: int = 512
    output_bytes: int = _MEGA

    def __post_init__(self) -> None:
        for name in ("cpus", "memory_mb", "storage_mb", "processes", "output_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 40:
                raise ValueError(f"{name} is a number above 0, got {value!r}.")

    def of_a_run(self, seconds: float, wall_seconds: float | None = None) -> Limits:
        """Return the limits of a command.

        Args:
            seconds: Seconds that it may compute, times `cpus`.
            wall_seconds: Seconds that it may sleep; None for as many.
        """
        return Limits(
            cpu_seconds=seconds * self.cpus,
            wall_seconds=seconds if wall_seconds is None else wall_seconds,
            memory_bytes=int(self.memory_mb * _MEGA),
            file_bytes=1 << 49,  # the file system itself is full before
            processes=self.processes,
            open_files=4096,
            output_bytes=self.output_bytes,
        )


async def result_once(request: list[str], run: Callable[[], Awaitable[ExecResult]]) -> ExecResult:
    """Run a command; in a restored episode it runs again for its effect, and its first result is returned."""
    return await answered_once(
        "command", request, run, encode=asdict, decode=lambda value: ExecResult(**value), again=True
    )
