"""Answers of servers are read up to a limit, however they come."""

from __future__ import annotations

import gzip

import aiohttp
import pytest
from aiohttp import web
from testing import in_loop, serving

from gym_llm.protocols.http.answers import AnswerTooLong, read_bounded


@pytest.mark.parametrize(("size", "most"), [(0, 10), (10, 10), (11, 10), (900_000, 100_000)])
@in_loop
async def test_a_body_is_read_up_to_its_limit(size: int, most: int) -> None:
    async def whole(request: web.Request) -> web.Response:
        return web.Response(body=bytes(size))

    async def pieces(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for begin in range(0, size, 7 if size < 100 else 50_000):
            await response.write(bytes(min(size - begin, 7 if size < 100 else 50_000)))
        return response

    async def packed(request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(bytes(size)), headers={"Content-Encoding": "gzip"})

    async with (
        serving({"/whole": whole, "/pieces": pieces, "/packed": packed}) as url,
        aiohttp.ClientSession() as client,
    ):
        for path in ("whole", "pieces", "packed"):
            async with client.get(f"{url}/{path}") as response:
                assert await read_bounded(response.content, most, cut=True) == bytes(min(size, most))
            async with client.get(f"{url}/{path}") as response:
                if size <= most:
                    assert await read_bounded(response.content, most) == bytes(size)
                else:
                    with pytest.raises(AnswerTooLong):
                        await read_bounded(response.content, most)
