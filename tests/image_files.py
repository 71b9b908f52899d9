"""The files of images, as archives and registries have them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "tar": lambda data: data,
    "tar+gzip": gzip.compress,
    "tar+zstd": zstandard.ZstdCompressor().compress,
}
CONFIG = {
    "architecture": "amd64",
    "os": "linux",
    "config": {"Env": ["PATH=/bin", "COLOUR=red", "EMPTY="], "WorkingDir": "/work", "User": "nobody"},
}


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A file of a layer, or what `type` says it is."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def folder(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, **{"mode": 0o755, **fields})


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def layer(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return output.getvalue()


def docker_save(layers: list[bytes]) -> dict[str, bytes]:
    """The files that `docker save` wrote before it wrote OCI layouts, too."""
    files = {f"{index}abc/layer.tar": data for index, data in enumerate(layers)}
    manifest = [{"Config": "config.json", "RepoTags": ["mine:1"], "Layers": list(files)}]
    return {**files, "config.json": json.dumps(CONFIG).encode(), "manifest.json": json.dumps(manifest).encode()}


def oci_layout(layers: list[bytes], compression: str = "tar") -> dict[str, bytes]:
    """The files of an OCI layout, with an index of its own for each kind of machine."""
    files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(data: bytes, **fields: Any) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data), **fields}

    compress = COMPRESSIONS[compression]
    kind = f"application/vnd.oci.image.layer.v1.{compression}"
    manifest = {
        "config": blob(json.dumps(CONFIG).encode()),
        "layers": [blob(compress(one), mediaType=kind) for one in layers],
    }
    unknown = blob(b"{}", platform={"architecture": "unknown", "os": "unknown"})
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    own = blob(json.dumps(manifest).encode(), platform={"architecture": machine, "os": "linux"})
    other = blob(b'{"layers": []}', platform={"architecture": "s390x", "os": "linux"})
    index = blob(json.dumps({"manifests": [other, own, unknown]}).encode())
    files["index.json"] = json.dumps({"manifests": [index]}).encode()
    return files


def write(place: Path, files: dict[str, bytes], form: str = "tar") -> str:
    """Files as a folder, or an archive."""
    if form == "folder":
        for name, data in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
        return str(place)
    data = layer(*(member(name, data) for name, data in files.items()))
    place.write_bytes(gzip.compress(data) if form == "tar.gz" else data)
    return str(place)
