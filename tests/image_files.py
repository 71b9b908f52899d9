"""The files of images, as archives and registries have them."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard
from aiohttp import web
from testing import serving

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "tar": lambda data: data,
    "tar+gzip": gzip.compress,
    "tar+zstd": zstandard.ZstdCompressor().compress,
}
CONFIG: dict[str, Any] = {
    "architecture": "amd64",
    "os": "linux",
    "config": {"Env": ["PATH=/bin", "COLOUR=red", "EMPTY="], "WorkingDir": "/work", "User": "nobody"},
}
TOKEN, PASSWORD = "t-0123456789abcdef-token", "p-0123456789abcdef-password"
Change = Callable[[web.Request, bytes], "web.StreamResponse | None"]


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


def docker_save(layers: list[bytes], settings: Mapping[str, Any] = CONFIG["config"]) -> dict[str, bytes]:
    """The files that `docker save` wrote before it wrote OCI layouts, too."""
    files = {f"{index}abc/layer.tar": data for index, data in enumerate(layers)}
    manifest = [{"Config": "config.json", "RepoTags": ["mine:1"], "Layers": list(files)}]
    return {
        **files,
        "config.json": json.dumps({**CONFIG, "config": settings}).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }


def oci_layout(
    layers: list[bytes], compression: str = "tar", settings: Mapping[str, Any] = CONFIG["config"]
) -> dict[str, bytes]:
    """The files of an OCI layout, with an index of its own for each kind of machine."""
    files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(data: bytes, **fields: Any) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data), **fields}

    compress = COMPRESSIONS[compression]
    kind = f"application/vnd.oci.image.layer.v1.{compression}"
    manifest = {
        "config": blob(json.dumps({**CONFIG, "config": settings}).encode()),
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


def root_file_system(target: Path, programs: Sequence[str]) -> None:
    """A few of this machine's programs, with their libraries."""
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        libraries = [word for word in listed.split() if word.startswith("/")]
        for path in (program, *libraries):
            place = target / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy(os.path.realpath(path), place)


class Registry:
    """A registry with one image, `owner/image:1`, from the files of an OCI layout.

    Args:
        layers: The image's layers, uncompressed.
        auth: `bearer`, `basic` or nothing.
        change: Answers a request in the registry's place, or returns None.
        settings: The settings of the image's programs.
    """

    def __init__(
        self,
        layers: list[bytes],
        compression: str = "tar+gzip",
        auth: str = "",
        change: Change | None = None,
        settings: Mapping[str, Any] = CONFIG["config"],
    ) -> None:
        self.files = oci_layout(layers, compression, settings)
        self.auth, self.change = auth, change or (lambda request, data: None)
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        self.url = ""

    @property
    def name(self) -> str:
        return f"{self.url.partition('://')[2]}/owner/image"

    def blobs(self) -> dict[str, bytes]:
        found = {name.rpartition("/")[2]: data for name, data in self.files.items() if name.startswith("blobs/")}
        return {f"sha256:{digest}": data for digest, data in found.items()}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path.partition("/image/")[2])
        login = request.headers.get("Authorization")
        user = f"Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}"
        if self.auth == "bearer" and login != f"Bearer {TOKEN}":
            challenge = f'Bearer realm="{self.url}/token",service="own",scope="repository:owner/image:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if self.auth == "basic" and login != user:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="own"'})
        wanted = request.path.rpartition("/")[2]
        if "/manifests/" in request.path:
            (index,) = json.loads(self.files["index.json"])["manifests"]
            wanted = index["digest"] if wanted == "1" else wanted
        data = self.blobs().get(wanted)
        if data is None:
            return web.Response(status=404)
        return self.change(request, data) or web.Response(body=data)

    async def token(self, request: web.Request) -> web.Response:
        assert dict(request.query) == {"service": "own", "scope": "repository:owner/image:pull"}
        self.logins.append(request.headers.get("Authorization"))
        return web.json_response({"token": TOKEN})


@contextlib.asynccontextmanager
async def running(one: Registry) -> AsyncIterator[Registry]:
    routes = {"/v2/{path:.*}": one.answer, "/token": one.token}
    async with serving(routes) as one.url:
        yield one


class Short(web.Response):
    """A response that ends before its length."""

    async def write_eof(self, data: bytes = b"") -> None:
        assert self._req is not None and self._req.transport is not None
        await super().write_eof(data)
        self._req.transport.close()
