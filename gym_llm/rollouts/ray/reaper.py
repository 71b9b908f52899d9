"""The reaper: ends a local Ray, all its processes, and removes their files.

`LocalCluster` runs it as a script with a Ray's session folder and its driver's process id. It waits until the driver
ends, and then ends the Ray of a driver that was killed. Some of Ray's own processes would notice the driver's death
only after a minute, and some never.

A process belongs to a Ray if it writes into the folder of the session. All of Ray's processes do so, and no others.
Drivers are left alone, because the session may have several.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

_DRIVER_LOG = "python-core-driver-"
_SECONDS = 10.0
_PAUSE = 0.2


def members(session: Path) -> Iterator[psutil.Process]:
    """The processes of a Ray, those of its shards' programs too, but no drivers."""
    for process in psutil.process_iter():
        try:
            # macOS does not say how a file was opened.
            files = [Path(file.path) for file in process.open_files() if getattr(file, "mode", "w") != "r"]
        except psutil.Error:  # it has ended, or is another user's
            continue
        written = [file.name for file in files if session in file.parents]
        if written and process.pid != os.getpid() and not any(name.startswith(_DRIVER_LOG) for name in written):
            yield process


def end(session: Path) -> None:
    """End all processes of a Ray at once, and remove everything in its folder but its logs.

    `runtime_env` may have made whole copies of a virtual environment there.
    """
    end_processes(session)
    for path in session.glob("*"):
        if path.is_dir() and path.name != "logs":
            shutil.rmtree(path, ignore_errors=True)
        elif not path.is_dir():
            path.unlink(missing_ok=True)


def end_processes(session: Path, spared: str | None = None) -> None:
    """End all processes of a Ray at once, but those of this name."""
    deadline = time.monotonic() + _SECONDS
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:  # one may have been starting another when it was looked at
        quiet += 1
        for process in members(session):
            try:
                if process.name() != spared:
                    quiet = 0
                    process.kill()
            except psutil.Error:
                pass
        time.sleep(_PAUSE)


def main(session: str, driver: str) -> None:
    """Wait for the driver's end, then end its Ray."""
    while os.getppid() == int(driver):
        time.sleep(0.5)
    end(Path(session))


if __name__ == "__main__":
    main(*sys.argv[1:])
