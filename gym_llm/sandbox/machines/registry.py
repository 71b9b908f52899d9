"""Images from registries, by the OCI Distribution protocol: no Docker, no daemon.

What a registry sends is hostile: documents and layers are bounded, and each is compared with its digest. Layers are
kept in the cache of images, so images that share a layer download it once.

The rules are those of https://github.com/opencontainers/distribution-spec (v1.1) and, for tokens, of
https://distribution.github.io/distribution/spec/auth/token.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import hashlib
import json
import re
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import aiohttp
from yarl import URL

from gym_llm.data.files.atomic import write_atomically
from gym_llm.errors import DataError, UsageError
from gym_llm.protocols.http.answers import AnswerTooLong, read_bounded
from gym_llm.sandbox.machines import image_archive
from gym_llm.sandbox.machines.image_logins import find_login
from gym_llm.sandbox.machines.image_names import DIGEST, Reference, is_loopback, parse_reference
from gym_llm.sandbox.machines.rootfs import Image, ImageCache
from gym_llm.sandbox.machines.stoppable import in_thread
from gym_llm.utils.secrets import add_secrets, redact, redacted_logger
from gym_llm.version import __version__

_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_ACCEPT = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        *("oci.image.index.v1", "oci.image.manifest.v1"),
        *("docker.distribution.manifest.list.v2", "docker.distribution.manifest.v2"),
    )
)
_DOCUMENT_BYTES = 4 << 20
_CHUNK = 1 << 20
_AT_ONCE = 3
_TRIES = 5
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE = 30.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=20.0, sock_read=60.0)
_SECONDS, _SLOWEST = 120.0, 50_000.0  # bytes/s
_PATIENCE_SECONDS, _LINE_SECONDS = 2.0, 10.0
_GIGA = 1 << 30
_LARGEST_LAYER = 1 << 62
_MOST_REDIRECTS = 10
_LAYER = "layer"

logger = redacted_logger(__name__)


class _Refused(Exception):
    """The registry does not give the image; the message says why. Another try would be refused, too."""


class _Unreachable(_Refused):
    """The registry does not answer."""


async def pull(name: str, cache: ImageCache) -> Image:
    """Return the image of this name, pulled from its registry unless the cache has it.

    A tag is looked up each time. If the registry cannot be reached, the image that it named last is used.

    Raises:
        UsageError: If the registry does not give the image, or it is damaged.
    """
    reference = parse_reference(name)
    noted = cache.folder / f"tag-{hashlib.sha256(repr(reference).encode()).hexdigest()[:32]}.json"
    async with _Registry(reference) as registry:
        try:
            try:
                manifest = await registry.manifest()
            except _Unreachable as error:
                if not (manifest := _read_note(noted)):
                    raise
                logger.warning("%s (%s): the image that this name had last is used.", error, name)
            identity = json.dumps(["registry", 1, manifest["digest"]])
            if await in_thread(lambda stopped: cache.find_image(identity, stopped)) is None:
                layers = await registry.layers(manifest, cache, name)
                config = await registry.blob(manifest["config"]["digest"])
                await in_thread(functools.partial(_unpack, cache, identity, manifest, config, layers))
            with contextlib.suppress(DataError):  # another process notes the same, or the disk is full
                write_atomically(noted, json.dumps(manifest).encode())
        except (_Refused, *image_archive.NO_IMAGE) as error:
            why = redact(image_archive.reason(error))
            raise UsageError(f"{name} cannot be pulled from {reference.registry}: {why}.") from None
    image = await in_thread(lambda stopped: cache.find_image(identity, stopped))
    assert image is not None
    return image


class _Registry:
    """A session with the registry of an image."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._headers: dict[str, str] = {}
        self._advice = f"`docker login {reference.registry}` keeps one that is used here"

    async def __aenter__(self) -> _Registry:
        self._login = await find_login(self._reference.registry)
        # What is compressed on the way has another digest. `trust_env` would send the logins of ~/.netrc.
        headers = {"User-Agent": f"gym_llm/{__version__}", "Accept-Encoding": "identity"}
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False, headers=headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def manifest(self) -> dict[str, Any]:
        """Return the manifest of the image for this machine, with its own `digest`."""
        version = self._reference.version
        for _ in range(3):  # an index of indexes is as far as it goes
            text = await self._document(f"{self._reference.url}/manifests/{version}", {"Accept": _ACCEPT})
            digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
            if version.startswith("sha256:") and digest != version:
                raise _Refused(f"what it sends for {version} has another digest")
            document = json.loads(text)
            if "manifests" not in document:
                return _checked({**document, "digest": digest})
            version = image_archive.own_digest(document)
            if not DIGEST.fullmatch(version):
                raise _Refused("its index is invalid")
        raise _Refused("its index has only indexes")

    async def blob(self, digest: str) -> bytes:
        """Return a small blob."""
        text = await self._document(f"{self._reference.url}/blobs/{digest}", {})
        if f"sha256:{hashlib.sha256(text).hexdigest()}" != digest:
            raise _Refused(f"what it sends for {digest} has another digest")
        return text

    async def layers(self, manifest: Mapping[str, Any], cache: ImageCache, name: str) -> dict[str, Path]:
        """Return where each layer lies in the cache, by digest; those that are missing are downloaded."""
        sizes = {part["digest"]: part["size"] for part in manifest["layers"]}
        found = await in_thread(lambda stopped: {one for one in sizes if cache.find(_identity(one), stopped)})
        missing = sum(size for digest, size in sizes.items() if digest not in found)
        cache.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if missing > shutil.disk_usage(cache.folder).free - _GIGA:
            raise _Refused(f"its layers have {missing / 1e9:.1f} GB, for which {cache.folder} has no room")
        shown = _Progress(name, missing)
        loop = asyncio.get_running_loop()
        # Threads of their own: they wait for downloads, whose look-up of names takes threads of the loop.
        threads = ThreadPoolExecutor(_AT_ONCE, "gym_llm-pull")
        downloads: list[Future[None]] = []
        stopped = threading.Event()

        def get(digest: str) -> Path:
            def write(target: Path) -> None:
                download = self._download(digest, sizes[digest], target / _LAYER, shown)
                downloads.append(waiting := asyncio.run_coroutine_threadsafe(download, loop))
                if stopped.is_set():  # since the lock was taken
                    waiting.cancel()
                waiting.result()

            return cache.entry(_identity(digest), write, stopped) / _LAYER

        try:
            getting = [loop.run_in_executor(threads, get, digest) for digest in sizes]
            paths = await asyncio.gather(*getting, return_exceptions=True)
        finally:
            stopped.set()
            threads.shutdown(wait=False, cancel_futures=True)
            for download in downloads:
                download.cancel()
        for path in paths:
            if isinstance(path, BaseException):
                raise path
        return dict(zip(sizes, cast(list[Path], paths), strict=True))

    async def _download(self, digest: str, size: int, path: Path, shown: _Progress) -> None:
        """Download a layer; a download that is cut off goes on where it was."""
        found = hashlib.sha256()
        with path.open("wb") as file:

            async def read(response: aiohttp.ClientResponse) -> None:
                nonlocal found
                if file.tell() and response.status != 206:
                    shown.add(-file.tell())
                    file.seek(0)
                    file.truncate()
                    found = hashlib.sha256()
                async for chunk in response.content.iter_chunked(_CHUNK):
                    if file.tell() + len(chunk) > size:
                        raise _Refused(f"the layer {digest} is larger than its manifest says")
                    found.update(chunk)
                    file.write(chunk)
                    shown.add(len(chunk))
                if file.tell() < size:
                    raise aiohttp.ClientPayloadError("it ended early")

            seconds = _SECONDS + size / _SLOWEST
            await self._get(f"{self._reference.url}/blobs/{digest}", {}, read, file.tell, seconds)
        if f"sha256:{found.hexdigest()}" != digest:
            raise _Refused(f"what it sends for {digest} has another digest")

    async def _document(self, url: str, headers: Mapping[str, str]) -> bytes:
        text = b""

        async def read(response: aiohttp.ClientResponse) -> None:
            nonlocal text
            text = await _small(response)

        await self._get(url, headers, read)
        return text

    async def _get(
        self,
        url: str,
        headers: Mapping[str, str],
        read: Callable[[aiohttp.ClientResponse], Awaitable[None]],
        begin: Callable[[], int] = lambda: 0,
        seconds: float = _SECONDS,
    ) -> None:
        """Send a request until it is answered, and read the answer: again after a pause if it fails on the way.

        Args:
            url: Where to; redirections are followed, without the login on other hosts.
            headers: Headers beside the login.
            read: Reads the body.
            begin: The number of bytes that are there already.
            seconds: The longest time of a try.
        """
        failures, is_new = 0, False  # whether the login has not been used yet: tokens end, also within a layer
        while True:
            wanted = {**headers, **self._headers, **({"Range": f"bytes={begin()}-"} if begin() else {})}
            try:
                async with asyncio.timeout(seconds), self._opened(URL(url), wanted) as response:
                    is_own = response.url.origin() == URL(url).origin()  # not a host that it redirects to
                    if response.status == 401 and is_own and not is_new:
                        await self._log_in(response.headers.get("WWW-Authenticate", ""))
                        is_new = True
                        continue
                    if response.status < 300:
                        await read(response)
                        return
                    said = f"it answers {response.status} to {url.partition('/v2/')[2]}"
                    if response.status in (401, 403):
                        raise _Refused(f"it refuses access ({response.status}): {self._advice}")
                    if response.status == 404:
                        raise _Refused("it has no such image, or the image is private")
                    if response.status != 429 and response.status < 500:
                        raise _Refused(said)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    raise
                said = str(error) or type(error).__name__
            failures, is_new = failures + 1, False
            if failures == _TRIES:
                raise _Unreachable(f"it cannot be reached ({said})")
            await asyncio.sleep(min(_PAUSE_SECONDS * 2**failures, _LONGEST_PAUSE))

    @contextlib.asynccontextmanager
    async def _opened(self, url: URL, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and follow redirections: without the login on other hosts, and never out of encryption."""
        own, may_be_plain = url.origin(), self._reference.url.startswith("http://")
        for _ in range(_MOST_REDIRECTS):
            if url.scheme != "https" and not (url.scheme == "http" and may_be_plain and is_loopback(url.host or "")):
                raise _Refused(f"it leads to an address without encryption ({url.scheme}://{url.host})")
            wanted = {name: value for name, value in headers.items() if name != "Authorization" or url.origin() == own}
            async with self._session.get(url, headers=wanted, proxy=_proxy(url), allow_redirects=False) as response:
                if response.status not in (301, 302, 303, 307, 308) or "Location" not in response.headers:
                    yield response
                    return
                url = url.join(URL(response.headers["Location"]))
        raise _Refused(f"it redirects more than {_MOST_REDIRECTS} times")

    async def _log_in(self, challenge: str) -> None:
        """Answer a challenge: with the user's login, or with a token, which most images need no login for."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            if self._login is None:
                raise _Refused(f"it wants a login: {self._advice}")
            self._headers = {"Authorization": self._login}
            return
        given = dict(_PARAMETER.findall(rest))
        realm = URL(given.get("realm", ""))
        if kind.lower() != "bearer" or realm.scheme not in ("http", "https") or realm.user or realm.password:
            raise _Refused("it asks for a login in a way that is unknown here")
        params = {name: given[name] for name in ("service",) if name in given}
        params["scope"] = given.get("scope") or f"repository:{self._reference.repository}:pull"
        headers = {"Authorization": self._login} if self._login else {}
        async with self._opened(realm.update_query(params), headers) as response:
            text = await _small(response)
            if response.status in (400, 401, 403):
                raise _Refused(f"it refuses the login ({response.status}): {self._advice}")
            if response.status >= 300:
                raise aiohttp.ClientError(f"its server of tokens answers {response.status}")
        answer = json.loads(text)
        token = answer.get("token") or answer["access_token"]
        add_secrets({str(token)})
        self._headers = {"Authorization": f"Bearer {token}"}


class _Progress:
    """Writes to stderr how much has been downloaded, once a download takes longer than two seconds."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, total, 0
        self._next = time.monotonic() + _PATIENCE_SECONDS

    def add(self, count: int) -> None:
        """Count bytes."""
        self._done += count
        if (now := time.monotonic()) >= self._next:
            self._next = now + _LINE_SECONDS
            print(f"Pulling {self._name}: {self._done >> 20:,} of {self._total >> 20:,} MiB", file=sys.stderr)


async def _small(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of an answer that is not a layer."""
    try:
        return await read_bounded(response.content, _DOCUMENT_BYTES)
    except AnswerTooLong:
        raise _Refused(f"a document has more than {_DOCUMENT_BYTES >> 20} MiB") from None


def _proxy(url: URL) -> str | None:
    """Return the proxy that the environment has for an address; it has none for loopback."""
    if is_loopback(url.host or "") or urllib.request.proxy_bypass(f"{url.host}:{url.port}"):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _checked(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest.

    Raises:
        _Refused: If it is invalid.
    """
    if len(manifest["layers"]) > image_archive.MOST_LAYERS:
        raise _Refused(f"the image has more than {image_archive.MOST_LAYERS} layers")
    parts = (manifest["config"], *manifest["layers"])
    digests, sizes = [manifest["digest"], *(part["digest"] for part in parts)], [part["size"] for part in parts]
    has_sizes = all(type(size) is int and 0 <= size < _LARGEST_LAYER for size in sizes)
    if not has_sizes or not all(map(DIGEST.fullmatch, digests)):
        raise _Refused("its manifest is invalid")
    return manifest


def _read_note(path: Path) -> dict[str, Any]:
    """Return the manifest that a name had last; an empty one if it is missing or damaged."""
    with contextlib.suppress(_Refused, *image_archive.NO_IMAGE):
        return _checked(json.loads(path.read_text("utf-8")))
    return {}


def _identity(digest: str) -> str:
    return json.dumps(["layer", 1, digest])


def _unpack(
    cache: ImageCache,
    identity: str,
    manifest: dict[str, Any],
    config: bytes,
    layers: Mapping[str, Path],
    stopped: threading.Event,
) -> None:
    """Unpack an image into the cache, as an OCI layout of links to its layers."""
    with tempfile.TemporaryDirectory(prefix="gym_llm-image-") as folder:
        blobs = Path(folder, "blobs", "sha256")
        blobs.mkdir(parents=True)
        document = json.dumps({"config": manifest["config"], "layers": manifest["layers"]}).encode()
        own = hashlib.sha256(document).hexdigest()
        for digest, text in ((f"sha256:{own}", document), (manifest["config"]["digest"], config)):
            (blobs / digest.partition(":")[2]).write_bytes(text)
        for digest, path in layers.items():
            (blobs / digest.partition(":")[2]).symlink_to(path)
        index = {"manifests": [{"digest": f"sha256:{own}"}]}
        Path(folder, "index.json").write_text(json.dumps(index))
        Path(folder, "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        cache.unpacked(identity, folder, stopped)
