"""The command line as its users have it: each command in a process of its own.

Starting Python and importing what publishing needs takes a second; a parent that has done so forks for each command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

_TOKENS = ("HF_TOKEN", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_URI")


class CommandProcess:
    """The parent of commands.

    Args:
        **variables: Environment variables; those that are read when a library is imported cannot be changed later.
    """

    def __init__(self, **variables: str) -> None:
        inherited = {name: text for name, text in os.environ.items() if name not in _TOKENS}
        self.variables = {**inherited, **variables}
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            env=self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, args: tuple[str, ...], folder: Path, stdin: str, variables: dict[str, str]) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a command."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"args": args, "folder": str(folder), "stdin": stdin, "variables": variables}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return code, out, err

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


class Shell:
    """Runs `gym-llm` in a folder, where `env.yaml` is looked for."""

    def __init__(self, parent: CommandProcess, folder: Path) -> None:
        self._parent = parent
        self.folder = folder

    def __call__(self, *args: str, stdin: str = "", code: int = 0, **variables: str) -> str:
        """Run a command that has to end with an exit code; what it wrote, to stdout if that is 0, else to stderr."""
        ended, out, err = self._parent.run(args, self.folder, stdin, variables)
        assert ended == code, out + err
        assert "Traceback" not in err
        return out if code == 0 else err

    def sentence(self, *args: str, stdin: str = "") -> str:
        """Run a command that has to be refused in one sentence; the sentence."""
        said = self(*args, stdin=stdin, code=2)
        assert said.startswith("gym-llm: ") and said.endswith(".\n") and said.count("\n") == 1, said
        return said.removeprefix("gym-llm: ").rstrip("\n")

    def killed(self, reached: threading.Event, *args: str) -> None:
        """Start a command and `kill -9` it as soon as the event happens."""
        reached.clear()
        process = subprocess.Popen(
            [sys.executable, "-m", "gym_llm.cli", *args],
            cwd=self.folder,
            env=self._parent.variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert reached.wait(60)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _serve() -> None:
    import datasets  # noqa: F401 - imported here for all commands
    import huggingface_hub.hf_api  # noqa: F401

    import gym_llm.data.hubs.huggingface  # noqa: F401
    from gym_llm.cli import main

    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(request["stdin"].encode())
            given.seek(0)
            child = os.fork()
            if child == 0:
                _run(request, main, given.fileno(), out.fileno(), err.fileno())
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        print(json.dumps([code, *texts]), flush=True)


def _run(request: dict[str, Any], main: Any, *streams: int) -> None:
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the parent's may have read ahead
        os.chdir(request["folder"])
        os.environ.update(request["variables"])
        code = main(request["args"])
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
