"""Commands without the seconds that their imports take: `gym-llm` and `python` that are forked from one warm process.

    warm = bin_folder()     # has `gym-llm` and `python`; goes first on PATH
    subprocess.run([warm / "python", "-c", code])

Both are small clients. They send their arguments, folder, environment and open files to a server, which has imported
torch, transformers and gym_llm and forks for each command: the fork runs it as the interpreter would and ends like it.
What cannot be run that way, because a variable differs that is read by an import, runs in an interpreter of its own.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_READ_BY_IMPORTS = ("PYTHON", "HF_", "HOME", "OMP_", "RAY_", "TORCH", "TRANSFORMERS_", "TRL_", "XDG_")
_APPLIED_LATER = {"PYTHONWARNINGS"}
_CLIENT = """#!{python} -IS
import array, json, os, signal, socket, sys
def alone():
    os.execv({python!r}, [{python!r}, *([] if {name!r} == "python" else ["-m", "gym_llm.cli"]), *sys.argv[1:]])
read = {{name: text for name, text in os.environ.items() if name.startswith({read!r}) and name not in {later!r}}}
if read != {variables!r}:
    alone()
if {name!r} == "python" and (len(sys.argv) < 2 or sys.argv[1][:1] == "-" and sys.argv[1] not in ("-c", "-m")):
    alone()
server = socket.socket(socket.AF_UNIX)
try:
    server.connect({address!r})
except OSError:
    alone()
request = {{"name": {name!r}, "args": sys.argv[1:], "folder": os.getcwd(), "environ": dict(os.environ)}}
text = json.dumps(request).encode()
files = array.array("i", [0, 1, 2])
server.sendmsg([len(text).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
server.sendall(text)
answers = server.makefile()
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, lambda number, frame: os.kill(child, number))
code = int(answers.readline() or 1)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@functools.cache
def bin_folder(**variables: str) -> Path:
    """Start the server, and make a folder with `gym-llm` and `python`; both end with this process.

    Args:
        **variables: Environment variables of the server that its imports read.
    """
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    environ = {**os.environ, **variables}
    address = str(folder / "socket")
    process = subprocess.Popen([sys.executable, "-P", __file__, address], env=environ, stdout=subprocess.PIPE)
    atexit.register(process.wait)
    atexit.register(process.terminate)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    read = {
        name: text for name, text in environ.items() if name.startswith(_READ_BY_IMPORTS) and name not in _APPLIED_LATER
    }
    for name in ("gym-llm", "python"):
        file = folder / name
        about = {"python": sys.executable, "name": name, "address": address, "variables": read}
        file.write_text(_CLIENT.format(**about, read=_READ_BY_IMPORTS, later=_APPLIED_LATER))
        file.chmod(0o755)
    return folder


def _serve(address: str) -> dict[str, Any]:
    """Fork for each request; in the fork of a command, return the request."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(16)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who wait for commands are forks
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            server.close()
            return _received(connection)
        connection.close()


def _received(connection: socket.socket) -> dict[str, Any]:
    """Read a request and fork: the parent waits for the command's end, the child returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(connection, 8, 3)
    reader = connection.makefile("rb")
    request: dict[str, Any] = json.loads(reader.read(int.from_bytes(length, "big")))
    child = os.fork()
    if child:
        for number in (*files, 0, 1, 2):
            os.close(number)
        connection.sendall(f"{child}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            connection.sendall(f"{code}\n".encode())
        finally:
            os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    reader.close()
    connection.close()
    return request


def _prepare(request: dict[str, Any]) -> None:
    """Make this process look as if the command had just started."""
    import warnings

    import numpy as np

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    np.random.seed()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    warnings.resetwarnings()
    warnings.filters[:] = _FILTERS
    warnings._processoptions(filter(None, request["environ"].get("PYTHONWARNINGS", "").split(",")))  # type: ignore[attr-defined]


def _run(request: dict[str, Any]) -> None:
    """Run a command as the interpreter would."""
    import runpy
    import types

    args = request["args"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    if request["name"] == "gym-llm":
        from gym_llm.cli import main as command

        sys.argv = ["gym-llm", *args]
        sys.exit(command())
    if args[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *args[2:]]
        exec(compile(args[1], "<string>", "exec"), main.__dict__)  # noqa: S102
    elif args[0] == "-m":
        sys.path.insert(0, request["folder"])
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(args[0])))
        sys.argv = args
        main.__file__ = args[0]
        exec(compile(Path(args[0]).read_bytes(), args[0], "exec"), main.__dict__)  # noqa: S102


def _status_of(request: dict[str, Any]) -> int:
    """Run a command; its exit code."""
    try:
        _run(request)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        return -signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code: int) -> None:
    """End as the interpreter does, but leave its memory to the system, which takes a second less."""
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 255)


if __name__ == "__main__":
    import gc
    import warnings

    _FILTERS = list(warnings.filters)
    import aiohttp  # noqa: F401 - imported here for all commands
    import torch  # noqa: F401
    import transformers.models.auto.modeling_auto
    import transformers.models.auto.tokenization_auto
    import transformers.models.qwen3.modeling_qwen3  # noqa: F401

    import gym_llm.cli.rollout
    import gym_llm.engines.transformers
    import gym_llm.evaluation
    import gym_llm.rollouts.run
    import gym_llm.serve  # noqa: F401

    gc.freeze()
    asked = _serve(sys.argv[1])
    _prepare(asked)
    _end(_status_of(asked))
