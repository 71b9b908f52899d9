"""Images from registries that are broken or hostile: tokens that end, redirections, proxies and damaged notes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from image_files import Registry, Short, layer, member, running
from testing import in_loop, serving
from yarl import URL

from gym_llm.errors import UsageError
from gym_llm.sandbox.machines import registry
from gym_llm.sandbox.machines.image_names import parse_reference
from gym_llm.sandbox.machines.registry import pull
from gym_llm.sandbox.machines.rootfs import ImageCache

LAYERS = [layer(member("a", b"1"))]
LARGE = [layer(member("a", bytes(range(256)) * 8_000))]


pytestmark = pytest.mark.usefixtures("quick_registry")


def challenge(realm: str) -> web.Response:
    return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="{realm}"'})


class Tokens:
    """A server of tokens: each ends when the next is made, or with `end`."""

    def __init__(self, *failures: int) -> None:
        self.made, self.valid, self.failures = 0, "", list(failures)

    async def answer(self, request: web.Request) -> web.Response:
        self.made += 1
        if self.failures:
            return web.Response(status=self.failures.pop(0))
        self.valid = f"token-number-{self.made}"
        return web.json_response({"token": self.valid})

    def end(self) -> None:
        self.valid = ""

    def allow(self, request: web.Request) -> bool:
        return bool(self.valid) and request.headers.get("Authorization") == f"Bearer {self.valid}"


@pytest.mark.parametrize("status", [429, 503])
@in_loop
async def test_a_busy_server_of_tokens_is_asked_again(status: int, cache: ImageCache) -> None:
    tokens = Tokens(status, status)
    async with serving({"/token": tokens.answer}) as url:

        def change(request: web.Request, data: bytes) -> web.Response | None:
            return None if tokens.allow(request) else challenge(f"{url}/token")

        async with running(Registry(LAYERS, change=change)) as own:
            assert Path((await pull(f"{own.name}:1", cache)).folder, "a").read_bytes() == b"1"
            tokens.end()
            tokens.failures = [status] * 100
            asked = tokens.made
            with pytest.raises(UsageError, match=f"cannot be reached .*tokens answers {status}"):
                await pull(f"{own.name}:1", ImageCache(f"{cache.folder}-2"))
    assert tokens.made == asked + 5


@in_loop
async def test_a_token_that_ends_again_and_again_within_a_layer_is_renewed(cache: ImageCache) -> None:
    tokens, parts = Tokens(), [4]
    async with serving({"/token": tokens.answer}) as url:

        def change(request: web.Request, data: bytes) -> web.Response | None:
            if not tokens.allow(request):
                return challenge(f"{url}/token")
            if len(data) < 100_000:
                return None
            begin = int(request.headers.get("Range", "bytes=0-")[6:-1])
            status, parts[0] = 206 if begin else 200, parts[0] - 1
            if not parts[0]:
                return web.Response(body=data[begin:], status=status)
            tokens.end()
            headers = {"Content-Length": str(len(data) - begin)}
            return Short(body=data[begin : begin + 100_000], status=status, headers=headers)

        async with running(Registry(LARGE, "tar", change=change)) as own:
            image = await pull(f"{own.name}:1", cache)
    assert Path(image.folder, "a").read_bytes() == bytes(range(256)) * 8_000 and tokens.made == 4


@in_loop
async def test_a_registry_that_accepts_no_token_is_not_asked_without_end(cache: ImageCache) -> None:
    tokens = Tokens()
    async with serving({"/token": tokens.answer}) as url, running(Registry(LAYERS)) as own:
        own.change = lambda request, data: challenge(f"{url}/token")
        with pytest.raises(UsageError, match="refuses access"):
            await pull(f"{own.name}:1", cache)
    assert tokens.made == 1


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("default login other password of-another-program\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.mark.usefixtures("netrc")
@in_loop
async def test_loopback_gets_no_login_of_netrc_no_proxy_and_nothing_compressed(
    cache: ImageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    seen: list[tuple[str | None, str | None]] = []

    def change(request: web.Request, data: bytes) -> None:
        seen.append((request.headers.get("Authorization"), request.headers.get("Accept-Encoding")))

    async with running(Registry(LAYERS, change=change)) as own:
        await pull(f"{own.name}:1", cache)
    assert set(seen) == {(None, "identity")}


@pytest.mark.usefixtures("netrc")
@pytest.mark.parametrize("no_proxy", ["", "registry.invalid"])
@in_loop
async def test_a_proxy_of_the_environment_is_used_without_a_login_of_netrc(
    no_proxy: str, cache: ImageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://me:own-password@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", no_proxy)
        with pytest.raises(UsageError, match="cannot be reached"):
            await pull("registry.invalid/a/b:1", cache)
    if no_proxy:
        assert heads == []
    else:
        login = base64.b64encode(b"me:own-password").decode()
        assert len(heads) == 5 and heads[0].startswith("CONNECT registry.invalid:443 ")
        assert f"Proxy-Authorization: Basic {login}" in heads[0] and heads[0].count("Authorization") == 1


def redirected(target: str) -> Callable[[web.Request, bytes], web.Response]:
    return lambda request, data: web.Response(status=307, headers={"Location": target})


@pytest.mark.parametrize(
    "target", ["http://example.org/x", "http://localhost:x@example.org/x", "file:///etc/passwd", "ftp://localhost/x"]
)
@in_loop
async def test_nothing_is_sent_without_encryption(target: str, cache: ImageCache) -> None:
    for change in (redirected(target), lambda request, data: challenge(target)):
        async with running(Registry(LAYERS, change=change)) as own:
            with pytest.raises(UsageError, match=r"without encryption|unknown here"):
                await asyncio.wait_for(pull(f"{own.name}:1", cache), 5)


@in_loop
async def test_an_encrypted_registry_leads_not_even_to_loopback_without_encryption() -> None:
    async with registry._Registry(parse_reference("ghcr.io/a/b")) as session:
        with pytest.raises(registry._Refused, match="without encryption"):
            async with session._opened(URL("http://localhost:1/token"), {}):
                raise AssertionError("a request was sent")


@in_loop
async def test_a_circle_of_redirections_ends(cache: ImageCache) -> None:
    async with running(
        Registry(LAYERS, change=lambda request, data: redirected(str(request.url))(request, data))
    ) as own:
        with pytest.raises(UsageError, match="redirects more than 10 times"):
            await pull(f"{own.name}:1", cache)
    assert len(own.asked) == 10


@in_loop
async def test_a_damaged_note_of_a_tag_hides_no_error(cache: ImageCache) -> None:
    async with running(Registry(LAYERS)) as own:
        await pull(f"{own.name}:1", cache)
    (note,) = cache.folder.glob("tag-*")
    for text in ("", "[]", "{}", '{"digest": 1}', "\0", "[" * 100_000, note.read_text().replace("sha256:", "../")):
        note.write_text(text)
        with pytest.raises(UsageError, match="cannot be reached"):
            await pull(f"{own.name}:1", cache)
