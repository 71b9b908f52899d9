"""Images of machines: root file systems, unpacked once into a cache from folders, tars and image archives."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from gym_llm.errors import UsageError
from gym_llm.sandbox.backends import MACHINE_USER
from gym_llm.sandbox.inside import tree

HOST = "host"
_GIGA = 1 << 30
_LARGEST = 32 * _GIGA
_DOCUMENT_BYTES = 16 << 20
_ROOT, _CONFIG = "root", "config.json"
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64")
_HOST_FOLDERS = ("etc", "home", "logs/agent", "logs/artifacts", "logs/verifier", "opt", "root", "srv", "usr", "var/log")
_PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"
_HOSTS = "127.0.0.1 localhost machine\n::1 localhost\n"


@dataclass(frozen=True, slots=True)
class Image:
    """What machines begin with. The folder is shared between them and stays as it is.

    Attributes:
        name: What it was asked for by, and what its content is.
        folder: The root file system; where this is root, all of it belongs to `MACHINE_USER`.
        mounts: Folders of this machine that are shown read-only, and where.
        hidden: Folders in these that are empty inside: this package has tasks with their solutions.
        environment: Variables of every command.
        workdir: Where commands start.
        user: Whose they are.
        changes: A snapshot to begin with: what a Dockerfile made.
    """

    name: str
    folder: str
    mounts: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "root"
    changes: bytes | None = None


class ImageCache:
    """A folder with unpacked images and what Dockerfiles made, each by a hash of what it was made from.

    Processes share it. What is longest unused goes when it is larger than its limit; what a process uses stays.

    Args:
        folder: None for `gym_llm/machines` in the user's cache.
        limit: Bytes.
    """

    def __init__(self, folder: str | None = None, *, limit: int = 20 * _GIGA) -> None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = Path(folder) if folder is not None else base / "gym_llm" / "machines"
        self.limit = limit
        self._held: dict[str, IO[bytes]] = {}

    def image(self, source: str) -> Image:
        """An image: `host`, a folder, a tar of a root file system, an OCI or `docker save` archive or layout.

        Raises:
            UsageError: If it is none; one sentence.
        """
        if source == HOST:
            identity = json.dumps(
                ["host", 1, *(os.stat(path).st_mtime_ns for path in ("/usr/bin", "/etc/alternatives"))]
            )
            folder = self.entry(identity, _write_host)
            own = os.path.realpath(Path(__file__).parents[1])
            hidden = (own,) if own.startswith("/usr/") else ()
            return Image(HOST, str(folder / _ROOT), mounts=(("/usr", "usr"),), hidden=hidden)
        if not os.path.exists(source):
            raise UsageError(f"There is no image {source!r}: it is `host`, or a folder, a tar or an image archive.")
        status = os.stat(source)
        identity = json.dumps([os.path.realpath(source), status.st_mtime_ns, status.st_size, status.st_ino])
        try:
            folder = self.entry(identity, lambda target: _write_image(source, target))
        except (tarfile.TarError, ValueError, OSError, KeyError, EOFError) as error:
            raise UsageError(f"{source} cannot be used as an image: {error}.") from None
        config = json.loads((folder / _CONFIG).read_text("utf-8"))
        return Image(identity, str(folder / _ROOT), **config)

    def entry(self, identity: str, write: Callable[[Path], None]) -> Path:
        """The folder that was made from something, made now if it is not there; it stays until `close`.

        Args:
            identity: What it is made from.
            write: Fills an empty folder.
        """
        path, lock = self._hold(identity)
        if not path.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                self._make(path, write)
            fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(path)
        return path

    def find(self, identity: str) -> Path | None:
        """The folder, if it has been made; it stays until `close`."""
        path, _ = self._hold(identity)
        if not path.exists():
            return None
        os.utime(path)
        return path

    def _hold(self, identity: str) -> tuple[Path, IO[bytes]]:
        name = hashlib.sha256(f"{os.geteuid()} {identity}".encode()).hexdigest()[:32]
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if name not in self._held:
            self._held[name] = open(self.folder / f"{name}.lock", "ab")  # noqa: SIM115 (held)
        fcntl.flock(self._held[name], fcntl.LOCK_SH)
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
                _remove(path)
                total -= size


def _is_new(path: Path) -> bool:
    import time

    return time.time() - path.stat().st_mtime < 3600


def _size(folder: Path) -> int:
    return sum(
        os.lstat(os.path.join(parent, name)).st_blocks * 512 for parent, _, names in os.walk(folder) for name in names
    )


def _remove(folder: Path) -> None:
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o700)
    shutil.rmtree(folder)


def _write_host(target: Path) -> None:
    """A small writable rest for this machine's own /usr."""
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


def _write_image(source: str, target: Path) -> None:
    root = target / _ROOT
    root.mkdir()
    if os.path.isdir(source) and not os.path.exists(os.path.join(source, "oci-layout")):
        shutil.copytree(source, root, symlinks=True, dirs_exist_ok=True)
        _finish(target, {})
        return
    with _blobs(source) as blob:
        if blob is None:
            with tarfile.open(source, "r|*") as archive:
                tree.unpack_members(archive, str(root), _LARGEST)
            _finish(target, {})
            return
        layers, config = _layers(blob)
        left = _LARGEST
        for layer in layers:
            with blob(layer) as file, _open_layer(file, layer) as archive:
                left -= tree.unpack_members(archive, str(root), left)
        _finish(target, config)


def _finish(target: Path, config: dict[str, Any]) -> None:
    """Write what an image's own configuration says, and give all to the user of machines."""
    root = target / _ROOT
    for name in ("proc", "dev", "tmp"):
        if not os.path.lexists(root / name):
            (root / name).mkdir()
            (root / name).chmod(0o1777 if name == "tmp" else 0o755)
    settings = config.get("config") or {}
    pairs = (entry.partition("=") for entry in settings.get("Env") or [])
    content = {
        "environment": {name: value for name, _, value in pairs},
        "workdir": settings.get("WorkingDir") or "/",
        "user": settings.get("User") or "root",
    }
    (target / _CONFIG).write_text(json.dumps(content), "utf-8")
    root.chmod(0o755)
    if os.geteuid() == 0:
        for parent, folders, names in os.walk(root):
            for name in (".", *folders, *names):
                path = os.path.join(parent, name)
                mode = os.lstat(path).st_mode
                os.chown(path, MACHINE_USER, MACHINE_USER, follow_symlinks=False)
                if not os.path.islink(path):
                    os.chmod(path, mode & 0o7777)


_Blob = Callable[[str], IO[bytes]]


@contextlib.contextmanager
def _blobs(source: str) -> Iterator[_Blob | None]:
    """What gives the files of an image archive or layout by name; None for a tar that is no image archive."""
    if os.path.isdir(source):
        yield lambda name: Path(source, *tree.inner_parts(name)).open("rb")  # noqa: SIM115 (the caller closes it)
        return
    with tarfile.open(source) as archive:
        first = archive.next()
        names = set()
        for _ in range(10_000):  # an image archive has few members, a root file system many
            if first is None:
                break
            names.add(first.name.removeprefix("./"))
            first = archive.next()
        if first is not None or not names & {"oci-layout", "manifest.json"}:
            yield None
            return

        def blob(name: str) -> IO[bytes]:
            for one in (name, f"./{name}"):
                with contextlib.suppress(KeyError):
                    if (file := archive.extractfile(one)) is not None:
                        return file
            raise ValueError(f"it has no {name}")

        yield blob


def _layers(blob: _Blob) -> tuple[list[str], dict[str, Any]]:
    """Names of an image's layers, and its configuration."""
    try:
        index = _document(blob, "index.json")
    except (ValueError, OSError):
        (manifest, *_) = _document(blob, "manifest.json")
        return list(manifest["Layers"]), _document(blob, manifest["Config"])
    for _ in range(3):
        if "manifests" not in index:
            break
        ours = [one for one in index["manifests"] if (one.get("platform") or {}).get("os", "linux") == "linux"]
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
        own = [one for one in ours if (one.get("platform") or {}).get("architecture", machine) == machine]
        if not own:
            raise ValueError(f"it has no image for {machine}")
        index = _document(blob, _place(own[0]["digest"]))
    return [_place(layer["digest"]) for layer in index["layers"]], _document(blob, _place(index["config"]["digest"]))


def _place(digest: str) -> str:
    kind, _, value = digest.partition(":")
    return f"blobs/{kind}/{value}"


def _document(blob: _Blob, name: str) -> Any:
    with blob(name) as file:
        return json.loads(file.read(_DOCUMENT_BYTES))


def _open_layer(file: IO[bytes], name: str) -> tarfile.TarFile:
    magic = file.read(4)
    file.seek(0)
    if magic == b"\x28\xb5\x2f\xfd":
        raise ValueError(
            f"the layer {name} is compressed with zstandard; `skopeo copy --dest-compress-format gzip` helps"
        )
    stream = gzip.GzipFile(fileobj=file) if magic[:2] == b"\x1f\x8b" else file
    return tarfile.open(fileobj=stream, mode="r|")
