"""Batches of episodes from synchronous code: interrupted, closed, lost."""

import asyncio
import os
import signal
import threading
import time

import gymnasium as gym
import pytest
from testing import message_item, response, row

from gym_llm import VerifierEnv
from gym_llm.engines.engine import Engine
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.env_pool import EnvPool


class Watching(VerifierEnv):
    """Its verifier takes as long as the class says, and notices when it is cut short."""

    takes = 0.0
    begun = threading.Event()
    ended: list[str] = []

    async def verify(self, task, episode):
        Watching.begun.set()
        try:
            await asyncio.sleep(Watching.takes)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)  # it has something to put away
            Watching.ended.append("cut short")
            raise
        return float(episode.answer)

    def close(self):
        time.sleep(0.02)
        Watching.ended.append("closed")


gym.register("batches/Watching-v0", Watching)


class Numbers(Engine):
    """Answers with the episode's repeat index, the last asked first."""

    model = "numbers"

    async def respond(self, request, *, episode_id=""):
        number = int(episode_id.rpartition("-")[2])
        await asyncio.sleep(0.05 - number / 100)
        return response(message_item(str(number)))


@pytest.fixture
def player():
    Watching.takes, Watching.ended = 0.0, []
    Watching.begun.clear()
    player = EnvPool(EnvFactory("batches/Watching-v0", tasks=[row()]), (), concurrency=4)
    yield player
    player.close()


JOBS = [Job(0, n) for n in range(4)]


def rewards(player):
    return [record["reward"] for record in player.play_all(JOBS, Numbers())]


def test_records_come_in_the_order_of_the_jobs(player):
    assert rewards(player) == [0.0, 1.0, 2.0, 3.0]
    assert rewards(player) == [0.0, 1.0, 2.0, 3.0]


def test_a_caller_whose_thread_runs_an_event_loop_may_play(player):
    async def notebook():
        return rewards(player)

    assert asyncio.run(notebook()) == [0.0, 1.0, 2.0, 3.0]


def test_an_interrupt_comes_when_the_environments_are_left_alone(player):
    Watching.takes = 30

    def interrupt():
        Watching.begun.wait()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        rewards(player)
    assert Watching.ended == ["cut short"] * 4
    Watching.takes = 0.0
    assert rewards(player) == [0.0, 1.0, 2.0, 3.0]


def test_close_has_closed_the_environments_and_ended_the_thread(player):
    before = set(threading.enumerate())
    rewards(player)
    assert "gym_llm batches" in [thread.name for thread in set(threading.enumerate()) - before]
    player.close()
    assert Watching.ended == ["closed"] * 4
    assert "gym_llm batches" not in [thread.name for thread in set(threading.enumerate()) - before]
    player.close()
    assert rewards(player) == [0.0, 1.0, 2.0, 3.0]


def test_a_set_up_in_which_nothing_works_is_told_at_once():
    with pytest.raises(RuntimeError, match=r"Every episode of this batch failed, the first one so: no key"):
        BatchFailures("episode").check(["no key", "no key"])


def test_a_batch_that_is_lost_does_not_end_a_training_that_worked_but_three_in_a_row_do(caplog):
    failures = BatchFailures("episode")
    failures.check(["no sandbox", None])
    for _ in range(2):
        failures.check(["no judge"])
        failures.check(["no judge"])
        failures.check([None])
    assert "1 of 2 episodes failed, the first one so: no sandbox" in caplog.text
    failures.check(["gone"])
    failures.check(["gone"])
    with pytest.raises(RuntimeError, match="gone"):
        failures.check(["gone"])
