"""`EpisodeWorker` and the shard's actor in this process: what ends, is cancelled or cannot be sent."""

import asyncio
import pickle

import gymnasium as gym
import pytest
from testing import function_call, message_item, response
from vector_envs import rows

from gym_llm.engines.engine import Engine
from gym_llm.rollouts.env_slots import EnvSlots, Reset
from gym_llm.rollouts.episode_worker import EpisodeWorker
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray.shard_actor import ShardActor, ShardConfig
from gym_llm.rollouts.ray.shard_client import pack
from gym_llm.rollouts.scheduler import schedule
from gym_llm.rollouts.settings import RolloutSettings

LIMIT = 20.0


class Says(Engine):
    """Says one word."""

    model = "says"

    def __init__(self):
        self.asked = 0

    async def respond(self, request, *, episode_id=""):
        self.asked += 1
        return response(message_item("done"))


def player(tasks, num_envs=4, engine=None):
    return EpisodeWorker(
        EnvSlots(EnvFactory("test/Hostile-v0", tasks=tasks), num_envs), engine or Says(), RolloutSettings()
    )


def run(work):
    return asyncio.run(asyncio.wait_for(work, LIMIT))


async def all_of(records):
    return [record async for record in records]


def test_an_episode_that_leaves_the_program_is_a_record_with_an_error():
    records = run(all_of(schedule([player(rows(4, {2: "exit"}))], [Job(n, 0) for n in range(4)])))
    failed = [record for record in records if record["error"]]
    assert [(each["rollout_id"]["task_index"], each["error"]) for each in failed] == [(2, "SystemExit: 3")]


def test_an_episode_that_cancels_its_own_task_ends_the_run_instead_of_never():
    async def main():
        playing = player(rows(1, {0: "cancel"}))
        with pytest.raises(RuntimeError, match="cancelled"):
            await playing.submit_and_poll([Job(0, 0)])

    run(main())


def test_closing_starts_no_further_episode_where_one_ignores_its_cancellation():
    async def main():
        engine = Says()
        playing = player(rows(8, {0: "deaf"}), 1, engine)
        exchange = asyncio.ensure_future(playing.submit_and_poll([Job(n, 0) for n in range(8)]))
        await asyncio.sleep(0.05)
        await playing.aclose()
        await exchange
        return engine.asked

    assert run(main()) == 1


def test_a_record_that_cannot_be_sent_is_that_episodes_error():
    async def main():
        shard = ShardActor(ShardConfig(gym.spec("test/Hostile-v0"), 4, rows(4, {1: "lambda"}), step_timeout=None))
        shard._worker = EpisodeWorker(shard._shard, Says(), RolloutSettings())
        jobs, pairs = [Job(n, 0) for n in range(4)], []
        while len(pairs) < 4:
            pairs += pickle.loads(await shard.play(pickle.dumps((jobs, []))))
            jobs = []
        return pairs

    pairs = run(main())
    assert [job for job, record in pairs if record["error"]] == [Job(1, 0)]
    (failed,) = (record for _, record in pairs if record["error"])
    assert "cannot be sent" in failed["error"] and failed["rollout_id"] == {"task_index": 1, "repeat_index": 0}


def test_an_exchange_that_waits_comes_back_when_the_next_one_comes():
    def rest(seconds):
        return [function_call("rest", {"seconds": seconds})]

    async def main():
        shard = ShardActor(ShardConfig(gym.spec("test/Odd-v0"), 3, step_timeout=None))
        await shard.submit_and_poll(pack([0, 1, 2], [Reset()] * 3), 3)
        await shard.submit_and_poll(pack([0, 1], [rest(0.0), rest(1e9)]), 0)
        waiting = asyncio.ensure_future(shard.submit_and_poll(pack([], []), 2))
        await asyncio.sleep(0.05)
        came = pickle.loads(await shard.submit_and_poll(pack([2], [[function_call("look")]]), 0))
        assert sorted(slot for slot, *_ in came) == [0, 2]
        assert pickle.loads(await asyncio.wait_for(waiting, 1)) == []
        await shard.close()

    run(main())
