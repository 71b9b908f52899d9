"""Files that appear whole or not at all, whenever the process is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gym_llm.errors import DataError


def new_path(stem: str, ending: str = "") -> str:
    """Make an empty file named after the time, or a folder if there is no ending, and return its path.

    Two runs that begin in the same second get different names.

    Args:
        stem: The path up to the time.
        ending: The file's, such as `.jsonl`.

    Raises:
        DataError: If it cannot be made.
    """
    stem = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 1_000_000):
        path = Path(f"{stem}{f'-{number}' if number > 1 else ''}{ending}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False) if ending else path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None
        return str(path)
    raise DataError(f"Cannot write {stem}{ending}: there are too many of this name.")


def open_locked(path: Path, *, name: object = None) -> int:
    """A descriptor for appending to a file, made if it is missing, that no other process has open this way.

    The kernel drops the lock with the descriptor's last copy, so with the process. `name` is what errors call the file.

    Raises:
        DataError: If another process has it.
        OSError: If it cannot be opened.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise DataError(
                f"{name or path} is being written by another process: wait for it or name another file."
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # replaced or removed between opening and locking: lock the one that is there now


def refuse_special(path: str | os.PathLike[str]) -> None:
    """Refuse paths that are neither a file nor free: the next run could not undo writing to them.

    Raises:
        DataError: If the path is a device, a pipe, a socket, a folder, or an open file (`/dev/stdout`).
    """
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    try:
        mode = os.stat(path).st_mode
    except OSError:
        mode = stat.S_IFREG  # not there, or whoever opens it will say why not
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFREG: ""}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    if not kind and (folder == "/dev" or folder.startswith("/proc/")):
        kind = "a place for devices and streams"
    if kind:
        raise DataError(f"Cannot write {path}: it is {kind}; name a file, one that is there or a new one.")


@contextmanager
def replacing(path: str | os.PathLike[str], *, name: object = None) -> Iterator[BinaryIO]:
    """Write a file that takes its name only when the block ends without an error.

    Until then the bytes are in `.NAME.tmp` beside it, which is locked against other processes. An error removes it;
    after a kill, the next run overwrites it. Readers of `path` see the old file or the new one, never a part.

    Args:
        path: The file; its folder is made if it is missing.
        name: The file's name in errors; None for its path.

    Yields:
        The new file. A copy of its descriptor keeps the new file locked beyond the block.

    Raises:
        DataError: If the file cannot be written, is not a file (see `refuse_special`), or another process writes it.

    >>> with replacing("/tmp/doctest.txt") as file:
    ...     _ = file.write(b"whole")
    >>> Path("/tmp/doctest.txt").read_bytes()
    b'whole'
    """
    refuse_special(path)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(open_locked(temporary, name=name or path), "ab") as file:
            try:
                file.truncate(0)
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise DataError(f"Cannot write {name or path}: {error.strerror or error}.") from None


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file's content in one moment; see `replacing`."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Fill a folder that takes its name only when the block ends without an error.

    Until then its files are in `.NAME.tmp` beside it, which is locked against other processes. An error removes that
    folder; after a kill, the next run begins it anew. If the folder already has files, the new ones are moved to them
    at the end, and replace those of the same name.

    Yields:
        The new folder.

    Raises:
        DataError: If the folder cannot be written, is something else, or another process writes it.
    """
    target = Path(os.path.abspath(path))
    temporary, lock = target.with_name(f".{target.name}.tmp"), target.with_name(f".{target.name}.lock")
    if target.exists() and not target.is_dir():
        raise DataError(f"Cannot write {path}: it is a file; name a folder.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(open_locked(lock, name=path), "ab"):
            try:
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir()
                yield temporary
                _move(temporary, target)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None


def _move(folder: Path, target: Path) -> None:
    if not target.exists() or not any(target.iterdir()):
        os.rename(folder, target)
        return
    for place, _, names in os.walk(folder):
        into = target / Path(place).relative_to(folder)
        into.mkdir(exist_ok=True)
        for name in names:
            os.replace(Path(place, name), into / name)
