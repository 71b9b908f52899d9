"""Files that appear whole or not at all, whenever the process is killed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gym_llm.errors import DataError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that takes its name only when the block ends without an error.

    Until then the bytes are in `.NAME.tmp` beside it, locked so that two processes cannot mix; an error removes it, a
    kill leaves it for the next run to overwrite. Readers of `path` see the old file or the new one, never a part.

    Args:
        path: The file; its folder must exist.

    Raises:
        DataError: If it cannot be written, or another process is writing it.

    >>> with replacing("/tmp/doctest.txt") as file:
    ...     _ = file.write(b"whole")
    >>> Path("/tmp/doctest.txt").read_bytes()
    b'whole'
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        file = open(temporary, "ab")  # noqa: SIM115 -- closed below, or before raising
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise DataError(f"{path} is being written by another process: wait for it or name another file.") from None
        with file:
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
        raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file's content in one moment.

    Raises:
        DataError: If it cannot be written.
    """
    with replacing(path) as file:
        file.write(data)
