"""The lines of a journal: a checksum, whose they are, and JSON.

    CRC TASK REPEAT GENERATION KIND KEY JSON

An episode that is begun again, because it is restored or because it failed, has a new generation. Its first line has
the kind `begin`. The key is the number of the attempt. The JSON is the number of lines that were copied from the
generation before. A generation with fewer lines was cut off while it was copied, and the one before counts.

Every line is written with `write(2)` before its content is used. The kernel keeps what was written when the process is
killed, so nothing is synchronised to the disk. Only the end of the machine itself costs the last lines. A kill in the
middle of a write leaves a line without its end or with another checksum, which is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from gym_llm.rollouts.plan import Job

BEGIN = "begin"
SAMPLED = "sampled"
WHOLE_GROUP = -1
"""The repeat index of the lines that a task's `verify_group` has."""


class Line(NamedTuple):
    """A line of a journal; see the module."""

    job: Job
    generation: int
    kind: str
    key: str
    body: bytes


def pack_line(job: Job, generation: int, kind: str, key: str, body: bytes) -> bytes:
    r"""Return a line; the body is JSON without a newline.

    >>> line = pack_line(Job(7, 0), 1, "begin", "1", b"0")
    >>> line
    b'6f50a290 7 0 1 begin 1 0\n'
    >>> unpack_line(line[:-1])
    Line(job=Job(task_index=7, repeat_index=0), generation=1, kind='begin', key='1', body=b'0')
    >>> unpack_line(line[:-3]) is None
    True
    """
    head = b"%d %d %d %b %b " % (*job, generation, kind.encode(), key.encode())
    return b"%08x %b%b\n" % (crc32(body, crc32(head)), head, body)


def unpack_line(line: bytes) -> Line | None:
    """Return the content of a line without its newline; None if it is damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        if len(checksum) != 8 or int(checksum, 16) != crc32(text):
            return None
        task, repeat, generation, kind, key, body = text.split(b" ", 5)
        return Line(Job(int(task), int(repeat)), int(generation), kind.decode(), key.decode(), body)
    except ValueError:
        return None


def read_lines(path: Path) -> Iterator[tuple[int, int, Line]]:
    """Yield the start and the length of each whole line of a file, and its content."""
    start = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and (content := unpack_line(line[:-1])) is not None:
                yield start, len(line), content
            start += len(line)
