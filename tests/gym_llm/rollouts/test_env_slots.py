"""`EnvSlots`: what closing many environments costs and reports."""

import asyncio

import gymnasium as gym
import pytest
from testing import message, row

from gym_llm import VerifierEnv
from gym_llm.rollouts.env_slots import EnvSlots, Reset
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.vector import LocalVectorEnv

SLOTS = 100


class Closing(VerifierEnv):
    """Its teardown waits, is quick, or fails, as its row says."""

    ended: list[str] = []

    def verify(self, task, episode):
        return 1.0

    def teardown(self, task, episode):
        self.ended.append(task.end)
        if task.end == "raise":
            raise ArithmeticError("a bug in teardown")
        if task.end == "exit":
            raise SystemExit(3)
        return asyncio.sleep(0.01) if task.end == "wait" else None


@pytest.fixture
def shard():
    gym.register("test/Closing-v0", Closing)
    Closing.ended.clear()
    yield lambda ends: EnvSlots(EnvFactory("test/Closing-v0", tasks=[row(end=end) for end in ends]), len(ends))
    gym.registry.pop("test/Closing-v0")


async def closed(shard, *, finished=False):
    """Begin an episode in every slot, end it if asked to, and close the shard; how many tasks closing took."""
    slots = range(shard.num_envs)
    shard.submit(slots, [Reset(options={"task_index": slot}) for slot in slots])
    if finished:
        shard.submit(slots, [message("done")] * shard.num_envs)
    tasks = []

    def make_task(loop, coroutine, **kwargs):
        tasks.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **kwargs)

    asyncio.get_running_loop().set_task_factory(make_task)
    await shard.aclose()
    return len(tasks)


@pytest.mark.parametrize("finished", [True, False])
def test_closing_makes_no_task_where_nothing_waits(shard, finished):
    assert asyncio.run(closed(shard(["quick"] * SLOTS), finished=finished)) == 0
    assert Closing.ended == ["quick"] * SLOTS


def test_teardowns_that_wait_do_so_at_the_same_time(shard):
    tasks = asyncio.run(closed(shard([*["quick"] * SLOTS, "wait", "wait"])))
    assert tasks == 4  # one for each that waits, and one that a cancellation leaves alone
    assert len(Closing.ended) == SLOTS + 2


@pytest.mark.parametrize(("end", "error"), [("raise", ArithmeticError), ("exit", SystemExit)])
def test_one_that_fails_does_not_keep_the_others_open(shard, end, error):
    with pytest.raises(error):
        asyncio.run(closed(shard([end, "quick", "wait", end])))
    assert Closing.ended == [end, "quick", "wait", end]


class Panics(VerifierEnv):
    """Raises what is no `Exception` where its task says so, at once or after some waiting."""

    def verify(self, task, episode):
        async def later():
            await asyncio.sleep(0)
            raise task_error(task)

        if task.fails == "later":
            return later()
        if task.fails:
            raise task_error(task)
        return 1.0


class Panic(BaseException):
    """Like that of pyo3."""


def task_error(task):
    return asyncio.CancelledError() if task.cancels else Panic("index out of bounds")


@pytest.mark.parametrize("cancels", [False, True])
@pytest.mark.parametrize("fails", ["at once", "later"])
def test_a_panic_or_a_cancellation_of_a_slot_s_own_is_its_outcome_and_the_others_go_on(fails, cancels):
    tasks = [row(fails="", cancels=cancels), row(fails=fails, cancels=cancels)]
    gym.register("test/Panics-v0", Panics)
    try:
        with LocalVectorEnv("test/Panics-v0", 3, tasks=tasks) as envs:
            for index in ([0, 1, 0], [0, 0, 0]):
                envs.reset(options={"task_index": index})
                envs.send([message("x")] * 3, range(3))
                if 1 in index:
                    with pytest.raises(asyncio.CancelledError if cancels else Panic):
                        envs.recv(min_size=3)
                else:
                    assert envs.recv(min_size=3)[1].tolist() == [1.0] * 3
    finally:
        del gym.registry["test/Panics-v0"]
