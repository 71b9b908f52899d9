"""The first process in a sandbox. It never runs a model's code: for each run it starts a supervisor, apart.

Over the socket that it was given it is sent one end of a channel per run. Where namespaces cannot be had inside (in
a container), `serve_one` is a supervisor for one run over standard input and output instead.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from . import framing, kernel, seccomp, supervisor, warm


def serve(control: int, settings: dict[str, Any]) -> None:
    """Start a supervisor for each channel that comes, until the other side closes the socket."""
    _prepare(settings)
    requests = socket.socket(fileno=control)
    warm.warm(settings)
    gc.freeze()  # what is here now is never looked at again: pages stay shared with every run
    requests.send(b"ready")
    while True:
        message, sent, _, _ = requests.recvmsg(1, _DESCRIPTOR_SPACE)
        if not message:
            return
        if sent:
            _start(int.from_bytes(sent[0][2][:4], sys.byteorder), requests, settings)


def serve_one(settings: dict[str, Any]) -> None:
    """Be the supervisor of one run, over standard input and output."""
    _prepare(settings)
    channel = os.dup(1)
    requests = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    supervisor.supervise(requests, channel, settings, framing.receive(requests))


def _prepare(settings: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python's own handler would let a program end its supervisor
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    sys.path[:] = [*sys.path[1:], *settings["packages"], sys.path[0]]  # the last is where this package is
    os.environ.clear()
    os.environ.update(settings["environment"])  # says before the imports that numpy starts no threads: no fork has them
    for name in [*_COMMON, *settings["preload"]]:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # a program that needs it gets an error
    if len(os.listdir("/proc/self/task")) > 1:
        _begin_again(settings)
    for name in [name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]]:
        del sys.modules[name]  # programs find nothing of this package
    del sys.path[-1]
    settings["user"] = os.getuid(), os.getgid()
    if settings["filter"]:
        settings["filters"] = {allowed: seccomp.calls_filter(allowed) for allowed in (False, True)}
    kernel.keep_to_itself()


def _begin_again(settings: dict[str, Any]) -> None:
    command = getattr(sys, "orig_argv", [])  # from Python 3.10 on
    if settings["preload"] and command:
        os.execv(sys.executable, [*command[:-1], json.dumps({**settings, "preload": []})])
    raise RuntimeError("the sandbox's first process has threads")


def _start(channel: int, requests: socket.socket, settings: dict[str, Any]) -> None:
    try:
        child = kernel.fork_apart(_APART)
    except OSError as error:
        _refuse(channel, error)
    else:
        if child == 0:
            os.close(requests.detach())
            _apart(channel, settings)
    os.close(channel)


def _refuse(channel: int, error: OSError) -> None:
    try:  # a caller that still sends when the channel closes gets a broken pipe, and never reads the reason
        framing.receive(channel, deadline=time.monotonic() + _REQUEST_SECONDS)
    except (EOFError, OSError, ValueError):
        pass
    _failed(channel, error)


def _apart(channel: int, settings: dict[str, Any]) -> NoReturn:
    """In the child: read what is to be run, take what is to be its own, and do it."""
    gc.disable()
    try:
        request = framing.receive(channel)
        kernel.keep_to_itself(False)
        kernel.map_user(*settings["user"])
        limits = request[0]["limits"]
        most, hard = limits["processes"] + 1, resource.getrlimit(resource.RLIMIT_NPROC)[1]  # with this one
        most = most if hard < 0 else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))  # counted in this namespace alone
        kernel.keep_to_itself()
        _own_files(limits)
        if request[0].get("loopback"):
            kernel.unshare(kernel.NEW_NET)
            kernel.loopback_up()
        supervisor.supervise(channel, channel, settings, request)
    except EOFError:
        pass  # the caller is gone
    except BaseException as error:
        _failed(channel, error)
    finally:
        os._exit(0)


def _failed(channel: int, error: BaseException) -> None:
    try:
        framing.send(channel, {"failed": f"{type(error).__name__}: {error}"[:500]}, [])
    except OSError:
        pass  # the caller is gone


def _own_files(limits: dict[str, int]) -> None:
    hidden = kernel.NOSUID | kernel.NODEV
    kernel.mount("", "/", kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount("proc", "/proc", hidden | kernel.NOEXEC)
    files = f"mode=700,nr_inodes={limits['files']}"
    kernel.mount("tmpfs", "/tmp", hidden, f"size={limits['disk_bytes']},{files}")
    kernel.mount("tmpfs", "/dev/shm", hidden | kernel.NOEXEC, f"size={limits['disk_bytes']},{files}")
    if os.path.isdir("/dev/pts"):  # other runs' terminals
        kernel.mount("tmpfs", "/dev/pts", hidden | kernel.NOEXEC | kernel.READ_ONLY, "size=4k")
    os.chdir("/tmp")


_REQUEST_SECONDS = 5.0
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(4)
_APART = kernel.NEW_USER | kernel.NEW_PIDS | kernel.NEW_MOUNTS | kernel.NEW_IPC | kernel.NEW_UTS
_COMMON: list[str] = [
    *("ast", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime"),
    *("decimal", "enum", "fractions", "functools", "heapq", "io", "itertools", "json", "linecache", "math", "operator"),
    *("random", "re", "statistics", "string", "textwrap", "threading", "time", "traceback", "typing"),
]
"""What programs import most; a fork has it for nothing."""
