"""The process that runs a model's code, from the moment at which it gives up its rights."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import stat
from typing import Any, NoReturn

from . import cells, kernel, script

_ADD_SEALS, _ALL_SEALS = 1033, 15
_CONTROL = 3
_SPARE_BYTES = 1 << 29  # of addresses: what an interpreter takes before a program begins


def write_file(name: str, mode: int, data: bytes) -> None:
    """Put a file into the current folder, before anything that could be in its way runs."""
    folder = os.path.dirname(name)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)
    os.chmod(name, mode)


def read_file(name: str, limit: int) -> bytes | None:
    """A file that a program left, if it is a plain one and not too large; no link is followed."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        return file.read(limit)


def text_input(data: bytes) -> int:
    """A descriptor to read these bytes from, which nobody can change."""
    if not hasattr(os, "memfd_create"):  # an interpreter built for old systems
        with open(".stdin", "wb") as file:
            file.write(data)
        return os.open(".stdin", os.O_RDONLY)
    descriptor = os.memfd_create("stdin", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    fcntl.fcntl(descriptor, _ADD_SEALS, _ALL_SEALS)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def become(header: dict[str, Any], settings: dict[str, Any], streams: list[int], control: Any, told: int) -> NoReturn:
    """In a fresh child: give up every right, and turn into the program.

    Args:
        header: What is to be run.
        settings: Of the sandbox.
        streams: Its standard input, output and error.
        control: The interpreter's socket, if it is to answer cells.
        told: A pipe for what goes wrong before the program begins; it is closed then.
    """
    try:
        kernel.keep_to_itself(False)
        os.setsid()
        streams = [*streams, control.detach() if control is not None else told, told]
        above = [os.dup2(descriptor, 100 + index) for index, descriptor in enumerate(streams)]
        told = above[-1]
        for index, descriptor in enumerate(above[:-1]):
            os.dup2(descriptor, index, inheritable=index < _CONTROL)
        os.set_inheritable(told, False)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > _CONTROL and int(name) != told:
                _close(int(name))
        if control is None:
            os.close(_CONTROL)
        _limit(header)
        os.nice(5)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # it is the first to go when the machine has no memory left
        kernel.drop_rights()
        if settings["filter"]:
            kernel.filter_calls(settings["filters"][bool(header.get("loopback"))])
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if header["argv"] is not None:
            os.execvpe(header["argv"][0], header["argv"], header["environment"])
        os.environ.clear()
        os.environ.update(header["environment"])
        os.close(told)
        if header["kind"] == "cells":
            cells.serve(_CONTROL)
        script.run(header["main"])
    except BaseException as error:
        os.write(told, f"{type(error).__name__}: {error}".encode()[:500])
    finally:
        os._exit(70)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass  # the listing's own


def _limit(header: dict[str, Any]) -> None:
    limits = header["limits"]
    seconds = int(limits["cpu_seconds"]) + 2
    memory = limits["memory_bytes"]
    if header["kind"] == "cells":
        seconds = -1  # each cell has its own, which the supervisor looks after
    wanted = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_DATA: memory + _SPARE_BYTES,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_STACK: limits["stack_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if not header.get("reserves"):
        wanted[resource.RLIMIT_AS] = memory + _SPARE_BYTES
    for name, limit in wanted.items():
        hard = resource.getrlimit(name)[1]
        limit = limit if hard < 0 else hard if limit < 0 else min(limit, hard)
        resource.setrlimit(name, (limit, hard if limit < 0 else limit))
