"""Limits of a run in a sandbox."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

_MEGA = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of all processes of a run, or of a session's cell, together.

    Time is processor time: a verdict must not depend on how busy the machine is. A process that sleeps or waits uses
    none, and has `wall_seconds` for that. A run that gets less than a tenth of a processor ends, too.

    Attributes:
        cpu_seconds: Seconds of processor time.
        wall_seconds: Seconds in which none of the processes computes.
        memory_bytes: Bytes of memory, files in /tmp and what sockets and pipes can hold included. More than 16,384
            unusual mappings pass this limit, too. A process that asks for more is refused it, at the
            latest half a GiB above; together they are killed.
        disk_bytes: Bytes of the files in /tmp, which are memory.
        file_bytes: Bytes of one file.
        files: Files and folders in /tmp.
        open_files: Open files of one process.
        processes: Processes and threads at a time. More than four sessions (`setsid`) pass this limit, too: each
            gets as much processor time from the kernel as the others.
        output_bytes: Bytes of standard output, and as many of standard error. A program that writes more is killed;
            of what a cell writes the rest is left out.
        stack_bytes: Bytes of a stack.
    """

    cpu_seconds: float = 10.0
    wall_seconds: float = 10.0
    memory_bytes: int = 1024 * _MEGA
    disk_bytes: int = 64 * _MEGA
    file_bytes: int = 64 * _MEGA
    files: int = 4096
    open_files: int = 256
    processes: int = 64
    output_bytes: int = _MEGA
    stack_bytes: int = 64 * _MEGA

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 50:
                raise ValueError(f"{field.name} is a number above 0, got {value!r}.")

    def as_json(self) -> dict[str, Any]:
        """Return the limits as they are sent into the sandbox."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
