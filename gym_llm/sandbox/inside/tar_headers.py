"""Headers of archives, read under limits: a hostile one takes `tarfile` gigabytes or hours."""

from __future__ import annotations

import tarfile
from typing import Any

HEADER_BYTES = 1 << 20  # of one file
_LENGTH_DIGITS = 8  # of a record
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_LONG_NUMBER = b"0" * 256


class TooLarge(ValueError):
    """A tree has more bytes than it may."""


class Member(tarfile.TarInfo):
    """A member of an archive, of which no header takes much memory: long names, PAX headers and maps of holes.

    `tarfile` reads headers of any size into memory. They compress well: three megabytes become gigabytes.
    """

    @classmethod
    def fromtarfile(cls, archive: Any) -> Member:
        """Read the next member. A header may have others before it, which share the budget."""
        source = archive.fileobj
        if isinstance(source, _Budget):
            return super().fromtarfile(archive)
        archive.fileobj = _Budget(source)
        try:
            member = super().fromtarfile(archive)
        finally:
            archive.fileobj = source
        if member.size < 0 or len(archive.pax_headers) > HEADER_BYTES >> 9:
            raise ValueError(f"{member.name[:200]!r} has an invalid size, or the archive too many headers")
        return member

    def _proc_pax(self, archive: Any) -> Any:
        """Check a PAX header before `tarfile` reads it, which takes quadratic time and memory for some."""
        archive.fileobj.checked = _check_records(archive.fileobj.read(self._block(self.size)))  # type: ignore[attr-defined]
        return super()._proc_pax(archive)  # type: ignore[misc]


def _check_records(data: bytes) -> bytes:
    """Return a PAX header, `LENGTH KEY=VALUE` in each line, that has no length and no number to trip over."""
    position = 0
    while length := data[position : position + _LENGTH_DIGITS].partition(b" ")[0].rstrip(b"\0"):
        end = position + int(length) if length.isdigit() else position
        if b"=" not in data[position:end] or data[end - 1 : end] != b"\n":
            raise ValueError("a record of its PAX headers is invalid")
        position = end
    if _LONG_NUMBER in data.translate(_DIGITS):
        raise ValueError("its PAX headers have a number of 256 digits or more")
    return data


class _Budget:
    """A file of which headers are read."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, HEADER_BYTES
        self.tell = file.tell
        self.checked: bytes | None = None  # read already, and to be read again

    def read(self, size: int) -> bytes:
        if self.checked is not None:
            checked, self.checked = self.checked, None
            return checked
        self._left -= size
        if not 0 <= size <= size + self._left:
            raise TooLarge(f"a file in it has headers of more than {HEADER_BYTES} bytes")
        return self._file.read(size)
