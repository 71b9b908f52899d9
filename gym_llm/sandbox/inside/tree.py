"""Converting folders to tar archives and back: files for a machine, files from it, and its changes.

The changes of a machine are the upper layer of an overlay. There a deleted file is a character device 0:0, and a folder
that hides the one below it has the attribute `user.overlay.opaque`. Archives keep both.
"""

from __future__ import annotations

import functools
import gzip  # noqa: F401 (tarfile imports it when it needs it, which is after a machine's root has become the root)
import io
import os
import shutil
import stat
import tarfile
from typing import Any, Iterator, Tuple  # noqa: UP035 (evaluated, on Python 3.9 too)

from .tar_headers import Member, TooLarge

OPAQUE = "user.overlay.opaque"
LINK = -1
_HEADER = "GYM_LLM.opaque"
_LEVEL = 1  # of compression
_MOST_LINKS, _MOST_STEPS = 40, 5_000  # of one path
_ALL_STEPS = 1 << 25  # of the paths of all files together
_MOST_FILES = 2_000_000  # and folders
_DEEPEST = 128  # folders in each other, of an image
_NAME_BYTES = 1 << 28  # of all files together
_LONG_HEADERS_BYTES = 1 << 25  # of all files together, beyond what usual ones have
_USUAL_HEADER = 1 << 12
_FOLDER_BYTES = 4096
_GONE, _EMPTIED = ".wh.", ".wh..wh..opq"
_BLOCK = 1 << 16
_ZEROS = bytes(_BLOCK)
KEPT, CARRIED_OUT, NAMES = "kept", "carried out", "names"
"""What becomes of an archive's whiteouts: a machine's own are written as they are, or carried out; or they are files
called `.wh.NAME` and `.wh..wh..opq`, as in an image's layers, and carried out."""


def pack(folder: str, limit: int) -> bytes:
    """Return a folder's content as a compressed archive, in which root owns every file.

    Raises:
        TooLarge: If its files have more bytes than the limit.
    """
    output = io.BytesIO()
    seen: dict[tuple[int, int], str] = {}
    total = 0
    with tarfile.open(fileobj=output, mode="w:gz", compresslevel=_LEVEL, format=tarfile.PAX_FORMAT) as archive:
        for path, name in walk(folder):
            status = os.lstat(path)
            member = tarfile.TarInfo(name)
            member.mode = stat.S_IMODE(status.st_mode)
            member.mtime = status.st_mtime
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFDIR:
                member.type = tarfile.DIRTYPE
                if _is_opaque(path):
                    member.pax_headers = {_HEADER: "y"}
            elif kind == stat.S_IFLNK:
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            elif kind == stat.S_IFCHR and status.st_rdev == 0:
                member.type = tarfile.CHRTYPE
            elif kind == stat.S_IFIFO:
                member.type = tarfile.FIFOTYPE
            elif kind != stat.S_IFREG:
                continue  # a socket is nothing without its process
            elif status.st_nlink > 1 and (first := seen.setdefault((status.st_dev, status.st_ino), name)) != name:
                member.type, member.linkname = tarfile.LNKTYPE, first
            else:
                total += status.st_size
                if total > limit:
                    raise TooLarge(f"its files have more than {limit} bytes")
                member.size = status.st_size
                with open(path, "rb") as file:
                    archive.addfile(member, file)
                continue
            archive.addfile(member)
    return output.getvalue()


def pack_files(files: list[tuple[str, int, bytes]]) -> bytes:
    """Files as an archive: name, mode and content of each; a name that ends with `/` is a folder.

    Where the mode is `LINK`, the content is where a symbolic link leads.
    """
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, mode, data in files:
            member = tarfile.TarInfo(name.rstrip("/"))
            member.mode = mode
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            if mode == LINK:
                member.type, member.mode, member.linkname, data = tarfile.SYMTYPE, 0o777, os.fsdecode(data), b""
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return output.getvalue()


def unpack(data: bytes, folder: str, limit: int = 1 << 40, whiteouts: str = KEPT) -> None:
    """Put an archive's content into a folder, over what is there. Owners are not kept.

    A file replaces anything of its name, links too. An existing folder stays, and so does a link to one where the
    archive has a folder. Links on the way to a file are followed as if the folder were the root.

    Raises:
        TooLarge: If its files have more bytes than the limit.
        ValueError: If the archive is invalid, or a name leads out of the folder.
    """
    try:
        archive = tarfile.open(fileobj=io.BytesIO(data), tarinfo=Member)
    except tarfile.TarError as error:
        raise ValueError(f"no archive: {error}") from None
    with archive:
        unpack_members(archive, folder, limit, whiteouts)


def unpack_members(archive: tarfile.TarFile, folder: str, limit: int, whiteouts: str = KEPT) -> int:
    """Unpack an open archive of `Member`s, as `unpack` does; it may be a stream, which is read once.

    Whiteouts remove what was there before the archive, never what is in it, in either order.

    Returns:
        Bytes that its files have.
    """
    folders: list[tuple[str, int]] = []
    made: set[str] = set()
    emptied: set[str] = set()
    total = count = names = headers = 0
    place = functools.partial(resolve, folder, steps=iter(range(_ALL_STEPS)))
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined] # or it keeps all of them
        parts = inner_parts(member.name)
        if len(parts) > _DEEPEST and whiteouts != KEPT:
            raise TooLarge(f"{member.name[:200]!r} is more than {_DEEPEST} folders deep")
        path = os.path.join(place(parts[:-1]), *parts[-1:])
        missing = _make_folders(os.path.dirname(path)) if parts else 0
        total += missing * _FOLDER_BYTES
        if member.isreg() or member.type not in tarfile.SUPPORTED_TYPES:  # what is not supported is read past
            total += member.size
        count += 1 + missing
        names += (1 + missing) * (len(path) - len(folder))
        headers += max(0, member.offset_data - member.offset - _USUAL_HEADER)
        if total > limit or count > _MOST_FILES or names > _NAME_BYTES or headers > _LONG_HEADERS_BYTES:
            raise TooLarge(f"its files have more than {limit} bytes or long headers, or are more than {_MOST_FILES}")
        if whiteouts == NAMES and parts and parts[-1].startswith(_GONE):
            _hide(path, made, emptied)
            continue
        if member.isdir():
            if os.path.islink(path):
                path = place(parts)
            if not os.path.isdir(path):
                remove(path)
                os.makedirs(path)
            if member.pax_headers.get(_HEADER):
                if whiteouts == KEPT:
                    os.setxattr(path, OPAQUE, b"y")
                else:
                    _empty(path, made, emptied)
            os.chmod(path, 0o700)
            folders.append((path, member.mode))
        elif parts:
            _put(archive, member, path, place, whiteouts)
        if whiteouts != KEPT:
            while path not in made and len(path) > len(folder):
                made.add(path)
                path = os.path.dirname(path)
    for path, mode in reversed(folders):
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, stat.S_IMODE(mode))
    return total


def _make_folders(path: str) -> int:
    """Make a folder and those that it is in; return how many were missing."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder)
    return len(missing)


def _hide(path: str, made: set[str], emptied: set[str]) -> None:
    parent, name = os.path.split(path)
    if name == _EMPTIED:
        _empty(parent, made, emptied)
    elif name[len(_GONE) :] not in ("", ".", ".."):
        path = os.path.join(parent, name[len(_GONE) :])
        if path not in made:
            remove(path)
        elif os.path.isdir(path) and not os.path.islink(path):
            _empty(path, made, emptied)


def _empty(folder: str, made: set[str], emptied: set[str]) -> None:
    """Remove what was in a folder before; there is nothing left of that the second time."""
    left = [] if folder in emptied else [folder]
    emptied.add(folder)
    while left:
        parent = left.pop()
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            if path not in made:
                remove(path)
            elif os.path.isdir(path) and not os.path.islink(path):
                left.append(path)


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, place: Any, whiteouts: str) -> None:
    remove(path)
    if member.issym():
        os.symlink(member.linkname, path)
    elif member.islnk():
        first = inner_parts(member.linkname)
        if not first:
            raise ValueError(f"{member.name[:200]!r} is a hard link to nothing")
        target = os.path.join(place(first[:-1]), first[-1])
        if not os.path.lexists(target):
            raise ValueError(f"{member.name[:200]!r} is a hard link to {member.linkname[:200]!r}, which is not there")
        os.link(target, path, follow_symlinks=False)
    elif member.isreg():
        source = archive.extractfile(member)
        assert source is not None
        with source, open(path, "xb") as file:
            while block := source.read(_BLOCK):
                if block == _ZEROS:
                    file.seek(_BLOCK, os.SEEK_CUR)  # a hole: what is sparse takes no more room than it did
                else:
                    file.write(block)
            file.truncate()
        os.chmod(path, stat.S_IMODE(member.mode))
        os.utime(path, (member.mtime, member.mtime))
    elif member.isfifo():
        os.mkfifo(path, stat.S_IMODE(member.mode))
    elif member.ischr() and member.devmajor == member.devminor == 0 and whiteouts == KEPT:
        os.mknod(path, stat.S_IFCHR, 0)


def inner_parts(name: str) -> list[str]:
    """The parts of a name in an archive.

    Raises:
        ValueError: If it leads out of the archive's folder.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise ValueError(f"the name {name[:200]!r} leads out of its folder")
    return parts


def resolve(folder: str, parts: list[str], steps: Iterator[int] | None = None) -> str:
    """Return the place of a path if the folder is the root: no link leads out of it. It need not exist.

    Raises:
        ValueError: If its links never end, or no steps are left, of which it takes one for each part.
    """
    done: list[str] = []
    left = parts[::-1]
    links = 0
    own = iter(range(_MOST_STEPS))
    while left:
        part = left.pop()
        if next(own, None) is None or (steps is not None and next(steps, None) is None):
            raise ValueError(f"{'/'.join(parts)[:200]!r} leads through too many folders")
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        path = os.path.join(folder, *done, part)
        if not os.path.islink(path):
            done.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise ValueError(f"{'/'.join(parts)[:200]!r} is a link without an end")
        target = os.readlink(path)
        if target.startswith("/"):
            done = []
        left += target.split("/")[::-1]
    return os.path.join(folder, *done)


def remove(path: str) -> None:
    """Whatever is at a path is gone after this, however deep; no link is followed."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(path)
        return
    try:
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)
    except (OSError, RecursionError):
        _remove_deep(path)


def _remove_deep(path: str) -> None:
    """Remove a folder with names longer than the kernel takes: what is two folders down comes up, over and over."""
    folders = [path]
    count = 0
    while folders:
        parent = folders.pop()
        os.chmod(parent, 0o700)
        for entry in list(os.scandir(parent)):
            place = entry.path
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(place)
                continue
            if parent != path:
                count += 1
                place = os.path.join(path, f"{count:x}.{os.urandom(8).hex()}")
                os.rename(entry.path, place)
            folders.append(place)
        if parent != path:
            os.rmdir(parent)
    os.rmdir(path)


def walk(folder: str) -> Iterator[Tuple[str, str]]:  # noqa: UP006
    """Paths and names of all that is in a folder, each folder before what is in it."""
    left = [(folder, "")]
    while left:
        parent, prefix = left.pop()
        for entry in sorted(os.scandir(parent), key=lambda one: one.name):
            name = prefix + entry.name
            yield entry.path, name
            if entry.is_dir(follow_symlinks=False):
                left.append((entry.path, name + "/"))


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, OPAQUE) == b"y"
    except OSError:
        return False
