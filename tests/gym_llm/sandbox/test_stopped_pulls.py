"""Work on images that is stopped: by an interrupt, by a cancellation or by an error."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from aiohttp import web
from image_files import Registry, layer, member, oci_layout, running, write
from testing import in_loop

from gym_llm.sandbox.machines.rootfs import ImageCache
from gym_llm.sandbox.machines.stoppable import StoppableFile, Stopped, in_thread

LARGE = [layer(member("a", bytes(1_000_000)))]
PULL = """import asyncio, sys
from gym_llm.sandbox.machines.registry import pull
from gym_llm.sandbox.machines.rootfs import ImageCache
asyncio.run(pull(sys.argv[1], ImageCache(sys.argv[2])))
"""
MAKE = """import asyncio, sys, time
from gym_llm.sandbox.machines.machine_pool import Machines
from gym_llm.sandbox.machines.stoppable import StoppableFile
real = StoppableFile.readinto
def slow(self, buffer):
    print("reads", flush=True)
    time.sleep(0.1)
    return real(self, buffer)
StoppableFile.readinto = slow
asyncio.run(Machines(images={"a": sys.argv[1]}, cache=sys.argv[2]).image("a"))
"""


class Slow(web.StreamResponse):
    """A response of one byte at a time, without end."""

    async def write_eof(self, data: bytes = b"") -> None:
        while True:
            await self.write(b" ")
            await asyncio.sleep(0.05)


async def interrupt(*processes: asyncio.subprocess.Process) -> None:
    """Do what Ctrl-C does, and wait a little."""
    try:
        for process in processes:
            process.send_signal(signal.SIGINT)
        await asyncio.wait_for(asyncio.gather(*(process.wait() for process in processes)), 8)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def has_lock_file(process: int) -> bool:
    with contextlib.suppress(FileNotFoundError):  # a file that was closed meanwhile
        return any(one.readlink().suffix == ".lock" for one in Path(f"/proc/{process}/fd").iterdir())
    return False


@in_loop
async def test_an_interrupt_ends_a_pull_and_one_that_waits_for_it(cache: ImageCache) -> None:
    async with running(Registry(LARGE, "tar", change=lambda _, data: Slow() if data in LARGE else None)) as own:
        command = [sys.executable, "-c", PULL, f"{own.name}:1", str(cache.folder)]
        both = [await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL) for _ in range(2)]
        async with asyncio.timeout(60):
            while sum(path.startswith("manifests/") for path in own.asked) < 4 or "blobs" not in str(own.asked):
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        await interrupt(*both)
    assert len([path for path in own.asked if path.startswith("blobs/")]) == 1
    assert not list(cache.folder.glob("making-*"))


@in_loop
async def test_an_interrupt_ends_an_unpacking_and_one_that_waits_for_it(cache: ImageCache, tmp_path: Path) -> None:
    source = write(tmp_path / "image.tar", oci_layout(LARGE))
    command, null = [sys.executable, "-c", MAKE, source, str(cache.folder)], subprocess.DEVNULL
    first = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=null)
    assert first.stdout is not None
    await asyncio.wait_for(first.stdout.readline(), 60)
    second = await asyncio.create_subprocess_exec(*command, stdout=null, stderr=null)
    async with asyncio.timeout(60):
        while not has_lock_file(second.pid):
            await asyncio.sleep(0.05)
    await interrupt(second)
    assert first.returncode is None
    await interrupt(first)
    assert not list(cache.folder.glob("making-*"))


@pytest.mark.parametrize("form", ["tar", "folder", "a root's tar", "a root"])
@in_loop
async def test_a_cancellation_ends_an_unpacking(
    form: str, cache: ImageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"usr/a": b"", **{f"{n}": b"" for n in range(2_000)}} if "root" in form else oci_layout(LARGE)
    source = write(tmp_path / "image", files, "tar" if form.endswith("tar") else "folder")
    begun, real = threading.Event(), StoppableFile.readinto

    def slow(*given: object) -> object:
        begun.set()
        time.sleep(0.02)
        return real(*given) if isinstance(given[0], StoppableFile) else given[1]  # type: ignore[arg-type]

    monkeypatch.setattr(StoppableFile, "readinto", slow)
    monkeypatch.setattr("gym_llm.sandbox.machines.rootfs.shutil.copy2", slow)
    unpacking = asyncio.create_task(in_thread(lambda stopped: cache.image(source, stopped)))
    await asyncio.to_thread(begun.wait, 10)
    unpacking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unpacking
    async with asyncio.timeout(1):
        while list(cache.folder.glob("making-*")):
            await asyncio.sleep(0.01)
    assert not [path for path in cache.folder.iterdir() if path.is_dir()]


def test_an_entry_that_fails_can_be_made_by_others(cache: ImageCache) -> None:
    def fail(target: Path) -> None:
        raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        cache.entry("x", fail)
    other = ImageCache(str(cache.folder))
    made = threading.Thread(target=lambda: other.entry("x", lambda target: None), daemon=True)
    made.start()
    made.join(10)
    assert not made.is_alive() and cache.find("x") is not None


def test_a_wait_for_another_process_can_be_stopped(cache: ImageCache) -> None:
    begun, ended = threading.Event(), threading.Event()

    def make(target: Path) -> None:
        begun.set()
        ended.wait(20)

    other = ImageCache(str(cache.folder))
    making = threading.Thread(target=lambda: other.entry("x", make))
    making.start()
    assert begun.wait(10)
    for wait in (cache.find, cache.find_image, lambda *given: cache.entry(given[0], make, given[1])):
        stopped = threading.Event()
        threading.Timer(0.2, stopped.set).start()
        with pytest.raises(Stopped):
            wait("x", stopped)
    ended.set()
    making.join()
    assert cache.find("x") is not None
