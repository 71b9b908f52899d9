"""Images of machines: root file systems, unpacked once into a cache from folders, tars and image archives."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from gym_llm.errors import UsageError
from gym_llm.sandbox.backends import MACHINE_USER
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines import image_archive
from gym_llm.sandbox.machines.stoppable import check, take_lock

HOST = "host"
_GIGA = 1 << 30
_LARGEST = 32 * _GIGA
_PRIVILEGES = stat.S_ISUID | stat.S_ISGID
_VERSION = 3  # of what is in the cache
_ROOT, _CONFIG = "root", "config.json"
_APT = "etc/apt/apt.conf.d/99gym_llm"
_APT_AS_ROOT = 'APT::Sandbox::User "root";\n'  # machines have one user, and apt would become another to download
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64")
_HOST_FOLDERS = ("etc", "home", "logs/agent", "logs/artifacts", "logs/verifier", "opt", "root", "srv", "usr", "var/log")
_PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"
_HOSTS = "127.0.0.1 localhost machine\n::1 localhost\n"


@dataclass(frozen=True, slots=True)
class Image:
    """A root file system that machines begin with. They share the folder and never change it.

    Attributes:
        name: The name that it was asked for by, and the version of its content.
        folder: The root file system; where this is root, all of it belongs to `MACHINE_USER`.
        mounts: Folders of this machine that are shown read-only, and where.
        hidden: Folders in these that are empty inside: this package has tasks with their solutions.
        environment: Variables of every command.
        workdir: Where commands start.
        user: The user that runs them.
    """

    name: str
    folder: str
    mounts: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "root"


def cache_folder(folder: str | None) -> Path:
    """Return the folder of a cache of images, made if it is missing; None for the one in the user's cache.

    Raises:
        UsageError: If it cannot be made.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(folder) if folder is not None else base / "gym_llm" / "machines"
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"The cache {path} must be a folder: {error.strerror}. Set XDG_CACHE_HOME.") from None
    return path


class ImageCache:
    """A folder with unpacked images and what Dockerfiles made, each by a hash of what it was made from.

    Processes share it. What is longest unused goes when it is larger than its limit; what a process uses stays.
    The event `stopped` of its methods ends their work, and their wait for other processes, with `Stopped`.

    Args:
        folder: None for `gym_llm/machines` in the user's cache.
        limit: Bytes.
    """

    def __init__(self, folder: str | None = None, *, limit: int = 20 * _GIGA) -> None:
        self.folder = cache_folder(folder)
        self.limit = limit
        self._held: dict[str, IO[bytes]] = {}
        self._folders: dict[str, str] = {}
        self._turns: dict[str, threading.Lock] = {}

    def image(self, source: str, stopped: threading.Event | None = None) -> Image:
        """Return an image: `host`, a folder, a tar of a root file system, an OCI or `docker save` archive or layout.

        Raises:
            UsageError: If it is invalid.
        """
        if source == HOST:
            identity = json.dumps(
                ["host", 1, *(os.stat(path).st_mtime_ns for path in ("/usr/bin", "/etc/alternatives"))]
            )
            folder = self.entry(identity, _write_host, stopped)
            own = os.path.realpath(Path(__file__).parents[2])
            hidden = (own,) if own.startswith("/usr/") else ()
            return Image(HOST, str(folder / _ROOT), mounts=(("/usr", "usr"),), hidden=hidden)
        if not os.path.exists(source):
            raise UsageError(f"There is no image {source!r}: it is `host`, or a folder, a tar or an image archive.")
        identity = json.dumps([_VERSION, os.path.realpath(source), self._version(source)])
        try:
            return self.unpacked(identity, source, stopped)
        except image_archive.NO_IMAGE as error:
            raise UsageError(f"{source} cannot be used as an image: {image_archive.reason(error)}.") from None

    def unpacked(self, identity: str, source: str, stopped: threading.Event | None = None) -> Image:
        """Return the image that a source has, as of `entry`.

        Raises:
            image_archive.NO_IMAGE: If the source is not an image.
        """
        self.entry(identity, lambda target: _write_image(source, target, stopped), stopped)
        image = self.find_image(identity, stopped)
        assert image is not None
        return image

    def find_image(self, identity: str, stopped: threading.Event | None = None) -> Image | None:
        """Return an image that has been unpacked; see `find`."""
        if (folder := self.find(identity, stopped)) is None:
            return None
        return Image(identity, str(folder / _ROOT), **json.loads((folder / _CONFIG).read_text("utf-8")))

    def _version(self, source: str) -> str:
        """Return the version of an image, which changes with it; a folder, which may be large, is read once."""
        if os.path.isdir(source):
            if source not in self._folders:
                digest = hashlib.sha256()
                for path, name in tree.walk(source):
                    status = os.lstat(path)
                    said = f"{name}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0"
                    digest.update(said.encode("utf-8", "surrogateescape"))
                self._folders[source] = digest.hexdigest()
            return self._folders[source]
        status = os.stat(source)
        return f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"

    def changed(
        self,
        identity: str,
        base: Image,
        changes: bytes,
        stopped: threading.Event | None = None,
        *,
        whole: bool,
        config: dict[str, Any],
    ) -> Path:
        """The folder of an image that is another with a snapshot over it, as of `entry`.

        The files that both have are on the disk once.

        Args:
            identity: What it is made from.
            base: The image.
            changes: The snapshot.
            stopped: Ends the wait for other processes.
            whole: Whether the snapshot has all files, not just what has changed.
            config: What else is known of it.
        """

        def write(target: Path) -> None:
            root = target / _ROOT
            if whole:
                root.mkdir()
            else:
                link_folder(base.folder, str(root))
            tree.unpack(changes, str(root), whiteouts=tree.CARRIED_OUT)
            give_away(root)
            (target / _CONFIG).write_text(json.dumps(config), "utf-8")

        return self.entry(identity, write, stopped)

    def of_entry(self, folder: Path, base: Image) -> Image:
        """The image in an entry that was made of another."""
        config = json.loads((folder / _CONFIG).read_text("utf-8"))
        return replace(base, folder=str(folder / _ROOT), **config)

    def entry(self, identity: str, write: Callable[[Path], None], stopped: threading.Event | None = None) -> Path:
        """The folder that was made from something, made now if it is not there; it stays until `close`.

        Args:
            identity: What it is made from.
            write: Fills an empty folder.
            stopped: Ends the wait for other processes.
        """
        with self._turn(identity):
            path, lock = self._hold(identity, stopped)
            if not path.exists():
                try:
                    take_lock(lock, fcntl.LOCK_EX, stopped)
                    if not path.exists():
                        self._make(path, write)
                except BaseException:
                    fcntl.flock(lock, fcntl.LOCK_UN)  # or other processes could not make it
                    raise
                fcntl.flock(lock, fcntl.LOCK_SH)
            os.utime(path)
            return path

    def find(self, identity: str, stopped: threading.Event | None = None) -> Path | None:
        """The folder, if it has been made; it stays until `close`."""
        with self._turn(identity):
            path, lock = self._hold(identity, stopped)
            if not path.exists():
                fcntl.flock(lock, fcntl.LOCK_UN)  # or other processes could not make it
                return None
            os.utime(path)
            return path

    def _turn(self, identity: str) -> threading.Lock:
        """Return the lock that this process's threads take first: they share the file that locks an entry."""
        return self._turns.setdefault(identity, threading.Lock())

    def _hold(self, identity: str, stopped: threading.Event | None) -> tuple[Path, IO[bytes]]:
        name = hashlib.sha256(f"{os.geteuid()} {identity}".encode()).hexdigest()[:32]
        cache_folder(str(self.folder))
        if name not in self._held:
            self._held[name] = open(self.folder / f"{name}.lock", "ab")  # noqa: SIM115 (held)
        take_lock(self._held[name], fcntl.LOCK_SH, stopped)
        return self.folder / name, self._held[name]

    def close(self) -> None:
        """Let others remove what this used."""
        for lock in self._held.values():
            lock.close()
        self._held.clear()

    def _make(self, path: Path, write: Callable[[Path], None]) -> None:
        self.clean()
        making = Path(tempfile.mkdtemp(prefix="making-", dir=self.folder))
        try:
            write(making)
            making.chmod(0o755)
            making.rename(path)
        except BaseException:
            _remove(making)
            raise

    def clean(self) -> None:
        """Remove what was not finished, and the longest unused while all is more than the limit."""
        entries = []
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another thread or process removes it, too
                if path.name.startswith("making-") and not _is_new(path):
                    _remove(path)
                elif path.is_dir() and not path.name.startswith("making-"):
                    entries.append((path.stat().st_mtime, path, _size(path)))
        total = sum(size for _, _, size in entries)
        for _, path, size in sorted(entries):
            if total <= self.limit:
                return
            if path.name in self._held:
                continue
            with open(path.with_name(f"{path.name}.lock"), "ab") as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path = path.rename(path.with_name(f"making-{path.name}"))  # or half of it would pass for an image
                _remove(path)
                total -= size


def _is_new(path: Path) -> bool:
    import time

    with contextlib.suppress(FileNotFoundError):  # finished meanwhile
        files = [one for one in path.iterdir() if one.is_file()]  # a download grows, its folder stays as it is
        return time.time() - max(one.stat().st_mtime for one in (path, *files)) < 3600
    return True


def _size(folder: Path) -> int:
    """Bytes on the disk; what images have in common, and is there once, is shared out among them."""
    total = 0.0
    for parent, _, names in os.walk(folder):
        for name in names:
            status = os.lstat(os.path.join(parent, name))
            total += status.st_blocks * 512 / status.st_nlink
    return int(total)


def _remove(folder: Path) -> None:
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o700)
    shutil.rmtree(folder)


def _write_host(target: Path) -> None:
    root = target / _ROOT
    for name in _HOST_FOLDERS:
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir()
        (root / name).chmod(0o1777)
    for name in _LINKS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), root / name)
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUPS)
    (root / "etc/hosts").write_text(_HOSTS)
    for name in (
        "alternatives",
        "ssl/certs",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "os-release",
        "debian_version",
    ):
        _copy(f"/etc/{name}", root / "etc" / name)
    _finish(target, {})


def _copy(source: str, target: Path) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, copy_function=shutil.copy2)
    elif os.path.exists(source):
        shutil.copy2(source, target)


def _write_image(source: str, target: Path, stopped: threading.Event | None) -> None:
    root = target / _ROOT
    root.mkdir()
    settings: dict[str, Any] = {}
    if os.path.isdir(source) and not image_archive.is_layout(source):
        _copy_folder(source, str(root), stopped)
    else:
        free = shutil.disk_usage(target).free - _GIGA
        settings = image_archive.unpack_image(source, str(root), min(_LARGEST, max(free, 0)), stopped)
    _finish(target, settings)


def _copy_folder(source: str, target: str, stopped: threading.Event | None) -> None:
    """Copy a root file system; its devices and sockets are left out."""

    def copy(path: str, place: str) -> str:
        check(stopped)
        mode = os.lstat(path).st_mode
        if stat.S_ISFIFO(mode):
            os.mkfifo(place, stat.S_IMODE(mode))
        elif stat.S_ISREG(mode):
            shutil.copy2(path, place)
        return place

    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=copy)


def link_folder(source: str, target: str) -> None:
    """Link a folder's files into another one; to change a file there, replace it."""

    def link(path: str, place: str) -> str:
        try:
            os.link(path, place, follow_symlinks=False)
        except OSError:  # it has as many names as the file system takes
            shutil.copy2(path, place, follow_symlinks=False)
        return place

    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=link)


def give_away(root: Path) -> None:
    """Give a root file system to the user of machines, and take from its files the right to be run as their owner."""
    root.chmod(0o755)
    away = os.geteuid() == 0
    for parent, folders, names in os.walk(root):
        for name in (".", *folders, *names):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            if away and status.st_uid != MACHINE_USER:
                os.chown(path, MACHINE_USER, MACHINE_USER, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                os.chmod(path, stat.S_IMODE(status.st_mode))
            elif stat.S_ISREG(status.st_mode) and status.st_mode & _PRIVILEGES:
                os.chmod(path, stat.S_IMODE(status.st_mode) & ~_PRIVILEGES)


def _finish(target: Path, settings: dict[str, Any]) -> None:
    root = target / _ROOT
    for name in ("proc", "dev", "tmp"):  # two are mounted over; /tmp may be a link to another folder of the image
        is_link = name != "tmp" and os.path.islink(root / name)
        if is_link or not os.path.isdir(tree.resolve(str(root), [name])):
            tree.remove(str(root / name))
            (root / name).mkdir()
            (root / name).chmod(0o1777 if name == "tmp" else 0o755)
    place = tree.resolve(str(root), _APT.split("/"))
    if os.path.isdir(os.path.dirname(place)):
        tree.remove(place)
        Path(place).write_text(_APT_AS_ROOT)
    (target / _CONFIG).write_text(json.dumps(settings), "utf-8")
    give_away(root)
