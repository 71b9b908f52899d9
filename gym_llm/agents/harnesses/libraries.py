"""The shared libraries of a Python as a layer: an image may have none of them, or other versions.

The layer has the dynamic loader, too. A program in a machine is started by it, so that its own Python does not depend
on the image. A variable such as LD_LIBRARY_PATH would reach the commands that the program starts in the image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gym_llm.errors import EngineUnavailable

_OLDEST = (2, 33)  # of glibc whose loader has --argv0
_ELF = b"\x7fELF"
_LOADER = "ld-linux*.so*"
_FOLDERS = "import sys, sysconfig; print(sys.executable); print(sysconfig.get_config_var('DESTSHARED'))"
_WITHOUT = "_tkinter"
PARTS = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libz.so.1"),
    *("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2", "libanl.so.1"),
    *("libnss_dns.so.2", "libnss_files.so.2"),
)
"""Libraries that packages need and Python does not. All parts of glibc have to come from one machine."""


def libraries_version() -> str:
    """Return the version of this machine's C library, "" if its loader cannot start programs of a layer."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return version if name == "glibc" and numbers >= _OLDEST else ""


def copy_libraries(python: str, part: Path, place: Path, lock: int) -> None:
    """Copy what a Python and packages need, with the loader, into a layer's `lib` folder.

    Args:
        python: The Python.
        part: The layer's folder while it is made.
        place: The layer's folder later.
        lock: The layer's lock.

    Raises:
        EngineUnavailable: If `ldd` fails.
    """
    executable, modules = _output([python, "-c", _FOLDERS]).splitlines()
    needing = [executable, *(str(path) for path in Path(modules).glob("*.so") if not path.name.startswith(_WITHOUT))]
    found = {word for word in _output(["ldd", *needing]).split() if word.startswith("/") and not word.endswith(":")}
    system = os.path.dirname(next(path for path in found if os.path.basename(path).startswith("libc.so")))
    found |= {path for name in PARTS if os.path.exists(path := os.path.join(system, name))}
    (part / "lib").mkdir()
    for path in sorted(found):
        shutil.copy(os.path.realpath(path), part / "lib" / os.path.basename(path))


def loaded(command: Sequence[str], layers: Sequence[Path]) -> tuple[str, ...]:
    """Return a command as it starts in a machine: with the interpreter of its layers, and the loader of a Python.

    Args:
        command: The program and its arguments.
        layers: The program's layers.
    """
    words = list(command)
    name = words[0]
    if "/" not in name:
        name = next((str(path) for layer in layers if (path := layer / "bin" / name).is_file()), name)
    if not any(name.startswith(f"{layer}/") for layer in layers):
        return tuple(command)
    words[0] = name
    with open(name, "rb") as file:
        first = file.readline(4096)
    if first.startswith(b"#!"):
        shebang = [word for word in first[2:].decode().split() if word not in ("/usr/bin/env", "-S")]
        return loaded([*shebang, *words], layers)
    libraries = next((path for layer in layers for path in (layer / "lib").glob(_LOADER)), None)
    if libraries is None or not first.startswith(_ELF) or not os.path.basename(name).startswith("python"):
        return tuple(words)
    return (str(libraries), "--argv0", name, "--library-path", str(libraries.parent), *words)


def _output(command: Sequence[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise EngineUnavailable(f"{command[0]} has failed: {ended.stderr.strip()[-300:]}")
    return ended.stdout
