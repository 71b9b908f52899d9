"""Image archives: what `docker save` writes, OCI archives and layouts, and tars of a root file system."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import posixpath
import re
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.inside.tar_headers import HEADER_BYTES, Member, TooLarge
from gym_llm.sandbox.machines.stoppable import StoppableFile
from gym_llm.utils.extras import install

NO_IMAGE = (
    *(tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError),
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError),  # of an invalid document
    *(OverflowError, MemoryError),  # of numbers and sizes in it
)
"""Errors raised for damaged or unrecognised archives."""
_DOCUMENT_BYTES = 16 << 20
_HEADERS_BYTES = 1 << 24  # of the members of an archive that may be an image's
MOST_LAYERS = 500
_ZSTANDARD_BYTES = 1 << 27  # of memory that a layer may ask for

_NO_TEXT = re.compile("[\0\ud800-\udfff]")

_Blob = Callable[[str], IO[bytes]]


def unpack_image(source: str, root: str, limit: int, stopped: threading.Event | None = None) -> dict[str, Any]:
    """Unpack an image archive or layout into an empty folder.

    Args:
        source: Its path.
        root: The folder.
        limit: Bytes that its files may have together.
        stopped: Ends the work once it is set.

    Returns:
        The settings of the image's commands, as `Image` has them; a tar of a root file system has none.

    Raises:
        NO_IMAGE: If the source is not an image.
        Stopped: If it is stopped.
    """
    with _blobs(source, limit, stopped) as blob:
        if blob is None:
            with _open(source, stopped) as file, tarfile.open(fileobj=file, mode="r|*", tarinfo=Member) as archive:
                tree.unpack_members(archive, root, limit, tree.CARRIED_OUT)
            return {}
        layers, config = _layers(blob)
        settings = _read_settings(config)
        for layer in layers:
            with blob(layer) as file, _open_layer(file, layer) as archive:
                limit -= tree.unpack_members(archive, root, limit, tree.NAMES)
    return settings


def reason(error: Exception) -> str:
    """Return what is wrong with an image, of one of `NO_IMAGE`, without a full stop."""
    if isinstance(error, RecursionError):
        return "a document in it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if isinstance(error, (TypeError, AttributeError, IndexError)):
        return f"a document in it is invalid ({error})"
    return f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")


def is_layout(folder: str) -> bool:
    """Whether a folder is an OCI layout, or an unpacked archive of `docker save`, and no root file system."""
    has = {name for name in ("oci-layout", "manifest.json", "usr", "bin") if os.path.exists(os.path.join(folder, name))}
    return bool(has) and not has & {"usr", "bin"}


@contextlib.contextmanager
def _blobs(source: str, limit: int, stopped: threading.Event | None) -> Iterator[_Blob | None]:
    """Return a reader of the files of an image archive or layout, by name; None for any other tar."""
    if os.path.isdir(source):
        yield lambda name: _open(str(Path(source, *tree.inner_parts(name))), stopped)
        return
    with _open(source, stopped) as opened, tarfile.open(fileobj=opened, tarinfo=Member) as archive:
        first = archive.next()
        names = set()
        headers = 0
        for _ in range(10_000):  # an image archive has few members, a root file system many
            if first is None or headers > _HEADERS_BYTES:  # they are kept until the last layer is read
                break
            headers += first.offset_data - first.offset
            names.add(first.name.removeprefix("./"))
            if first.offset_data + first.size > limit + HEADER_BYTES:
                raise TooLarge(f"its files have more than {limit} bytes")
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


def _open(path: str, stopped: threading.Event | None) -> IO[bytes]:
    return io.BufferedReader(StoppableFile(path, stopped))


def _layers(blob: _Blob) -> tuple[list[str], dict[str, Any]]:
    """Return the names of an image's layers, and its configuration.

    Raises:
        ValueError: If the archive has no image for this machine, or more than one.
    """
    try:
        index = _document(blob, "index.json")
    except (ValueError, OSError):
        manifests = _document(blob, "manifest.json")
        if len(manifests) != 1:
            raise ValueError(f"it has {len(manifests)} images, not one") from None
        layers = [str(layer) for layer in manifests[0]["Layers"]]
        return _few(layers), _document(blob, manifests[0]["Config"])
    for _ in range(3):
        if "manifests" not in index:
            break
        index = _document(blob, _place(own_digest(index)))
    layers = [_checked(blob, layer["digest"]) for layer in _few(index["layers"])]
    return layers, _document(blob, _place(index["config"]["digest"]))


def _read_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an image's commands.

    Raises:
        ValueError: If a value has the wrong type.
    """
    given = config.get("config") or {}
    variables, workdir, user = given.get("Env") or [], given.get("WorkingDir") or "/", given.get("User") or "root"
    for name, texts in {"Env": variables, "WorkingDir": [workdir], "User": [user]}.items():
        if not isinstance(texts, list) or not all(
            isinstance(text, str) and not _NO_TEXT.search(text) for text in texts
        ):
            raise ValueError(f"its configuration is invalid: {name} is not text")
    pairs = (variable.partition("=") for variable in variables)
    return {
        "environment": {name: value for name, _, value in pairs},
        "workdir": posixpath.normpath(posixpath.join("/", workdir)),
        "user": user,
    }


def own_digest(index: dict[str, Any]) -> str:
    """Return the digest of an index's image for this machine.

    Raises:
        ValueError: If it has no such image, or several.
    """
    ours = [one for one in index["manifests"] if (one.get("platform") or {}).get("os", "linux") == "linux"]
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
    own = {
        str(one["digest"])
        for one in ours
        if (one.get("platform") or {}).get("architecture", machine) == machine
        and "vnd.docker.reference.type" not in (one.get("annotations") or {})
    }
    if len(own) != 1:
        raise ValueError(f"it has {len(own) or 'no'} images for {machine}, not one")
    return own.pop()


def _few(layers: list[Any]) -> list[Any]:
    if len(layers) > MOST_LAYERS:
        raise ValueError(f"it has more than {MOST_LAYERS} layers")
    return layers


def _checked(blob: _Blob, digest: str) -> str:
    name = _place(digest)
    if digest.startswith("sha256:"):
        with blob(name) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest.partition(":")[2]:  # type: ignore[arg-type]
                raise ValueError(f"the content of {name} is not what its name says: the archive is damaged")
    return name


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
        file = cast(IO[bytes], _Zstandard(file, name))
    elif magic[:2] == b"\x1f\x8b":
        file = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
    return tarfile.open(fileobj=file, mode="r|", tarinfo=Member)


class _Zstandard:
    """A layer that is compressed with Zstandard."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        try:
            import zstandard
        except ImportError:
            raise ValueError(
                f"the layer {name} is compressed with Zstandard: {install('data')}, or `skopeo copy "
                "--dest-compress-format gzip`, helps"
            ) from None
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTANDARD_BYTES)
        self._stream = decompressor.stream_reader(file, read_across_frames=True)
        self._error = zstandard.ZstdError

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except self._error as error:
            raise ValueError(f"a layer is damaged: {error}") from None
