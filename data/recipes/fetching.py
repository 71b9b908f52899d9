"""Fetching raw files: from the Hugging Face hub, or from a URL."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gym_llm.data.files.raw_files import check_size, read_raw
from gym_llm.data.recipes.recipe import EVERY, Source
from gym_llm.errors import DataError, Refused, UsageError
from gym_llm.types import Row
from gym_llm.utils.extras import install
from gym_llm.version import __version__

if TYPE_CHECKING:
    from gym_llm.data.hubs.huggingface import Hub

MIRROR = "GYM_LLM_MIRROR"
"""Names a server that has the files of URLs: `https://HOST/PATH` is read from `MIRROR/HOST/PATH`."""

_CHUNK = 1 << 20
_SECONDS = 60.0
_SLOWEST = 1_000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Fetched:
    """A load's files.

    Attributes:
        source: The load.
        revision: The commit on the hub; the files' digest for a URL.
        files: Each file's name and path.
        digests: Each file's SHA-256, by name.
    """

    source: Source
    revision: str
    files: list[tuple[str, Path]]
    digests: dict[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """The raw rows, file by file."""
        for name, path in self.files:
            yield from read_raw(path, name=name, **self.source.form)


def expanded(sources: Sequence[Source], revisions: Mapping[str, str]) -> Iterator[Source]:
    """The loads, one of every configuration of a dataset in the place of `config="*"`.

    Args:
        sources: The loads.
        revisions: The commits to read instead of the newest, by repository.
    """
    for source in sources:
        if source.config != EVERY:
            yield source
            continue
        for name in _hub().config_names(source.place, source.revision or revisions.get(source.place)):
            yield replace(source, config=name, label=name)


@contextmanager
def fetched(source: Source, revision: str | None = None) -> Iterator[Fetched]:
    """Fetch a load's files; those of a URL are removed at the end of the block.

    Args:
        source: The load.
        revision: The commit to read instead of the newest.

    Raises:
        DataError: If the files cannot be fetched. What the hub says about terms and tokens is in the message.
    """
    if source.is_url:
        with tempfile.TemporaryDirectory(prefix="gym-llm-") as folder:
            name = source.files[0] if source.files else Path(urlsplit(source.place).path).name
            path = Path(folder, "download")
            digest = _download(source.place, path)
            yield Fetched(source, f"sha256:{digest}", [(name, path)], {name: digest})
        return
    sha, files = _hub_files(source, source.revision or revision)
    digests = {}
    for name, path in files:
        check_size(name, path.stat().st_size)
        with open(path, "rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    yield Fetched(source, sha, files, digests)


def _hub() -> Hub:
    try:
        from gym_llm.data.hubs.huggingface import Hub
    except ModuleNotFoundError as error:
        raise DataError(f"Hugging Face needs {error.name}: {install('data')}.") from None
    return Hub()


def _hub_files(source: Source, revision: str | None) -> tuple[str, list[tuple[str, Path]]]:
    try:
        return _hub().fetch_files(
            source.place, config=source.config, split=source.split, files=source.files, revision=revision
        )
    except Refused as error:
        if error.status in (401, 403, 404):
            page = f"https://huggingface.co/datasets/{source.place}"
            raise DataError(
                f"{source.place} is gated or not found ({error.status}): accept its terms at {page}, and set HF_TOKEN."
            ) from None
        raise


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows ten redirects at most, and none from https to http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DataError(f"{req.full_url} leads to {newurl}, which is not encrypted.")
        if not newurl.startswith(("http:", "https:")):
            raise DataError(f"{req.full_url} leads to {newurl}, which is not fetched.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def _progress(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal; yields a function to call with each number of bytes."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda size: bar.advance(task, size)


def _download(url: str, path: Path) -> str:
    """Download a URL to a file, and return the SHA-256."""
    address = url
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise Refused(f"{url} is not fetched, because HF_HUB_OFFLINE is set.", 0)
    if mirror := os.environ.get(MIRROR):
        if not mirror.startswith(("http://", "https://")):
            raise UsageError(f"{MIRROR} is an address, http://HOST or https://HOST, got {mirror!r}.")
        parts = urlsplit(url)
        address = f"{mirror.rstrip('/')}/{parts.netloc}{parts.path}"
    elif url.startswith("http://") and urlsplit(url).hostname not in _LOOPBACK:
        raise DataError(f"{url} is not encrypted: only https:// is fetched.")
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        _NoDowngrade(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(address, headers={"User-Agent": f"gym_llm/{__version__}"})
    digest, size = hashlib.sha256(), 0
    try:
        with opener.open(request, timeout=_SECONDS) as response, open(path, "wb") as file:
            declared = response.headers.get("Content-Length", "")
            if declared.isdecimal():
                check_size(url, int(declared))
            with _progress(Path(urlsplit(url).path).name, int(declared) if declared.isdecimal() else None) as advance:
                started = time.monotonic()
                while chunk := response.read1(_CHUNK):
                    size += len(chunk)
                    if (seconds := time.monotonic() - started) > _SECONDS and size < _SLOWEST * seconds:
                        raise Refused(f"{url} sends less than {_SLOWEST:,} bytes per second.", 0)
                    check_size(url, size)
                    digest.update(chunk)
                    file.write(chunk)
                    advance(len(chunk))
            if declared.isdecimal() and size != int(declared):
                raise DataError(f"{url} broke off after {size:,} of {int(declared):,} bytes.")
    except urllib.error.HTTPError as error:
        what = "leads round in a circle" if error.code in (301, 302, 303, 307, 308) else f"answers {error.code}"
        raise Refused(f"{url} {what}.", error.code) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise Refused(f"{url} could not be read: {getattr(error, 'reason', None) or error}.", 0) from None
    return digest.hexdigest()
