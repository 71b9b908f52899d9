"""Images from a registry: names, tokens, logins, layers that are shared, and what a hostile or broken one comes to."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from image_files import PASSWORD, TOKEN, Change, Registry, Short, layer, member, running
from testing import in_loop, serving

from gym_llm.errors import UsageError
from gym_llm.sandbox.machines import registry
from gym_llm.sandbox.machines.image_names import Reference, parse_reference
from gym_llm.sandbox.machines.machine_pool import Machines
from gym_llm.sandbox.machines.registry import pull
from gym_llm.sandbox.machines.rootfs import ImageCache

LAYERS = [layer(member("a", b"1"), member("b", b"2")), layer(member("c", b"3"), member("b", b"4"))]


pytestmark = pytest.mark.usefixtures("quick_registry")


def content(folder: str) -> dict[str, bytes]:
    return {name: Path(folder, name).read_bytes() for name in "abc"}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("python", ("docker.io", "library/python", "latest")),
        ("owner/name:1.2", ("docker.io", "owner/name", "1.2")),
        ("docker.io/python:3", ("docker.io", "library/python", "3")),
        ("ghcr.io/a/b/c:v1", ("ghcr.io", "a/b/c", "v1")),
        ("localhost:5000/a", ("localhost:5000", "a", "latest")),
        ("GHCR.io/a/b", ("ghcr.io", "a/b", "latest")),
        ("Docker.io/python", ("docker.io", "library/python", "latest")),
        ("index.docker.io/library/python", ("docker.io", "library/python", "latest")),
        ("index.docker.io/python:3", ("docker.io", "library/python", "3")),
        (f"quay.io/a/b:1@sha256:{'0' * 64}", ("quay.io", "a/b", f"sha256:{'0' * 64}")),
    ],
)
def test_names_are_read_as_docker_reads_them(name: str, read: tuple[str, str, str]) -> None:
    assert parse_reference(name) == Reference(*read)


@pytest.mark.parametrize(
    "name", ["", "A/b", "a b", "a/../b", "a:b c", "ghcr.io/a@sha256:1", "ghcr.io/", "a//b", "x.y/../../v3:1", "a?b:1"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of an image"):
        parse_reference(name)


def test_loopback_speaks_http_and_nothing_else_does() -> None:
    assert parse_reference("localhost:5000/a").url == "http://localhost:5000/v2/a"
    assert parse_reference("127.0.0.1.evil.com/a").url == "https://127.0.0.1.evil.com/v2/a"
    assert parse_reference("python").url == "https://registry-1.docker.io/v2/library/python"


@pytest.mark.parametrize("auth", ["", "bearer", "basic"])
@pytest.mark.parametrize("compression", ["tar", "tar+gzip", "tar+zstd"])
@in_loop
async def test_an_image_is_pulled_once_by_tag_and_by_digest(
    auth: str, compression: str, cache: ImageCache, tmp_path: Path
) -> None:
    log_in(tmp_path, auth)
    async with running(Registry(LAYERS, compression=compression, auth=auth)) as own:
        if auth == "basic":
            log_in(tmp_path, auth, own.name.partition("/")[0])
        image = await pull(f"{own.name}:1", cache)
        assert content(image.folder) == {"a": b"1", "b": b"4", "c": b"3"}
        assert (image.environment["COLOUR"], image.workdir, image.user) == ("red", "/work", "nobody")
        own.asked.clear()
        (index,) = json.loads(own.files["index.json"])["manifests"]
        assert (await pull(f"{own.name}@{index['digest']}", cache)).folder == image.folder
        assert not [path for path in own.asked if path.startswith("blobs/")]
    assert (await pull(f"{own.name}:1", cache)).folder == image.folder  # the registry has ended
    with pytest.raises(UsageError, match="cannot be reached"):
        await pull(f"{own.name}:2", cache)


def log_in(tmp_path: Path, auth: str, host: str = "") -> None:
    """Do what `docker login` does."""
    if auth != "basic" or not host:
        return
    (tmp_path / "docker").mkdir(exist_ok=True)
    login = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    (tmp_path / "docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": login}}}))


@in_loop
async def test_a_login_goes_where_a_token_is_made_and_nowhere_else(cache: ImageCache, tmp_path: Path) -> None:
    elsewhere: list[str | None] = []

    async def other(request: web.Request) -> web.Response:
        elsewhere.append(request.headers.get("Authorization"))
        return web.Response(body=own.blobs()[request.path[1:]])

    async with serving({"/{path:.*}": other}) as storage:

        def change(request: web.Request, data: bytes) -> web.Response | None:
            digest = request.path.rpartition("/")[2]
            is_blob = "/blobs/" in request.path
            return web.Response(status=307, headers={"Location": f"{storage}/{digest}"}) if is_blob else None

        async with running(Registry(LAYERS, auth="bearer", change=change)) as own:
            log_in(tmp_path, "basic", own.name.partition("/")[0])
            assert content((await pull(f"{own.name}:1", cache)).folder)["c"] == b"3"
    assert own.logins == [f"Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}"]
    assert elsewhere == [None] * 3


@in_loop
async def test_images_share_layers_and_many_pulls_at_once_download_each_once(cache: ImageCache) -> None:
    asked: list[str] = []

    def change(request: web.Request, data: bytes) -> None:
        asked.append(request.path.rpartition("/")[2])

    more = [*LAYERS, layer(member("d", b"5"))]
    pair = Registry(LAYERS, "tar", change=change), Registry(more, "tar", change=change)
    async with running(pair[0]) as one, running(pair[1]) as two:
        images = await asyncio.gather(*(pull(f"{own.name}:1", cache) for own in (one, two, one, two)))
    folders = [image.folder for image in images]
    assert folders[:2] == folders[2:] and folders[0] != folders[1]
    assert content(folders[1])["b"] == b"4" and Path(folders[1], "d").read_bytes() == b"5"
    layers = {digest for digest, data in two.blobs().items() if data in more}
    assert [asked.count(digest) for digest in layers] == [1, 1, 1]


@in_loop
async def test_a_download_that_is_cut_off_goes_on_where_it_was(cache: ImageCache) -> None:
    ranges: list[str | None] = []
    large = [layer(member("a", bytes(range(256)) * 20_000), member("b"), member("c"))]

    def change(request: web.Request, data: bytes) -> web.Response | None:
        if len(data) < 1_000_000:
            return None
        ranges.append(given := request.headers.get("Range"))
        begin = int(given[6:-1]) if given else 0
        part = data[begin : begin + 2_000_000]
        headers = {"Content-Length": str(len(data) - begin)}
        status = 206 if given else 200
        return (
            Short(body=part, status=status, headers=headers)
            if len(part) == 2_000_000
            else web.Response(body=part, status=status)
        )

    async with running(Registry(large, "tar", change=change)) as own:
        image = await pull(f"{own.name}:1", cache)
    assert Path(image.folder, "a").read_bytes() == bytes(range(256)) * 20_000
    assert len(ranges) == 3 and ranges[0] is None and ranges[2] is not None


def elsewhere(request: web.Request, data: bytes) -> web.Response | None:
    return web.Response(body=data + b" ") if "/blobs/" in request.path else None


def other_manifest(request: web.Request, data: bytes) -> web.Response | None:
    return web.Response(body=data + b" ") if "/manifests/sha256" in request.path else None


def damaged(request: web.Request, data: bytes) -> web.Response | None:
    return web.Response(body=data[:-1] + bytes([data[-1] ^ 1])) if "/blobs/" in request.path else None


def endless(request: web.Request, data: bytes) -> web.Response:
    return web.Response(body=b"x" * (5 << 20))


def refused(request: web.Request, data: bytes) -> web.Response:
    return web.Response(status=403)


def broken(request: web.Request, data: bytes) -> web.Response:
    return web.Response(status=503)


def odd(document: Any) -> Change:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return lambda request, data: web.Response(body=text)


HUGE = {"digest": f"sha256:{'0' * 64}", "size": 1 << 60}
SMALL = {"digest": f"sha256:{hashlib.sha256(b'').hexdigest()}", "size": 0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (elsewhere, "is larger than|has another digest"),
        (other_manifest, "has another digest"),
        (damaged, "has another digest"),
        (endless, "more than 4 MiB"),
        (refused, r"refuses access \(403\): `docker login 127"),
        (broken, "cannot be reached .*503"),
        (odd(b"<html>"), "Expecting value"),
        (odd([]), "cannot be pulled"),
        (odd({}), "it has no 'layers'"),
        (odd({"manifests": []}), "no images for"),
        (odd({"manifests": [{"digest": "../../etc"}]}), "its index is invalid"),
        (odd({"config": SMALL, "layers": [HUGE]}), "no room"),
        (odd({"config": SMALL, "layers": [{**SMALL, "size": -1}]}), "its manifest is invalid"),
        (odd({"config": SMALL, "layers": [{**SMALL, "digest": "sha256:../x"}]}), "its manifest is invalid"),
        (odd({"config": SMALL, "layers": [SMALL] * 501}), "more than 500 layers"),
        (odd({"config": SMALL, "layers": [{**SMALL, "size": 10**400}]}), "its manifest is invalid"),
        (odd({"config": SMALL, "layers": [{**SMALL, "size": True}]}), "its manifest is invalid"),
        (odd({"config": SMALL, "layers": None}), "a document in it is invalid"),
        (odd({"config": "x", "layers": "y"}), "a document in it is invalid"),
        (odd(b'{"layers": ' + b"[" * 100_000), "nested too deeply"),
    ],
)
@in_loop
async def test_a_hostile_or_broken_registry_is_one_sentence_and_leaves_nothing(
    change: Change, said: str, cache: ImageCache
) -> None:
    async with running(Registry(LAYERS, change=change)) as own:
        with pytest.raises(UsageError, match=said) as refusal:
            await pull(f"{own.name}:1", cache)
    assert str(refusal.value).startswith(f"{own.name}:1 cannot be pulled from 127.0.0.1:")
    left = [path.name for path in cache.folder.iterdir()] if cache.folder.exists() else []
    assert not [name for name in left if not name.endswith(".lock")]


@in_loop
async def test_a_wrong_login_is_shown_nowhere(
    cache: ImageCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Registry(LAYERS, auth="basic")) as own:
        (tmp_path / "docker").mkdir()
        login = base64.b64encode(f"you:{PASSWORD}".encode()).decode()
        config = {"auths": {own.name.partition("/")[0]: {"auth": login}}}
        (tmp_path / "docker" / "config.json").write_text(json.dumps(config))
        with pytest.raises(UsageError, match=r"refuses access \(401\)") as refusal:
            await pull(f"{own.name}:1", cache)
    assert PASSWORD not in str(refusal.value) + caplog.text and login not in str(refusal.value) + caplog.text


@in_loop
async def test_machines_pull_what_has_no_image_from_registries_that_are_allowed(tmp_path: Path) -> None:
    async with running(Registry(LAYERS)) as own:
        host = own.name.partition("/")[0]
        machines = Machines(cache=str(tmp_path / "cache"), registries=[host])
        image = await machines.image(f"{own.name}:1")
        assert (image.name, content(image.folder)["c"]) == (f"{own.name}:1", b"3")
        own.asked.clear()
        assert await machines.image(f"{own.name}:1") == image and own.asked == []
        machines.close()
        machines = Machines(cache=str(tmp_path / "cache"))
        with pytest.raises(UsageError, match=f"There is no image .*have '{host}' among the `registries`"):
            await machines.image(f"{own.name}:1")
        machines.close()


@pytest.mark.parametrize(
    "realm", ["http://example.org/token", "http://127.0.0.1:80@example.org/", "https://me@example.org/", "file:///etc"]
)
@in_loop
async def test_a_login_never_goes_unencrypted_over_a_network(realm: str, cache: ImageCache, tmp_path: Path) -> None:
    def change(request: web.Request, data: bytes) -> web.Response:
        return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="{realm}"'})

    async with running(Registry(LAYERS, change=change)) as own:
        log_in(tmp_path, "basic", own.name.partition("/")[0])
        with pytest.raises(UsageError, match=r"without encryption|unknown here"):
            await pull(f"{own.name}:1", cache)


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(1000):
        await response.write(b"x")
        await asyncio.sleep(0.01)
    return response


@in_loop
async def test_a_registry_that_sends_little_by_little_is_given_up(
    cache: ImageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry._Registry._get, "__defaults__", (lambda: 0, 0.1))
    async with serving({"/v2/{path:.*}": drip}) as url:
        with pytest.raises(UsageError, match="cannot be reached"):
            await asyncio.wait_for(pull(f"{url.partition('://')[2]}/a:1", cache), 5)


@in_loop
async def test_a_pull_that_is_cancelled_leaves_nothing(cache: ImageCache) -> None:
    begun = asyncio.Event()

    def change(request: web.Request, data: bytes) -> web.Response | None:
        if data not in LAYERS:
            return None
        begun.set()
        return Short(body=b"", headers={"Content-Length": str(len(data))})

    async with running(Registry(LAYERS, "tar", change=change)) as own:
        pulling = asyncio.create_task(pull(f"{own.name}:1", cache))
        await begun.wait()
        pulling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulling
        async with asyncio.timeout(20):
            while [path for path in cache.folder.iterdir() if path.is_dir()] or [
                thread for thread in threading.enumerate() if thread.name.startswith("gym_llm-pull")
            ]:
                await asyncio.sleep(0.05)


@in_loop
async def test_a_challenge_of_another_host_is_not_answered(cache: ImageCache, tmp_path: Path) -> None:
    async def other(request: web.Request) -> web.Response:
        return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="{storage}/token"'})

    asked: list[str] = []

    async def token(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"token": TOKEN})

    async with serving({"/token": token, "/{path:.*}": other}) as storage:

        def change(request: web.Request, data: bytes) -> web.Response:
            return web.Response(status=307, headers={"Location": f"{storage}/x"})

        async with running(Registry(LAYERS, change=change)) as own:
            log_in(tmp_path, "basic", own.name.partition("/")[0])
            with pytest.raises(UsageError, match=r"refuses access \(401\)"):
                await pull(f"{own.name}:1", cache)
    assert asked == []


def test_one_who_looks_for_an_entry_keeps_nobody_from_making_it(cache: ImageCache) -> None:
    assert cache.find("x") is None
    other = ImageCache(str(cache.folder))
    made = threading.Thread(target=lambda: other.entry("x", lambda target: None), daemon=True)
    made.start()
    made.join(10)
    assert not made.is_alive() and cache.find("x") is not None
