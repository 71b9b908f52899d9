"""The process that runs a model's code, from the moment at which it gives up its rights."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import signal
import stat
from typing import Any, NoReturn

from . import cells, kernel, script

_ADD_SEALS, _ALL_SEALS = 1033, 15
_MOST_FILES = 1 << 16
_MACHINES_FAULTS = (errno.ENOMEM, errno.EAGAIN, errno.ENFILE, errno.EIO)
_SIGNALS = 512
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
    descriptors: list[int] = []
    try:
        path = ["/" if name.startswith("/") else ".", *(part for part in name.split("/") if part)]
        for index, part in enumerate(path):
            kind = os.O_DIRECTORY if index < len(path) - 1 else os.O_NONBLOCK
            folder = descriptors[-1] if descriptors else None
            descriptors.append(os.open(part, os.O_RDONLY | os.O_NOFOLLOW | kind, dir_fd=folder))
        status = os.fstat(descriptors[-1])
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        parts = []
        while piece := os.read(descriptors[-1], 1 << 20):
            parts.append(piece)
        return b"".join(parts)
    except (OSError, ValueError):  # it is not there, or something else is
        return None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def text_input(data: bytes) -> int:
    """Return a descriptor to read these bytes from, which no process can change."""
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


def become(header: dict[str, Any], settings: dict[str, Any], streams: list[int], errors: int) -> NoReturn:
    """Give up every right and turn into the program, in a fresh child.

    Args:
        header: What is to be run.
        settings: Of the sandbox.
        streams: Its standard input, output and error; an interpreter of cells has its replies and requests, too.
            A machine's first command may have the socket at which the machine listens.
        errors: A pipe for an error before the program begins; it is closed then.
    """
    try:
        gc.enable()
        kernel.keep_to_itself(False)
        os.setsid()
        above = [os.dup2(descriptor, 100 + index, False) for index, descriptor in enumerate([*streams, errors])]
        errors = above.pop()
        for index, descriptor in enumerate(above):
            os.dup2(descriptor, index, index < 3 or header["argv"] is not None)
        os.closerange(len(above), errors)
        os.closerange(errors + 1, _MOST_FILES)
        if "root" in header:
            enter(header["root"], header["cwd"], header["user"])
        _limit(header)
        os.nice(header.get("nice", 5))
        kernel.write("/proc/self/oom_score_adj", "1000")  # it is the first to go when the machine has no memory left
        kernel.drop_rights(header.get("rights", 0))
        if settings["filter"]:
            kernel.filter_calls(settings["filters"][bool(header.get("loopback"))])
        if header["argv"] is not None:
            _execute(header["argv"], header["environment"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if header["environment"] != settings["environment"]:
            os.environ.clear()
            os.environ.update(header["environment"])
        os.close(errors)
        if header["kind"] == "cells":
            cells.serve(4, 3)
        script.run(header["main"])
    except BaseException as error:
        os.write(errors, f"{type(error).__name__}: {error}".encode()[:500])
    finally:
        os._exit(70)


def enter(root: str, folder: str, user: list[int]) -> None:
    """Make another folder the root, and become another user in it.

    Args:
        root: The new root.
        folder: Where to go in it.
        user: The number of the user and of the group; files of root belong to this user, too.
    """
    if user != [0, 0]:
        outer_user, outer_group = os.getuid(), os.getgid()
        kernel.unshare(kernel.NEW_USER)  # before the root changes: the kernel refuses it to who is in a changed one
        kernel.map_user(user[0], user[1], outer_user, outer_group)
    os.chroot(root)
    os.chdir(folder)


def _execute(argv: list[str], environment: dict[str, str]) -> NoReturn:
    """Become a command; one that cannot be executed ends as in a shell.

    Raises:
        OSError: If this machine does not have the command, or is out of memory.
    """
    for ignored in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment)
    except (OSError, ValueError) as error:  # an argument that is too long, say, or one with a zero byte
        number = getattr(error, "errno", None)
        missing = number == errno.ENOENT
        if number in _MACHINES_FAULTS or (missing and not argv[0].startswith((".", "/tmp/"))):
            raise
        os.write(2, f"{argv[0][:200]}: {error}\n".encode("utf-8", "replace")[:1000])
        os._exit(127 if missing else 126)


def _limit(header: dict[str, Any]) -> None:
    limits = header["limits"]
    seconds = int(limits["cpu_seconds"]) + 2
    memory = limits["memory_bytes"]
    if header["kind"] == "cells":
        seconds = -1  # each cell has its own, which the supervisor looks after
    wanted = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_STACK: limits["stack_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: _SIGNALS,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NICE: 0,
    }
    if "root" in header:
        wanted[resource.RLIMIT_NPROC] = limits["processes"]
    if (
        header["kind"] != "begin"
    ):  # JavaScript engines reserve gigabytes; the supervisor counts the memory that an agent really uses
        wanted[resource.RLIMIT_DATA] = memory + _SPARE_BYTES
    if not header.get("reserves"):
        wanted[resource.RLIMIT_AS] = memory + _SPARE_BYTES
    for name, limit in wanted.items():
        hard = resource.getrlimit(name)[1]
        limit = limit if hard < 0 else hard if limit < 0 else min(limit, hard)
        resource.setrlimit(name, (limit, hard if limit < 0 else limit))
