"""Counting different values among millions, in little memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

_HASH_BYTES = 8  # among 10 million values two different ones collide with probability 3e-6
_IN_MEMORY_BYTES = 1 << 18
_PART_BYTES = 1 << 22


def hash_values(values: Iterable[bytes]) -> bytes:
    """The values' hashes, 8 bytes each, each different one once, in the order in which they first occur."""
    return b"".join(blake2b(value, digest_size=_HASH_BYTES).digest() for value in dict.fromkeys(values))


class UniqueCounter:
    """Counts different values by their hashes, which wait in a temporary file until they are counted.

    >>> counter = UniqueCounter()
    >>> counter.add(hash_values([b"a", b"b", b"a"]))
    >>> counter.add(hash_values([b"b", b"c"]))
    >>> counter.count()
    3
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 -- closed by close()
        self._bytes = 0

    def add(self, hashes: bytes) -> None:
        """Take over what `hash_values` gave."""
        self._file.write(hashes)
        self._bytes += len(hashes)

    def count(self) -> int:
        """Return the number of different values that were added.

        A large file is counted in passes, each over the hashes of one range, so that memory stays bounded.
        """
        parts = 1 + self._bytes // _PART_BYTES
        return sum(self._count_part(part, parts) for part in range(parts))

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()

    def _count_part(self, part: int, parts: int) -> int:
        chosen = [np.empty(0, "<u8")]
        self._file.seek(0)
        while block := self._file.read(1 << 20):
            hashes = np.frombuffer(block, "<u8")
            chosen.append(hashes[hashes % np.uint64(parts) == part])
        ordered = np.concatenate(chosen)
        ordered.sort()  # not np.unique, whose hash table takes several times the memory
        return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(len(ordered))
