"""Environments of Python for frameworks that are not installed here: made on demand, and kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from gym_llm.envs.theirs.frameworks import Framework
from gym_llm.errors import SandboxUnavailable

_FOLDER = "GYM_LLM_THEIRS"
_INSTALL_SECONDS = 1_800


def folder() -> Path:
    """Return the folder of the environments: `$GYM_LLM_THEIRS`, else `gym_llm/theirs` in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(_FOLDER) or cache / "gym_llm" / "theirs")


def home_of(framework: Framework) -> Path:
    """Return the folder of a framework's environment, made or not."""
    lock = repr((framework.packages, sys.version_info[:2], *filter(None, (framework.options, framework.pythons))))
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
    print(f"Installing {', '.join(framework.packages)} in {home}, once.", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    made = home.with_suffix(".new")
    shutil.rmtree(made, ignore_errors=True)
    try:
        if uv := shutil.which("uv"):
            version = _interpreter(framework) or framework.pythons[0]  # uv knows where to get one
            _run([uv, "venv", "--quiet", "--python", version, "--relocatable", str(made)])
            command = [uv, "pip", "install", "--quiet", "--python", str(made / "bin" / "python")]
        else:
            _run([_interpreter(framework) or f"python{framework.pythons[0]}", "-m", "venv", str(made)])
            command = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        if framework.packages:
            _run([*command, *framework.options, *framework.packages])
        made.rename(home)  # its scripts name the old folder, but only its interpreter is used
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
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
    except FileNotFoundError:
        raise SandboxUnavailable(f"{command[0]} is not installed, and the framework needs it.") from None
    except subprocess.TimeoutExpired:
        raise SandboxUnavailable(f"{command[-1]} took longer than {_INSTALL_SECONDS} s to install.") from None
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).strip().splitlines() if "WARNING" not in line]
        raise SandboxUnavailable(f"{command[-1]} cannot be installed: {said[-1] if said else 'no reason was given'}")
