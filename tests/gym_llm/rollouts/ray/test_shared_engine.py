"""An engine in a Ray actor, with a real Ray and the pocket model."""

import asyncio
import json
import os
import pickle
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from gym_llm import make_engine, rollout
from gym_llm.engines import Capabilities, Engine, WeightSync
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.rollouts.ray import engine_actor
from gym_llm.rollouts.ray.connection import connect
from gym_llm.rollouts.ray.engine_actor import EngineActor
from gym_llm.rollouts.ray.engine_client import ActorEngine
from gym_llm.rollouts.ray.shared_engine import shared_engine

REQUEST = {"input": [{"role": "user", "content": "What is 2 + 2? Put the answer in \\boxed{}."}], "temperature": 0}


def test_clients_get_the_answers_that_the_engine_itself_gives():
    async def main():
        async with make_engine("pocket") as engine, shared_engine("pocket") as spec:
            expected = await engine.respond(REQUEST, episode_id="a")
            async with make_engine(spec) as one, make_engine(spec) as two:
                found = await asyncio.gather(*(client.respond(REQUEST, episode_id="a") for client in [one, two] * 20))
                assert one.model == engine.model
        return expected, found

    expected, found = asyncio.run(main())
    for response in found:
        for field in ("content", "prompt_token_ids", "generation_token_ids"):
            assert response["output"][-1][field] == expected["output"][-1][field]


def test_shards_share_it():
    async def main():
        async with shared_engine("pocket") as spec:
            return [record async for record in rollout("gym_llm/Arithmetic-v0", spec, episodes=40, workers=2)]

    records = asyncio.run(main())
    assert len(records) == 40 and not [record["error"] for record in records if record["error"]]


def test_its_process_has_the_priority_of_the_one_that_started_it():
    async def main():
        ray = connect()
        async with shared_engine("constant:4") as spec:
            pid = await ray.get_actor(spec.partition(":")[2]).pid.remote()
            return os.getpriority(os.PRIO_PROCESS, pid)

    assert asyncio.run(main()) == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_request_that_fails_fails_alone_and_a_cancelled_one_is_dropped():
    async def main():
        async with shared_engine("pocket") as spec, make_engine(spec) as client:
            image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]
            bad, good = await asyncio.gather(
                client.respond({"input": image}), client.respond(REQUEST), return_exceptions=True
            )
            task = asyncio.create_task(client.respond({**REQUEST, "max_output_tokens": 4000}))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return bad, good, task.cancelled(), await client.respond(REQUEST)

    bad, good, cancelled, after = asyncio.run(main())
    assert isinstance(bad, EngineError) and "text only" in str(bad)
    assert cancelled and good["output"] and after["output"]


def test_an_engine_whose_actor_has_ended_says_so():
    async def main():
        ray = connect()
        async with shared_engine("pocket") as spec, make_engine(spec) as client:
            ray.kill(ray.get_actor(spec.partition(":")[2]))
            with pytest.raises(EngineError, match="has ended"):
                await client.respond(REQUEST)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_requests_of_a_process_that_is_killed_fail_as_killed_and_later_ones_are_answered_by_another():
    async def answer(client):
        """What it answers once Ray has noticed the death: until then a request that meets the dead process is lost."""
        while True:
            try:
                return await client.respond(REQUEST)
            except EngineError as error:
                assert error.failure_kind == "kill_shaped"
                await asyncio.sleep(0.1)

    async def main():
        ray = connect()
        async with shared_engine("pocket") as spec, make_engine(spec) as client, make_engine(spec) as idle:
            pid = await ray.get_actor(spec.partition(":")[2]).pid.remote()
            os.kill(pid, signal.SIGSTOP)  # or it would have answered when it is killed
            asked = [asyncio.create_task(client.respond(REQUEST)) for _ in range(3)]
            await asyncio.sleep(0.1)
            os.kill(pid, signal.SIGKILL)
            failed = await asyncio.gather(*asked, return_exceptions=True)
            return failed, await asyncio.gather(answer(client), answer(idle))

    failed, answers = asyncio.run(asyncio.wait_for(main(), 120))
    assert all(isinstance(error, EngineError) and error.failure_kind == "kill_shaped" for error in failed)
    assert answers[0]["output"][-1]["content"] == answers[1]["output"][-1]["content"]


def test_episodes_that_an_engine_took_along_are_played_again():
    killed = []

    async def main():
        ray = connect()
        async with shared_engine("pocket") as spec:
            records = []
            async for record in rollout("gym_llm/Arithmetic-v0", spec, episodes=200, workers=2, concurrency=32):
                records.append(record)
                if len(records) == 40:
                    killed.append(await ray.get_actor(spec.partition(":")[2]).pid.remote())
                    os.kill(killed[0], signal.SIGKILL)
            return records

    records = asyncio.run(asyncio.wait_for(main(), 120))
    assert killed and len(records) == 200
    assert [record["error"] for record in records if record["outcome"] == "masked"] == []


def test_what_is_wrong_with_the_engine_or_its_name_is_raised_here():
    async def start(spec):
        async with shared_engine(spec):
            pass

    async def find() -> Engine:
        connect()
        async with make_engine("actor:nobody") as engine:
            return engine

    with pytest.raises(ValueError, match="Unknown engine"):
        asyncio.run(start("pockets"))
    with pytest.raises(EngineUnavailable, match="nobody"):
        asyncio.run(find())


def test_the_command_line_loads_no_model_that_its_workers_load(monkeypatch, tmp_path):
    from gym_llm.cli import main
    from gym_llm.engines.pocket import PocketEngine

    async def start(self):
        raise MemoryError("loaded here, too")

    connect()
    monkeypatch.setattr(PocketEngine, "start", start)
    output = tmp_path / "a.jsonl"
    argv = ["rollout", "gym_llm/Arithmetic-v0", "--limit", "2", "--workers", "1", "--quiet", "--output", str(output)]
    assert main(argv) == 0
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(record["error"], record["response"]["model"]) for record in records] == [(None, "pocket")] * 2


def test_exchanges_that_come_back_at_the_same_time_leave_no_request_waiting():
    """Seen once in a few thousand requests to vLLM: each left it to the other to ask again, and nobody did."""

    class Actor:
        """The engine's actor as its client sees it: what was sent, and replies given by hand."""

        def __init__(self):
            self.replies = []

        @property
        def submit_and_poll(self):
            return self

        def remote(self, client, batch):
            self.replies.append(asyncio.get_running_loop().create_future())
            return self.replies[-1]

    async def main():
        client = ActorEngine("somewhere")
        client._loop, client._actor = asyncio.get_running_loop(), Actor()
        replies = client._actor.replies
        answers = []
        for _ in range(2):
            answers.append(asyncio.ensure_future(client.respond(REQUEST)))
            await asyncio.sleep(0.01)
        assert len(replies) == 2
        for reply in replies:
            reply.set_result(pickle.dumps([]))
        await asyncio.sleep(0.01)
        assert len(replies) == 3, "nobody asks for the answers"
        replies[2].set_result(pickle.dumps([(1, {"id": "one"}), (2, {"id": "two"})]))
        return await asyncio.wait_for(asyncio.gather(*answers), 5)

    assert [answer["id"] for answer in asyncio.run(main())] == ["one", "two"]


class ScriptedEngine(Engine):
    """Does what the request says: answers, or never does, or something of its own goes wrong."""

    model = "scripted"

    def __init__(self):
        self.under_way = 0

    async def respond(self, request, *, episode_id=""):
        self.under_way += 1
        try:
            if request["input"] == "never":
                await asyncio.sleep(1e9)
            if request["input"] == "cancelled":
                raise asyncio.CancelledError("the server's")
            return {"id": lambda: None} if request["input"] == "unpicklable" else {"id": request["input"]}
        finally:
            self.under_way -= 1


class SameProcess:
    """An `EngineActor` here, as Ray's handle of it looks to a client; `delays` are what calls take to arrive."""

    def __init__(self):
        self.actor = EngineActor("scripted", {})
        self.actor._engine = ScriptedEngine()
        self.delays = {}

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *args: asyncio.shield(self._call(name, args)))  # a call goes on by itself

    async def _call(self, name, args):
        await asyncio.sleep(self.delays.pop(name, 0))
        return await getattr(self.actor, name)(*args)

    def client(self):
        client = ActorEngine("here")
        client._loop, client._actor = asyncio.get_running_loop(), self
        return client


class TrainedEngine(ScriptedEngine):
    """Keeps what it is told about its weights; takes a while to read them."""

    capabilities = Capabilities(weights=True)

    def __init__(self):
        super().__init__()
        self.told = []

    async def update_weights(self, weights):
        await asyncio.sleep(0.05)
        if "wrong" in (tensors := load_file(Path(weights) / "model.safetensors")):
            raise EngineError("these are another model's")
        self.told.append({name: tensor.tolist() for name, tensor in tensors.items()})

    async def sleep(self, level=1):
        self.told.append(level)

    async def wake_up(self):
        self.told.append("awake")


def trained():
    """A client, and the engine that it is for."""
    ray = SameProcess()
    ray.actor._engine = TrainedEngine()
    return ray.client(), ray.actor._engine


def test_weights_go_to_an_engine_elsewhere_as_to_one_here(tmp_path):
    weights = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([3.0])}
    save_file({"c": torch.tensor([4.0])}, tmp_path / "model.safetensors")

    async def main():
        client, engine = trained()
        assert isinstance(client, WeightSync)
        await client.sleep(2)
        await client.update_weights(weights.items())
        await client.update_weights(tmp_path)
        await client.wake_up()
        with pytest.raises(EngineError, match="another model's"):
            await client.update_weights({"wrong": torch.tensor([0.0])}.items())
        return engine.told

    assert asyncio.run(main()) == [2, {"a": [1.0, 2.0], "b": [3.0]}, {"c": [4.0]}, "awake"]


def test_an_update_of_weights_that_is_cancelled_is_finished_first():
    async def main():
        client, engine = trained()
        update = asyncio.create_task(client.update_weights({"a": torch.tensor([1.0])}.items()))
        await asyncio.sleep(0.01)
        update.cancel()
        with pytest.raises(asyncio.CancelledError):
            await update
        return engine.told

    assert asyncio.run(main()) == [{"a": [1.0]}]


def test_an_engine_whose_weights_cannot_be_replaced_says_so():
    async def main():
        with pytest.raises(EngineError, match="The weights of scripted cannot be replaced"):
            await SameProcess().client().sleep()
        client, engine = trained()
        with pytest.raises(EngineError, match="has no method respond"):
            await client._call("respond", {"input": "never"})
        return engine.told

    assert asyncio.run(main()) == []


def test_an_engine_that_has_lost_its_weights_with_its_process_answers_when_it_is_given_them_again(monkeypatch):
    connect()  # its key-value store knows
    monkeypatch.setattr(engine_actor, "make_engine", lambda spec: TrainedEngine())
    weights = {"a": torch.tensor([1.0])}

    async def main():
        ray = SameProcess()
        ray.actor, other = EngineActor("trained", {}, "one"), EngineActor("trained", {}, "other")
        client = ray.client()
        before = await ask(client, "base")
        await client.update_weights(weights.items())
        ray.actor = EngineActor("trained", {}, "one")  # as Ray makes it anew
        (lost,) = await ask(client, "lost")
        await client.update_weights(weights.items())
        ray.actor, after = other, await ask(client, "after")
        return before, lost, after, await ask(client, "other")

    before, lost, after, other = asyncio.run(main())
    assert isinstance(lost, EngineError) and "give it them again" in str(lost) and lost.failure_kind == "kill_shaped"
    assert [*before, *after, *other] == [{"id": "base"}, {"id": "after"}, {"id": "other"}]


def ask(client, *inputs):
    async def gather():
        requests = (client.respond({"input": each}) for each in inputs)
        return await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 5)

    return gather()


@pytest.mark.parametrize(("bad", "reason"), [("cancelled", "CancelledError"), ("unpicklable", "cannot be sent")])
def test_a_request_that_the_engine_gives_up_or_whose_answer_cannot_be_sent_fails_alone(bad, reason):
    async def main():
        return await ask(SameProcess().client(), bad, "good")

    error, good = asyncio.run(main())
    assert isinstance(error, EngineError) and reason in str(error)
    assert good == {"id": "good"}


def test_a_request_that_cannot_be_sent_fails_alone():
    async def main():
        client = SameProcess().client()
        return await ask(client, lambda: None, "good"), await ask(client, "later")

    (bad, good), later = asyncio.run(main())
    assert isinstance(bad, EngineError) and "cannot be sent" in str(bad)
    assert [good, *later] == [{"id": "good"}, {"id": "later"}]


def test_an_answer_that_cannot_be_read_here_fails_its_exchange(monkeypatch):
    class Surprise:
        def __reduce__(self):
            return (__import__, ("nowhere_to_be_found",))

    async def main():
        ray = SameProcess()
        monkeypatch.setattr(ray.actor._engine, "respond", lambda request, episode_id: asyncio.sleep(0, Surprise()))
        return await ask(ray.client(), "surprise")

    (error,) = asyncio.run(main())
    assert isinstance(error, EngineError) and "nowhere_to_be_found" in str(error) and "ended" not in str(error)


def test_an_engine_works_on_for_nobody_who_has_left():
    """Ray's async actors run calls in the order of their arrival, in which a large batch of requests may be last."""

    async def main():
        ray = SameProcess()
        for overtaken in (False, True):
            client = ray.client()
            ray.delays = {"submit_and_poll": 0.05} if overtaken else {}
            asking = asyncio.ensure_future(ask(client, "never", "never"))
            await asyncio.sleep(0.01)
            await client.aclose()
            assert all(isinstance(answer, EngineError) for answer in await asking)
            await asyncio.sleep(0.1)
            assert ray.actor._engine.under_way == 0, f"overtaken: {overtaken}"

    asyncio.run(main())
