"""Environments of Python for frameworks that are not installed here: made on demand, and kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from gym_llm.envs.theirs.frameworks import Framework
from gym_llm.errors import SandboxUnavailable
from gym_llm.utils.text import printable

_FOLDER = "GYM_LLM_THEIRS"
_INSTALL_SECONDS = 1_800
_SAID_SECONDS = 10.0
_KEPT_LINES = 50


def folder() -> Path:
    """Return the folder of the environments: `$GYM_LLM_THEIRS`, else `gym_llm/theirs` in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(_FOLDER) or cache / "gym_llm" / "theirs")


def home_of(framework: Framework) -> Path:
    """Return the folder of a framework's environment, made or not."""
    packages, only = framework.installed_packages, filter(None, (framework.options, framework.pythons))
    lock = repr((packages, sys.version_info[:2], *only))
    return folder() / f"{framework.name}-{hashlib.sha256(lock.encode()).hexdigest()[:12]}"


def python_of(framework: Framework) -> Path:
    """Return the interpreter of a framework's environment; make the environment if it is not there yet.

    The name of the environment has a digest of its packages and of Python's version: other packages make another one.
    Several processes that ask at once wait for the first.

    Raises:
        SandboxUnavailable: If the packages cannot be installed; says what the installer said last.
    """
    home = home_of(framework)
    python = home / "bin" / "python"
    if python.exists():
        return python
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not python.exists():
            _make(framework, home)
    return python


def _make(framework: Framework, home: Path) -> None:
    began = time.monotonic()
    print(f"Installing {', '.join(framework.installed_packages)} in {home}, once.", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    made = home.with_suffix(".new")
    shutil.rmtree(made, ignore_errors=True)
    try:
        if uv := shutil.which("uv"):
            version = _interpreter(framework) or framework.pythons[0]  # uv knows where to get one
            _run([uv, "venv", "--quiet", "--python", version, "--relocatable", str(made)])
            command = [uv, "pip", "install", "--python", str(made / "bin" / "python")]
        else:
            _run([_interpreter(framework) or f"python{framework.pythons[0]}", "-m", "venv", str(made)])
            command = [str(made / "bin" / "python"), "-m", "pip", "install", "--progress-bar", "off"]
        if framework.installed_packages:
            _run([*command, *framework.options, *framework.installed_packages])
        made.rename(home)  # its scripts name the old folder, but only its interpreter is used
        print(f"Installed in {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _interpreter(framework: Framework) -> str | None:
    """Return an interpreter of a version that the framework runs on; None if there is none here."""
    if not framework.pythons or ".".join(map(str, sys.version_info[:2])) in framework.pythons:
        return sys.executable
    for version in framework.pythons:
        of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for found in filter(None, (shutil.which(f"python{version}"), *map(str, of_pyenv))):
            if subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
                return found
    return None


def _run(command: list[str]) -> None:
    """Run an installer; what it does is printed every few seconds, for as long as it takes."""
    try:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, text=True, errors="replace", **pipes)
    except FileNotFoundError:
        raise SandboxUnavailable(f"{command[0]} is not installed, and the framework needs it.") from None
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    began = time.monotonic()
    assert process.stdout is not None
    reader = threading.Thread(target=said.extend, args=(filter(_says_something, process.stdout),), daemon=True)
    reader.start()
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SAID_SECONDS)
            break
        seconds = time.monotonic() - began
        if seconds > _INSTALL_SECONDS:
            process.kill()
            raise SandboxUnavailable(f"{command[-1]} took longer than {_INSTALL_SECONDS} s to install.")
        doing = f": {printable(said[-1].strip())[:100]}" if said else ""
        print(f"  {seconds:.0f} s{doing}", file=sys.stderr, flush=True)
    reader.join(1.0)
    if process.returncode:
        why = printable(said[-1].strip()) if said else "no reason was given"
        raise SandboxUnavailable(f"{command[-1]} cannot be installed: {why}")


def _says_something(line: str) -> bool:
    return bool(line.strip()) and "WARNING" not in line and not line.startswith("[notice]")
