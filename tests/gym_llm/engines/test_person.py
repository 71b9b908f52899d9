"""The engine that is a person: a page shows what waits, and what is typed there is the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from testing import in_loop

from gym_llm.engines import make_engine
from gym_llm.engines.person import PersonEngine
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.rollouts.play import rollout

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
REQUEST: Any = {"input": [{"role": "user", "content": "<b>Hello</b>"}], "tools": TOOLS}


async def waiting(client: aiohttp.ClientSession, engine: PersonEngine, count: int = 1) -> list[Any]:
    while len(found := await (await client.get(f"{engine.page.url}/waiting")).json()) < count:
        await asyncio.sleep(0.01)
    return found


@in_loop
async def test_what_a_person_types_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    engine: Any = make_engine("person")
    async with engine, aiohttp.ClientSession() as client:
        answers = [asyncio.ensure_future(engine.respond(REQUEST)) for _ in range(2)]
        shown = await waiting(client, engine, 2)
        assert shown[0]["said"] == [{"role": "user", "text": "<b>Hello</b>"}] and "look" in shown[0]["tools"][0]
        for number, text in ((2, "Hi."), (1, '/call look {"x": 1}')):
            done = await client.post(f"{engine.page.url}/answer", json={"number": number, "text": text})
            assert await done.json() == {"answered": number}
        called, said = [(await answer)["output"] for answer in answers]
        assert said[0]["content"][0]["text"] == "Hi."
        assert {name: called[0][name] for name in ("type", "name", "arguments")} == {
            **{"type": "function_call", "name": "look", "arguments": '{"x": 1}'}
        }
        for body, status in (({"number": 1, "text": "x"}, 410), ({"number": "1"}, 400), ([], 400)):
            assert (await client.post(f"{engine.page.url}/answer", json=body)).status == status
        page = await client.get(f"{engine.page.url}/")
        assert "person.js" in await page.text() and "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert (await client.get(f"{engine.page.url}/waiting", headers={"Host": "evil.example"})).status == 403
    assert f"A person is asked to answer: {engine.page.url}/" in capsys.readouterr().err


@in_loop
async def test_no_answer_in_time_and_a_closed_page_are_errors() -> None:
    async with PersonEngine("0", answer_timeout=0.05) as quick:
        with pytest.raises(EngineError, match=r"has not answered in 0\.05 seconds"):
            await quick.respond(REQUEST)
    engine = PersonEngine("0")
    await engine.start()
    answer = asyncio.ensure_future(engine.respond(REQUEST))
    await asyncio.sleep(0.01)
    await engine.aclose()
    with pytest.raises(EngineError, match="The page was closed"):
        await answer


def test_wrong_ports_are_refused() -> None:
    for spec in ("person:x", "person:70000"):
        with pytest.raises(ValueError, match="a port from 0 to 65535"):
            make_engine(spec)


@in_loop
async def test_a_port_that_is_taken_is_named() -> None:
    async with PersonEngine("0") as first:
        with pytest.raises(EngineUnavailable, match="cannot be served"):
            await PersonEngine(str(first.page.port)).start()


@in_loop
async def test_a_person_plays_a_seat_among_models() -> None:
    engine = PersonEngine("0")
    async with engine, aiohttp.ClientSession() as client:

        async def type_bets() -> None:
            while True:
                for request in await waiting(client, engine):
                    assert "player_0" in request["said"][1]["text"]
                    body = {"number": request["number"], "text": "bet"}
                    await client.post(f"{engine.page.url}/answer", json=body)

        person = asyncio.ensure_future(type_bets())
        options = {"opponents": {"player_1": "constant:bet"}}
        records = [one async for one in rollout("gym_llm/KuhnPoker-v0", engine, env_kwargs=options, episodes=3)]
        person.cancel()
    assert [abs(record["reward"] or 0.0) for record in records] == [2.0] * 3
