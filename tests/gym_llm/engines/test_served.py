"""An engine that other processes ask over HTTP."""

import asyncio
import pickle

import pytest

from gym_llm import make_engine
from gym_llm.engines import Engine
from gym_llm.engines.served import EngineServer, ServedEngine
from gym_llm.errors import EngineError, EngineUnavailable

REQUEST = {"input": [{"role": "user", "content": "Hi \ud800"}]}


class Failing(Engine):
    """Fails as it is told."""

    model = "failing"

    def __init__(self, error):
        self.error = error

    async def respond(self, request, *, episode_id=""):
        raise self.error


class Slow(Engine):
    """Answers nobody, and notes who was cancelled."""

    model = "slow"

    def __init__(self):
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def respond(self, request, *, episode_id=""):
        self.asked.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def run(work):
    return asyncio.run(asyncio.wait_for(work, 300))


@pytest.mark.slow
def test_a_client_gets_what_the_engine_says_to_the_last_bit():
    async def main():
        async with make_engine("pocket") as engine, EngineServer(engine) as server:
            client = pickle.loads(pickle.dumps(ServedEngine(server.url, server.token)))
            question = {"input": [{"role": "user", "content": "What is 2 + 2?"}], "temperature": 1.0}
            async with client:
                assert client.model == engine.model and client.capabilities.token_ids
                assert not client.capabilities.weights
                first = await client.respond(question, episode_id="a")
                own = await engine.respond(question, episode_id="a")
                assert first["output"][-1]["generation_token_ids"] == own["output"][-1]["generation_token_ids"]
                numbers = first["output"][-1]["generation_log_probs"]
                assert numbers == own["output"][-1]["generation_log_probs"]
                assert all(type(number) is float for number in numbers)

    run(main())


def test_who_does_not_know_the_token_is_not_answered():
    async def main():
        async with EngineServer(make_engine("constant:4")) as server:
            with pytest.raises(EngineUnavailable, match="401"):
                await ServedEngine(server.url, "guessed").start()
            async with ServedEngine(server.url, server.token) as client:
                assert (await client.respond(REQUEST))["output"]

    run(main())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EngineError("too warm", failure_kind="provider_oom_killed"), "provider_oom_killed"),
        (ZeroDivisionError("too warm"), EngineError.failure_kind),
    ],
)
def test_a_failure_arrives_with_its_kind_and_the_next_request_is_asked(error, kind):
    async def main():
        async with EngineServer(Failing(error)) as server, ServedEngine(server.url, server.token) as client:
            for _ in range(2):
                with pytest.raises(EngineError, match="too warm") as caught:
                    await client.respond(REQUEST)
                assert caught.value.failure_kind == kind

    run(main())


def test_a_cancelled_request_is_cancelled_in_the_engine():
    async def main():
        engine = Slow()
        async with EngineServer(engine) as server, ServedEngine(server.url, server.token) as client:
            asked = asyncio.create_task(client.respond(REQUEST))
            await engine.asked.wait()
            asked.cancel()
            await engine.cancelled.wait()

    run(main())


def test_a_server_that_is_gone_fails_requests_as_something_that_may_pass():
    async def main():
        async with EngineServer(make_engine("constant:4")) as server:
            client = ServedEngine(server.url, server.token)
            await client.start()
        with pytest.raises(EngineError, match="The main process's engine at http://127") as caught:
            await client.respond(REQUEST)
        assert caught.value.failure_kind.startswith("transport")
        await client.aclose()
        with pytest.raises(EngineError, match="not started"):
            await client.respond(REQUEST)

    run(main())
