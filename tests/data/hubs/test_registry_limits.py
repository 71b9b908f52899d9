"""A model registry that answers without end: with one body, with one refusal, or with page after page."""

import asyncio
import threading

import pytest
from aiohttp import web

from gym_llm.data.hubs.gitlab import ModelRegistry
from gym_llm.errors import DataError, Refused
from gym_llm.utils.limits import HUB_BYTES


class Endless:
    """Serves MLflow's API on loopback, in a thread; `sent` are the bytes that were handed over."""

    def __init__(self):
        self.sent = self.pages = 0
        self._loop = asyncio.new_event_loop()

    def __enter__(self):
        started = threading.Event()

        async def start():
            app = web.Application()
            app.add_routes(
                [
                    web.get("/body/api/2.0/mlflow/registered-models/search", self.body),
                    web.get("/refusal/api/2.0/mlflow/registered-models/search", self.refusal),
                    web.get("/pages/api/2.0/mlflow/registered-models/search", self.page),
                ]
            )
            self._runner = web.AppRunner(app, shutdown_timeout=1)
            await self._runner.setup()
            site = web.TCPSite(self._runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
            started.set()

        def serve():
            self._loop.run_until_complete(start())
            self._loop.run_forever()
            self._loop.run_until_complete(self._runner.cleanup())
            self._loop.close()

        self._thread = threading.Thread(target=serve)
        self._thread.start()
        assert started.wait(20)
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def body(self, request):
        return await self._stream(request, 200)

    async def refusal(self, request):
        return await self._stream(request, 500)

    async def page(self, request):
        self.pages += 1
        return web.json_response({"registered_models": [], "next_page_token": "on"})

    async def _stream(self, request, status):
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for _ in range(1_000):
            await response.write(b'{"message": "' + b"x" * 100_000)
            self.sent += 100_000
        return response


@pytest.fixture(scope="module")
def server():
    with Endless() as server:
        yield server


def test_a_body_without_end_is_read_up_to_the_limit(server, monkeypatch):
    monkeypatch.setenv(HUB_BYTES, "1000000")
    with pytest.raises(DataError, match=rf"more than 0\.954 MiB .*{HUB_BYTES} raises"):
        ModelRegistry(f"{server.url}/body").list_datasets()
    assert server.sent < 50_000_000


def test_of_a_refusal_only_the_beginning_is_read(server):
    before = server.sent
    with pytest.raises(Refused, match="500"):
        ModelRegistry(f"{server.url}/refusal").list_datasets()
    assert server.sent - before < 50_000_000


def test_pages_without_end_end(server, monkeypatch):
    monkeypatch.setenv(HUB_BYTES, "100000")
    with pytest.raises(DataError, match=HUB_BYTES):
        ModelRegistry(f"{server.url}/pages").list_datasets()
    assert server.pages < 40
