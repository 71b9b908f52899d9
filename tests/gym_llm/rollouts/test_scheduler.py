"""Jobs over shards that die: exactly one record each."""

import asyncio
import random
from collections import Counter
from contextlib import aclosing

import pytest

from gym_llm.errors import ShardDied
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.scheduler import schedule

LIMIT = 20.0  # seconds for a test that should take none


class FakeWorker:
    """Finishes a few jobs per exchange; `dies` says whether it does, given what is under way."""

    env_id = "fake"

    def __init__(self, num_envs=4, dies=lambda player: False, restart=None):
        self.num_envs = num_envs
        self.under_way = []
        self.groups = []
        self.exchanges = self.restarts = 0
        self._dies = dies
        self._restart = restart

    async def submit_and_poll(self, jobs):
        await asyncio.sleep(0)
        self.exchanges += 1
        self.under_way.extend(jobs)
        self.groups.append(len(self.under_way))
        assert 0 < len(self.under_way) <= 2 * self.num_envs
        if self._dies(self):
            self.under_way = []
            raise ShardDied("killed")
        finished, self.under_way = self.under_way[:2], self.under_way[2:]
        return [(job, record(job)) for job in finished]

    async def restart(self):
        self.restarts += 1
        if self._restart is not None:
            await self._restart()

    def release(self):
        pass

    async def waiting(self):
        return {}


def record(job):
    return {"rollout_id": {"task_index": job.task_index, "repeat_index": job.repeat_index}, "error": None}


def run(players, jobs):
    async def gather():
        async with aclosing(schedule(players, jobs)) as records:
            return [each async for each in records]

    return asyncio.run(asyncio.wait_for(gather(), LIMIT))


def jobs(count):
    return [Job(n, 0) for n in range(count)]


def assert_once(records, count):
    assert sorted(each["rollout_id"]["task_index"] for each in records) == list(range(count))


@pytest.mark.parametrize("count", [0, 1, 3, 8, 100])
@pytest.mark.parametrize("players", [1, 3])
def test_every_job_is_played_once(players, count):
    assert_once(run([FakeWorker() for _ in range(players)], jobs(count)), count)


@pytest.mark.parametrize("seed", range(20))
def test_shards_that_die_now_and_then_lose_and_double_nothing(seed):
    rng = random.Random(seed)
    players = [FakeWorker(num_envs=1 + n, dies=lambda player: rng.random() < 0.1) for n in range(3)]
    records = run(players, jobs(200))
    assert_once(records, 200)


@pytest.mark.parametrize("num_envs", [1, 4, 64])
def test_a_job_that_kills_is_found_and_everything_else_is_played(num_envs):
    poison = Job(13, 0)
    players = [FakeWorker(num_envs, dies=lambda player: poison in player.under_way) for _ in range(2)]
    records = run(players, jobs(300))
    assert_once(records, 300)
    failed = [each for each in records if each["error"]]
    assert [each["rollout_id"]["task_index"] for each in failed] == [13]
    assert "killed" in failed[0]["error"] and failed[0]["reward"] is None
    assert sum(player.restarts for player in players) <= 9


@pytest.mark.parametrize("players", [1, 2])
def test_a_job_that_kills_is_found_among_jobs_without_end(players):
    class Endless:
        def __init__(self):
            self.on_change = None
            self.numbers = iter(range(10**9))

        def __iter__(self):
            return self

        def __next__(self):
            return Job(next(self.numbers), 0)

    poison = Job(13, 0)
    workers = [FakeWorker(4, dies=lambda player: poison in player.under_way) for _ in range(players)]
    seen = []

    async def play():
        async with aclosing(schedule(workers, Endless())) as records:
            async for each in records:
                seen.append(each)
                if len(seen) == 100:
                    return

    asyncio.run(asyncio.wait_for(play(), LIMIT))
    assert [each["rollout_id"]["task_index"] for each in seen if each["error"]] == [13]
    numbers = {each["rollout_id"]["task_index"] for each in seen}
    assert numbers >= set(range(70)) and len(numbers) == 100


def test_suspects_are_played_in_ever_smaller_groups_of_their_own():
    poison = Job(0, 0)
    deadly = []

    def dies(player):
        if poison in player.under_way:
            deadly.append(len(player.under_way))
        return poison in player.under_way

    run([FakeWorker(32, dies)], jobs(64))
    assert deadly == [32, 32, 32, 8, 2, 1, 1]


def test_a_run_of_no_more_episodes_than_slots_is_spread_over_all_shards():
    players = [FakeWorker(num_envs=8) for _ in range(3)]
    run(players, jobs(24))
    assert [player.groups[0] for player in players] == [8, 8, 8]


def test_a_shard_that_cannot_be_restarted_leaves_its_episodes_to_the_others():
    first_death = iter([True])
    players = [
        FakeWorker(dies=lambda player: next(first_death, False), restart=lambda: asyncio.sleep(3600)),
        FakeWorker(),
    ]
    assert_once(run(players, jobs(50)), 50)


def test_two_shards_dying_together_lose_nothing():
    deaths = Counter()

    def dies(player):
        deaths[id(player)] += 1
        return deaths[id(player)] in (2, 3)

    assert_once(run([FakeWorker(dies=dies), FakeWorker(dies=dies)], jobs(40)), 40)


def test_jobs_are_taken_as_they_are_needed_and_not_while_nobody_takes_records():
    taken = []

    def endless():
        n = 0
        while True:
            taken.append(n)
            yield Job(n, 0)
            n += 1

    players = [FakeWorker(num_envs=4) for _ in range(2)]

    async def play():
        async with aclosing(schedule(players, endless())) as records:
            await anext(records)
            for _ in range(200):
                await asyncio.sleep(0)
            first = len(taken)
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(taken) == first <= 1 + 2 * 8 + 8 + 2 * 2  # taken, under way, waiting, one reply of each
            for _ in range(100):
                await anext(records)
        assert len(taken) > 100

    asyncio.run(asyncio.wait_for(play(), LIMIT))


def test_what_a_player_or_the_jobs_raise_is_raised():
    class Broken(FakeWorker):
        async def submit_and_poll(self, jobs):
            raise ArithmeticError("broken")

    def failing():
        yield Job(0, 0)
        raise LookupError("no more")

    with pytest.raises(ArithmeticError):
        run([FakeWorker(), Broken()], jobs(50))
    with pytest.raises(LookupError):
        run([FakeWorker()], failing())
