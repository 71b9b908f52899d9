"""Streams over Ray: shards play, engines in actors sample, and this process has the trainer."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from changing_weights import old_and_new
from testing import wait_for

import gym_llm
from gym_llm.concurrency.loop_thread import LoopThread
from gym_llm.engines import make_engine
from gym_llm.engines.model_server import ModelServer
from gym_llm.errors import EngineError
from gym_llm.rollouts.ray.connection import connect
from gym_llm.rollouts.ray.engine_client import ActorEngine
from gym_llm.rollouts.ray.shard_client import RemoteShard
from gym_llm.rollouts.ray.weight_files import written

pytestmark = pytest.mark.usefixtures("ray")
SHORT = {"max_output_tokens": 24}


@pytest.fixture(scope="module")
def models() -> list[Any]:
    """The pocket model, and one with other weights."""
    return old_and_new()


@torch.no_grad()
def largest_error(models: list[Any], group: list[Any]) -> float:
    """Return the largest difference of a group's log probabilities from those of each token's recorded version."""
    largest = 0.0
    for segment in (segment for record in group for segment in record["trajectory"] or ()):
        ids = segment["input_ids"]
        given = [m(torch.tensor([ids])).logits[0, :-1].log_softmax(-1) for m in models]
        versions = segment.get("weight_versions") or [0] * len(ids)
        for place in range(1, len(ids)):
            if segment["loss_mask"][place]:
                right = given[versions[place] % 2][place - 1, ids[place]].item()
                largest = max(largest, abs(right - segment["logprobs"][place]))
    return largest


def stream(**options: Any) -> Any:
    settings = {"group_size": 2, "concurrency": 12, "workers": 2, "sampling": SHORT, **options}
    return gym_llm.stream("gym_llm/Arithmetic-v0", "pocket", **settings)


def versions(group: list[Any]) -> set[int]:
    found = set()
    for segment in (segment for record in group for segment in record["trajectory"] or ()):
        given = segment.get("weight_versions") or [0] * len(segment["input_ids"])
        found |= {version for version, used in zip(given, segment["loss_mask"], strict=True) if used}
    return found


def players(processes: set[psutil.Process]) -> list[str]:
    """Return the names of the shards and engines among processes."""
    names = [process.name() for process in processes if process.is_running()]
    return [name for name in names if "Shard" in name or "EngineActor" in name]


def test_tokens_of_several_engines_carry_the_version_that_sampled_them(models: list[Any]) -> None:
    before = set(psutil.Process().children(recursive=True))
    seen: set[int] = set()
    ids: set[tuple[int, int]] = set()
    with stream(engines=2) as groups:
        for number in range(24):
            group = next(groups)
            ids |= {tuple(record["rollout_id"].values()) for record in group}
            assert [record["error"] for record in group] == [None, None] and group[0]["made_by"]["engine"]
            assert largest_error(models, group) < 1e-4
            seen |= versions(group)
            if number % 6 == 5:
                groups.update_weights_and_wait(models[(groups.weight_version + 1) % 2].state_dict().items())
        assert groups.weight_version == 4
    assert len(ids) == 48 and len(seen) > 1
    wait_for(lambda: not players(set(psutil.Process().children(recursive=True)) - before), 60)


def test_wait_holds_over_ray(models: list[Any]) -> None:
    with stream(max_staleness=1, stale="wait", groups_per_update=2) as groups:
        for number in range(10):
            group = next(groups)
            assert groups.weight_version - min(versions(group), default=groups.weight_version) <= 1
            if number % 2:
                groups.update_weights_and_wait(models[number % 4 // 2].state_dict().items())
        assert groups.counts["groups"] == 10 and groups.weight_version == 5


def test_a_shard_that_dies_loses_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    shards: list[Any] = []
    start = RemoteShard._start
    monkeypatch.setattr(RemoteShard, "_start", lambda shard: shards.append(shard) or start(shard))
    seen: dict[int, int] = {}
    tasks = [{"responses_create_params": {"input": f"{n} + {n}"}, "expected_answer": str(2 * n)} for n in range(12)]
    options: Any = {"group_size": 2, "concurrency": 12, "workers": 2, "tasks": tasks, "sampling": SHORT}
    with gym_llm.stream("gym_llm/FollowUp-v0", "pocket", **options) as groups:
        for number in range(36):
            group = next(groups)
            assert len(group) == 2 and all(record["outcome"] != "masked" for record in group)
            task = group[0]["rollout_id"]["task_index"]
            seen[task] = seen.get(task, 0) + 1
            if number == 4:
                pid = shards[0].ray.get(shards[0].actor.describe.remote())["pid"]
                os.kill(pid, signal.SIGKILL)
    assert len(shards) == 3 and set(seen) == set(range(12))  # the third was started in the dead one's place


def test_actors_on_other_machines_get_the_weights_over_the_object_store(
    models: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    puts: list[Any] = []
    ray = connect()
    put = ray.put

    async def cannot(engine: ActorEngine, folder: str) -> bool:
        return False

    monkeypatch.setattr(ActorEngine, "_can_read", cannot)
    monkeypatch.setattr(ray, "put", lambda value: puts.append(value) or put(value))
    with stream(engines=2) as groups:
        next(groups)
        groups.update_weights_and_wait(models[1].state_dict().items())
        while True:
            group = next(groups)
            assert largest_error(models, group) < 1e-4
            if versions(group) == {1}:
                break
    assert len(puts) == 1


@pytest.mark.parametrize("updated", [False, True])
def test_others_play_the_episodes_of_a_dead_engine(updated: bool, models: list[Any], caplog: Any) -> None:
    ray = connect()
    with stream(engines=2, max_failures=0, retries=0) as groups:
        next(groups)
        if updated:
            groups.update_weights_and_wait(models[1].state_dict().items())
        inner: Any = groups.engine
        client = inner._engines[0]
        pid = ray.get(client._actor.pid.remote())
        os.kill(pid, signal.SIGKILL)
        for _ in range(20):
            assert [record["error"] for record in next(groups)] == [None, None]
        wait_for(lambda: groups._thread.run(answers(inner)), 60)
        resting = [server.resting for server in inner._router.servers]
        assert resting == [updated, False]  # a new process has no weights of an update
        assert ray.get(client._actor.pid.remote()) != pid and (client.name in caplog.text) >= updated
        groups.update_weights_and_wait(models[1].state_dict().items())
        wait_for(lambda: not inner._router.servers[0].resting, 30)
        for _ in range(10):
            assert [record["error"] for record in next(groups)] == [None, None]


async def answers(engine: Any) -> bool:
    """Ask both engines, until the one that has died has a new process."""
    for task in (0, 1):
        await engine.respond({"input": "2 + 2?", "max_output_tokens": 2}, episode_id=f"{task}-0")
    try:
        await engine._engines[0].has_weights()
    except EngineError:
        return False
    await asyncio.sleep(1.5)
    return True


def test_files_are_written_as_they_were_read() -> None:
    with written({"model.safetensors": np.arange(9, dtype=np.uint8)}) as folder:
        assert np.fromfile(f"{folder}/model.safetensors", np.uint8).tolist() == list(range(9))
    assert not os.path.exists(folder)


@pytest.mark.parametrize("engines", [1, 2])
def test_a_server_takes_weights_over_ray(models: list[Any], engines: int) -> None:
    token = "sesame-4711-open"
    options: Any = {"api": "responses", "api_key": token, "takes_weights": "gym_llm"}
    thread = LoopThread("model server")
    server = ModelServer(make_engine("pocket"), port=0, token=token)
    thread.run(server.__aenter__())
    try:
        settings: Any = {"group_size": 2, "concurrency": 8, "workers": 2, "sampling": SHORT, "engines": engines}
        with gym_llm.stream("gym_llm/Arithmetic-v0", server.url, engine_options=options, **settings) as groups:
            next(groups)
            groups.update_weights_and_wait(models[1].state_dict().items())
            assert groups.weight_version == server.engine.weight_version == 1
            while True:
                group = next(groups)
                assert [record["error"] for record in group] == [None, None]
                assert largest_error(models, group) < 1e-4
                if versions(group) == {1}:
                    break
    finally:
        thread.run(server.__aexit__())
        thread.close()


def test_actors_share_the_episodes_and_an_engine_without_weights_says_so() -> None:
    async def main() -> None:
        async with stream(engines=2) as groups:
            engine: Any = groups.engine
            request: Any = {"input": "2 + 2?", "max_output_tokens": 2}
            asked: list[Any] = []
            for inner in engine._engines:
                respond = inner.respond
                inner.respond = lambda *args, respond=respond, inner=inner, **kwargs: (
                    asked.append((kwargs["episode_id"].partition("-")[0], inner.name)) or respond(*args, **kwargs)
                )
            for number, repeat, turn in itertools.product(range(4), range(3), range(2)):
                await engine.respond(request, episode_id=f"{number}-{repeat}" + "/black" * turn)
            homes = dict(asked)
            assert len(asked) == 24 and len(set(asked)) == 4  # each group has one engine
            assert homes["0"] == homes["2"] != homes["1"] == homes["3"]
            await engine.end_episode("0-0")
            assert engine.model == make_engine("pocket").model
            assert len(await engine.score([5, 9, 300])) == 3
        async with gym_llm.stream("gym_llm/Arithmetic-v0", "random", group_size=2, workers=1) as groups:
            assert len(await anext(groups)) == 2
            with pytest.raises(EngineError, match="cannot be replaced"):
                await groups.update_weights({})

    asyncio.run(main())
