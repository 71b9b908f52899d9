"""Judge: one request for what is asked twice."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer
from testing import ROOT

from gym_llm.engines import Engine, make_engine
from gym_llm.engines.engine_response import overflow_response
from gym_llm.errors import EngineError, JudgeError
from gym_llm.judge import Judge, Params, labels
from gym_llm.judge.cache import MemoryCache
from gym_llm.types import Request, ResponseDict

GREEDY = Params.read({"temperature": 0})
SAMPLED = Params.read({"temperature": 1.0})


class Slow(Engine):
    """Answers when it is told to, and counts."""

    model = "slow"

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked: list[Request] = []
        self.at_once = self.most_at_once = self.cancelled = 0
        self.fails = False

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        self.asked.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once -= 1
        if self.fails:
            raise EngineError("it is down")
        content = [{"type": "output_text", "text": f"answer {len(self.asked)}"}]
        output = [{"type": "message", "role": "assistant", "content": content}]
        return {
            "id": "r",
            "object": "response",
            "created_at": 1.0,
            "model": "m",
            "status": "completed",
            "output": output,
        }


def asks(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_identical_calls_are_one_request_while_it_is_under_way_and_after() -> None:
    async def run() -> None:
        engine = Slow()
        judge = Judge(engine)
        tasks = [asyncio.create_task(judge.ask(asks("a"), GREEDY)) for _ in range(5)]
        other = asyncio.create_task(judge.ask(asks("b"), GREEDY))
        await some_turns()
        engine.go.set()
        answers = await asyncio.gather(*tasks)
        assert len({answer.text for answer in answers}) == 1 and (await other).text != ""
        assert (await judge.ask(asks("a"), GREEDY)) == answers[0]
        assert len(engine.asked) == 2

    asyncio.run(run())


def test_samples_and_what_is_not_greedy_are_asked_for_each_time_unless_asked_otherwise() -> None:
    async def run() -> None:
        engine = Slow()
        engine.go.set()
        judge = Judge(engine)
        for params, sample in ((SAMPLED, 0), (SAMPLED, 0), (GREEDY, 0), (GREEDY, 1), (GREEDY, 1)):
            await judge.ask(asks("a"), params, sample=sample)
        assert len(engine.asked) == 4
        always, never = Judge(engine, cache=True), Judge(engine, cache=False)
        for judge in (always, always, never, never):
            await judge.ask(asks("a"), SAMPLED)
            await judge.ask(asks("a"), GREEDY)
        assert len(engine.asked) == 4 + 2 + 4

    asyncio.run(run())


def test_who_waits_for_the_same_may_be_cancelled_and_the_last_one_ends_the_request() -> None:
    async def run() -> None:
        engine = Slow()
        judge = Judge(engine)
        first, second = (asyncio.create_task(judge.ask(asks("a"), GREEDY)) for _ in range(2))
        await some_turns()
        first.cancel()
        await some_turns()
        assert first.cancelled() and engine.cancelled == 0
        engine.go.set()
        assert (await second).text == "answer 1"

        engine.go.clear()
        both = [asyncio.create_task(judge.ask(asks("b"), GREEDY)) for _ in range(2)]
        await some_turns()
        for task in both:
            task.cancel()
        await some_turns()
        assert engine.cancelled == 1
        engine.go.set()
        assert (await judge.ask(asks("b"), GREEDY)).text == "answer 3"

    asyncio.run(run())


def test_a_failure_is_everybodys_own_and_is_not_kept() -> None:
    async def run() -> None:
        engine = Slow()
        engine.fails = True
        judge = Judge(engine)
        tasks = [asyncio.create_task(judge.ask(asks("a"), GREEDY)) for _ in range(2)]
        await some_turns()
        engine.go.set()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in errors] == [JudgeError] * 2 and errors[0] is not errors[1]
        assert "it is down" in str(errors[0])
        engine.fails = False
        assert (await judge.ask(asks("a"), GREEDY)).text == "answer 2"

    asyncio.run(run())


def test_no_more_requests_at_a_time_than_allowed() -> None:
    async def run() -> None:
        engine = Slow()
        judge = Judge(engine, concurrency=3)
        tasks = [asyncio.create_task(judge.ask(asks(str(number)), GREEDY)) for number in range(20)]
        await some_turns()
        engine.go.set()
        await asyncio.gather(*tasks)
        assert engine.most_at_once == 3 and len(engine.asked) == 20

    asyncio.run(run())


def test_closing_ends_what_is_under_way_with_an_error_not_a_cancellation() -> None:
    async def run() -> None:
        judge = Judge(Slow())
        task = asyncio.create_task(judge.ask(asks("a"), GREEDY))
        await some_turns()
        await judge.aclose()
        with pytest.raises(JudgeError, match="closed"):
            await task

    asyncio.run(run())


def test_memory_forgets_what_was_not_asked_for_longest() -> None:
    cache = MemoryCache(most_characters=10_000)
    for number in range(4):
        cache.put(b"%d" % number, number, 1_500)
    assert cache.get(b"0") == 0
    cache.put(b"4", 4, 1_500)
    assert [cache.get(b"%d" % number) for number in range(5)] == [0, None, 2, 3, 4]
    cache.put(b"huge", "x", 20_000)
    assert cache.get(b"huge") is None


@pytest.fixture
def server() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


@asynccontextmanager
async def http_judge(server: ModelServer, **options: Any) -> AsyncIterator[Judge]:
    async with make_engine(server.url, max_retries=0, timeout=60) as engine:
        judge = Judge(engine, "stub", **options)
        yield judge
        await judge.aclose()


def ask_http(server: ModelServer, *texts: str, **options: Any) -> list[str]:
    async def run() -> list[str]:
        async with http_judge(server, **options) as judge:
            return [answer.text for answer in await asyncio.gather(*(judge.ask(asks(text), GREEDY) for text in texts))]

    return asyncio.run(run())


@pytest.mark.parametrize("failing", [500, 400])
def test_a_server_that_fails_is_a_judge_that_failed(server: ModelServer, failing: int) -> None:
    server.answer = lambda body: failing
    with pytest.raises(JudgeError, match="on strike") as failure:
        ask_http(server, "a")
    assert failure.value.failure_kind == "judge_failed"


def test_an_answer_that_does_not_fit_the_judge_is_not_asked_about_again() -> None:
    class Full(Slow):
        async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
            self.asked.append(request)
            return overflow_response("full")

    async def run() -> None:
        engine = Full()
        with pytest.raises(JudgeError, match="longer than its context") as failure:
            await Judge(engine).ask(asks("a" * 1_000), GREEDY)
        assert failure.value.failure_kind == "judge_unparseable" and len(engine.asked) == 1

    asyncio.run(run())


def test_a_server_that_hangs_is_a_judge_that_failed(server: ModelServer) -> None:
    async def run() -> None:
        async with make_engine(server.url, max_retries=0, timeout=0.2) as engine:
            server.latency = 30
            with pytest.raises(JudgeError, match="No answer within"):
                await Judge(engine).ask(asks("a"), GREEDY)

    asyncio.run(run())


@pytest.mark.parametrize("file", [None, "judge.sqlite"])
def test_an_incomplete_answer_is_not_kept(server: ModelServer, tmp_path: Path, file: str | None) -> None:
    cut: dict[str, Any] = {"message": {"role": "assistant", "content": "[[A=B]]"}, "finish_reason": "length"}
    whole = {**cut, "finish_reason": "stop"}
    parse = labels("[[A=B]]", "[[A!=B]]")

    async def run() -> list[Any]:
        cache_file = None if file is None else str(tmp_path / file)
        async with http_judge(server, cache_file=cache_file) as judge:
            values = []
            for _ in range(2):
                try:
                    values.append((await judge.verdict(asks("a"), parse, GREEDY, retries=0)).value)
                except JudgeError as error:
                    values.append(str(error))
            return values

    server.answer = lambda body: cut
    assert ["cut off at max_output_tokens" in value for value in asyncio.run(run())] == [True, True]
    server.answer = lambda body: whole
    assert asyncio.run(run()) == [True, True] and len(server.bodies) == 3


def test_an_incomplete_answer_is_asked_for_again_and_each_request_is_recorded(server: ModelServer) -> None:
    choices = iter(["length", "stop", "length", "content_filter", "length"])

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": "[[A=B]]"}, "finish_reason": next(choices)}

    server.answer = answer

    async def run() -> None:
        async with http_judge(server) as judge:
            calls: list[dict[str, Any]] = []
            parse = labels("[[A=B]]", "[[A!=B]]")
            assert (await judge.verdict(asks("a"), parse, GREEDY, calls=calls)).value is True
            assert [call["verdict_label"] for call in calls] == [None, "[[A=B]]"]
            assert calls[0]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
            with pytest.raises(JudgeError, match="content filter"):
                await judge.verdict(asks("b"), parse, GREEDY, unparsable=False)
            nemo = await judge.verdict(asks("c"), parse, GREEDY, as_read=str.strip)
            assert nemo.value is True and len(server.bodies) == 5

    asyncio.run(run())


@pytest.mark.slow
def test_answers_outlive_the_process_in_a_file(server: ModelServer, tmp_path: Path) -> None:
    file = str(tmp_path / "judge.sqlite")
    texts = [str(number) for number in range(1_200)]
    first = ask_http(server, *texts, cache_file=file)
    asked = len(server.bodies)
    server.answer = lambda body: "something else"
    assert ask_http(server, *texts, cache_file=file) == first
    assert len(server.bodies) == asked == 1_200


@pytest.mark.slow
def test_several_processes_and_threads_share_a_file(server: ModelServer, tmp_path: Path) -> None:
    file = tmp_path / "judge.sqlite"
    code = (
        "import asyncio, sys\n"
        "from gym_llm.engines import make_engine\n"
        "from gym_llm.judge import Judge, Params\n"
        "async def run():\n"
        "    async with make_engine(sys.argv[1]) as engine:\n"
        "        judge = Judge(engine, 'stub', cache=True, cache_file=sys.argv[2])\n"
        "        ask = lambda n: judge.ask([{'role': 'user', 'content': str(n)}], Params.read({'temperature': 0}))\n"
        "        await asyncio.gather(*map(ask, range(300)))\n"
        "        await judge.aclose()\n"
        "asyncio.run(run())\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, server.url, str(file)]
    processes = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(2)]
    numbers = [str(number) for number in range(300)]
    ask = partial(ask_http, server, *numbers, cache_file=str(file))
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.communicate(timeout=60)[1] for process in processes] == [b"", b""]
    asked = len(server.bodies)
    ask()
    assert len(server.bodies) == asked
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (300,)


def test_a_broken_file_costs_one_warning(server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = tmp_path / "judge.sqlite"
    broken.write_bytes(b"This is no database. " * 100)
    assert ask_http(server, "a", "b", cache_file=str(broken)) == ["yes", "yes"]
    assert ask_http(server, "a", cache_file=str(tmp_path / "no" / "folder.sqlite")) == ["yes"]
    assert [record.message.count("not used any more") for record in caplog.records] == [1, 1]


def test_a_locked_file_costs_one_warning_and_a_little_time(
    server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_llm.judge.cache._BUSY_SECONDS", 0.05)
    file = tmp_path / "judge.sqlite"
    ask_http(server, "a", cache_file=str(file))
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert ask_http(server, "a", "b", "c", cache_file=str(file)) == ["yes"] * 3
    holder.close()
    assert [record.message.count("not used any more") for record in caplog.records] == [1]


def test_lone_surrogates_are_judged_and_kept_in_memory(server: ModelServer, tmp_path: Path) -> None:
    assert ask_http(server, "\ud800", "\ud800", cache_file=str(tmp_path / "judge.sqlite")) == ["yes", "yes"]
    assert len(server.bodies) == 1
