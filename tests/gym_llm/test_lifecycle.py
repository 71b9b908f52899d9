"""An episode's end of life: `teardown` runs exactly once for each `setup` that returned, however the episode ends."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from testing import function_call, message, message_item, often, response, row
from vector_envs import Leased, random_traps

from gym_llm import VerifierEnv
from gym_llm.concurrency import drive
from gym_llm.concurrency.resources import open_resources
from gym_llm.core import teardown as run_teardowns
from gym_llm.engines.engine import Engine
from gym_llm.errors import EngineError, StepTimeout
from gym_llm.rollouts.env_slots import EnvSlots, Reset
from gym_llm.rollouts.episode import play_episode
from gym_llm.rollouts.episode_worker import EpisodeWorker
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray.shard_actor import ShardActor, ShardConfig
from gym_llm.rollouts.ray.shard_client import pack
from gym_llm.rollouts.scheduler import schedule
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.trl import EnvironmentFactory
from gym_llm.vector import LocalVectorEnv

USE, DONE = [function_call("use")], message("done")
OF_THE_LEASE = ["setup", "teardown", "torn down"]


@pytest.fixture(autouse=True)
def log() -> list[tuple[str, int]]:
    Leased.log.clear()
    return Leased.log


def happened() -> list[str]:
    """What has happened to leases, in order."""
    return [event for event, _ in Leased.log]


def leased(**traps: str) -> Leased:
    return Leased(tasks=[row(traps=traps)])


class Says(Engine):
    """Uses the tool, then is done; or fails, or waits for ever, when it is asked for the second turn."""

    model = "says"

    def __init__(self, second: str = "done") -> None:
        self.second = second
        self.asked = asyncio.Event()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        await asyncio.sleep(0)
        if len(request["input"]) == 1:
            return response(*USE)
        self.asked.set()
        if self.second == "fail":
            raise EngineError("no server")
        if self.second == "bug":
            raise KeyError("bug")
        await asyncio.sleep(1e9 if self.second == "wait" else 0)
        return response(message_item("done"))


async def played(env: Any, engine: Engine | None = None) -> Any:
    return await play_episode(env, engine or Says(), Job(0, 0), RolloutSettings())


# -- one environment ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["", "wait", "pause"])
@pytest.mark.parametrize("where", ["plain", "in a running loop", "driven"])
def test_the_step_that_ends_the_episode_tears_it_down_after_verify(how: str, where: str) -> None:
    hooks = ("setup", "tool", "respond", "verify", "teardown")
    env = leased(**{hook: how for hook in hooks if how})

    def episode() -> None:
        env.reset()
        assert happened() == ["setup"]
        env.step(USE)
        assert env.step(DONE)[1:4] == (1.0, True, False)

    async def in_loop() -> None:
        if where == "driven":
            await drive(episode)
        else:
            episode()

    if where == "plain":
        episode()
    else:
        asyncio.run(in_loop())
    assert happened() == OF_THE_LEASE and env.phase == "env"
    env.close()
    assert happened() == OF_THE_LEASE


def test_it_follows_verify_and_also_a_setup_that_is_not_the_class_s_own() -> None:
    order = []

    class Tidy(VerifierEnv):
        def verify(self, task: Any, episode: Any) -> float:
            order.append("verify")
            return 1.0

        def teardown(self, task: Any, episode: Any) -> None:
            order.append(("teardown", self.phase, episode.turn))

    env = Tidy(tasks=[row()])
    env.reset()
    env.step(DONE)
    assert order == ["verify", ("teardown", "teardown", 1)]


def test_truncated_episodes_are_torn_down() -> None:
    env = leased()
    env.reset()
    assert env.step(response(message_item("d"), status="incomplete"))[2:4] == (False, True)
    env.max_turns = 1
    env.reset()
    assert env.step(USE)[2:4] == (False, True)
    assert happened() == OF_THE_LEASE * 2


@pytest.mark.parametrize("hook", ["respond", "verify"])
@pytest.mark.parametrize(
    "trap, error",
    [("raise", ArithmeticError), ("raise later", ArithmeticError), ("exit", SystemExit), ("exit later", SystemExit)],
)
def test_a_hook_that_fails_ends_the_episode(hook: str, trap: str, error: type[BaseException]) -> None:
    env = leased(**{hook: trap})
    env.reset()
    with pytest.raises(error):
        env.step(DONE)
    assert happened() == OF_THE_LEASE and env.phase == hook
    with pytest.raises(ResetNeeded):
        env.step(DONE)


@pytest.mark.parametrize("trap", ["raise", "raise later"])
def test_a_setup_that_fails_has_nothing_to_tear_down(trap: str) -> None:
    env = leased(setup=trap)
    with pytest.raises(ArithmeticError):
        env.reset()
    env.close()
    assert happened() == []


def test_an_invalid_action_does_not_end_the_episode() -> None:
    env = leased()
    env.reset()
    with pytest.raises(InvalidAction):
        env.step("done")
    assert happened() == ["setup"]
    env.step(DONE)
    assert happened() == OF_THE_LEASE


def test_a_reset_in_the_midst_of_an_episode_tears_it_down_first() -> None:
    env = leased(teardown="pause")
    env.reset()
    env.step(USE)
    env.reset()
    assert happened() == [*OF_THE_LEASE, "setup"]
    with pytest.raises(IndexError):
        env.reset(options={"task_index": 3})
    assert happened() == OF_THE_LEASE * 2


def test_close_tears_down_once_and_the_environment_can_be_used_again() -> None:
    env = leased(verify="judge", teardown="judge")
    for _ in range(2):
        env.reset()
        env.close()
        env.close()
        with pytest.raises(ResetNeeded):
            env.step(DONE)
    assert happened() == ["setup", "teardown", "open", "torn down", "closed"] * 2 and open_resources() == []


def test_a_teardown_that_fails_at_the_end_is_the_step_s_error() -> None:
    env = leased(teardown="raise later")
    env.reset()
    with pytest.raises(ArithmeticError, match="a bug"):
        env.step(DONE)
    assert env.phase == "teardown" and happened() == ["setup", "teardown"]
    env.close()
    assert happened() == ["setup", "teardown"]


@pytest.mark.parametrize("trap", ["raise", "raise later"])
def test_a_teardown_that_fails_after_another_error_is_a_note_on_it_and_logged(trap: str, caplog: Any) -> None:
    env = leased(verify="raise", teardown=trap)
    env.reset()
    with pytest.raises(ArithmeticError, match="a bug in verify") as caught:
        env.step(DONE)
    (note,) = caught.value.__notes__
    assert note.startswith("teardown failed, too: ArithmeticError: a bug")
    assert note in caplog.text and env.phase == "verify" and happened() == ["setup", "teardown"]


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("driven", [False, True])
def test_a_teardown_that_hangs_is_given_up_and_reported(deaf: bool, driven: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(run_teardowns, "TEARDOWN_SECONDS", 0.05)
    monkeypatch.setattr("gym_llm.concurrency.bridge._GRACE", 0.05)
    give_in: list[Any] = []

    class Hanging(Leased):
        async def teardown(self, task: Any, episode: Any) -> None:
            while not give_in:
                try:
                    await asyncio.sleep(0.01 if deaf else 1e9)
                except asyncio.CancelledError:
                    if not deaf:
                        raise

    def episode() -> None:
        env = Hanging(tasks=[row()])
        env.reset()
        with pytest.raises(TimeoutError, match=r"longer than 0\.05 seconds"):
            env.step(DONE)
        assert env.phase == "teardown"

    async def in_loop() -> None:
        await drive(episode)
        give_in.append(True)

    if driven:
        asyncio.run(in_loop())
    else:
        episode()


def test_mixed_hands_it_to_its_members() -> None:
    tasks = [
        row(env_id="test/Leased-v0", traps={"verify": "judge"}),
        row("2+2?", env_id="gym_llm/Arithmetic-v0", expected_answer="4"),
    ]
    env: Any = gym.make("gym_llm/Mixed-v0", tasks=tasks)
    env.reset(options={"task_index": 0})
    assert env.unwrapped.open_episode is not None
    env.reset(options={"task_index": 1})
    assert happened() == OF_THE_LEASE and env.unwrapped.open_episode is None
    env.reset(options={"task_index": 0})
    env.step(DONE)
    assert happened() == [*OF_THE_LEASE, "setup", "open", "teardown", "torn down"]
    env.reset(options={"task_index": 0})
    env.close()
    assert happened()[-4:] == [*OF_THE_LEASE, "closed"] and open_resources() == []


# -- one episode of a rollout ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "traps, error, phase",
    [
        ({"setup": "raise"}, "ArithmeticError: a bug in setup", "setup"),
        ({"setup": "no judge"}, "EngineError: the judge does not answer", "setup"),
        ({"respond": "raise"}, "ArithmeticError: a bug in respond", "respond"),
        ({"verify": "raise later"}, "ArithmeticError: a bug", "verify"),
        ({"verify": "no judge"}, "EngineError: the judge does not answer", "verify"),
        ({"verify": "exit", "teardown": "raise"}, "SystemExit: 3", "verify"),
        ({"teardown": "raise"}, "ArithmeticError: a bug in teardown", "teardown"),
        ({"teardown": "exit later"}, "SystemExit: 3", "teardown"),
        ({"tool": "raise"}, "ArithmeticError: a bug in tool", "tool"),
        ({}, None, None),
    ],
)
def test_a_record_says_where_its_error_arose(traps: dict[str, str], error: str | None, phase: str | None) -> None:
    record = asyncio.run(played(leased(**traps)))
    assert (record["error"], record["error_phase"]) == (error, phase)
    assert record["reward"] == (None if error else 1.0)
    assert record["outcome"] == ("masked" if error else "scored")
    assert record["traceback"].startswith("Traceback") if error else record["traceback"] is None
    counts = Counter(happened())
    assert counts["setup"] == counts["teardown"] == (phase != "setup")


@pytest.mark.parametrize("second, error", [("fail", "no server"), ("bug", "KeyError: 'bug'")])
def test_an_engine_that_fails_is_the_engine_s_error_and_the_episode_is_torn_down(second: str, error: str) -> None:
    record = asyncio.run(played(leased(teardown="pause"), Says(second)))
    assert (record["error"], record["error_phase"]) == (error, "engine") and happened() == OF_THE_LEASE


def test_an_error_in_no_phase_has_none_even_after_one_that_had() -> None:
    env = leased(verify="raise")

    async def main() -> list[Any]:
        jobs = [Job(0, 0), Job(7, 0)]
        return [await play_episode(env, Says(), job, RolloutSettings()) for job in jobs]

    verifier, missing = asyncio.run(main())
    assert verifier["error_phase"] == "verify"
    assert "IndexError" in missing["error"] and missing["error_phase"] is None


@pytest.mark.parametrize("teardown, error", [("pause", None), ("raise", "ArithmeticError: a bug in teardown")])
def test_an_episode_that_a_wrapper_cuts_short_is_torn_down(teardown: str, error: str | None) -> None:
    env = gym.wrappers.TimeLimit(leased(teardown=teardown), 1)
    record = asyncio.run(played(env))
    assert record["truncated"] and record["error"] == error
    assert record["error_phase"] == ("teardown" if error else None) and "teardown" in happened()


def test_an_episode_whose_wrapper_fails_is_torn_down() -> None:
    class Broken(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            self.env.step(action)
            raise KeyError("wrapper")

    record = asyncio.run(played(Broken(leased(teardown="pause"))))
    assert (record["error"], record["error_phase"]) == ("KeyError: 'wrapper'", None) and happened() == OF_THE_LEASE


@pytest.mark.parametrize("hook", ["engine", "setup", "tool", "respond", "verify", "teardown"])
def test_a_cancelled_episode_is_torn_down_to_the_end_however_often_it_is_cancelled(hook: str) -> None:
    async def main() -> None:
        env = leased(**({"teardown": "pause"} | ({} if hook in ("engine", "teardown") else {hook: "hang"})))
        engine = Says("wait" if hook == "engine" else "done")
        playing = asyncio.create_task(played(env, engine))
        while env.phase != hook and not (hook == "engine" and engine.asked.is_set()):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        for _ in range(20):
            playing.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await playing
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert happened() == ([] if hook == "setup" else OF_THE_LEASE)


def test_a_teardown_that_fails_in_a_cancelled_episode_is_logged(caplog: Any) -> None:
    async def main() -> None:
        engine = Says("wait")
        playing = asyncio.create_task(played(leased(teardown="raise later"), engine))
        await engine.asked.wait()
        playing.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await playing
        assert "teardown failed, too: ArithmeticError" in caught.value.__notes__[0]

    asyncio.run(main())
    assert "After CancelledError" in caplog.text


# -- many --------------------------------------------------------------------------------------------------------------


def worker(tasks: list[Any], num_envs: int, settings: RolloutSettings, engine: Engine | None = None) -> EpisodeWorker:
    return EpisodeWorker(EnvSlots(EnvFactory("test/Leased-v0", tasks=tasks), num_envs), engine or Says(), settings)


class Slow(Leased):
    """Takes 0.3 seconds to tear down."""

    async def teardown(self, task: Any, episode: Any) -> None:
        self.note("teardown", episode.state)
        await asyncio.sleep(0.3)
        self.note("torn down", episode.state)


@pytest.fixture
def slow() -> Iterator[str]:
    gym.register("test/Slow-v0", Slow)
    yield "test/Slow-v0"
    gym.registry.pop("test/Slow-v0")


@pytest.mark.parametrize("hook", ["setup", "tool", "respond", "verify", ""])
def test_a_step_that_takes_too_long_is_torn_down_outside_of_its_time(slow: str, hook: str) -> None:
    """A teardown that is slow but ends is not given up for it, and costs nobody an episode."""
    traps = {hook: "hang"} if hook else {}

    async def main() -> Any:
        shard = EnvSlots(EnvFactory(slow, tasks=[row(traps=traps)]), 1)
        playing = EpisodeWorker(shard, Says(), RolloutSettings(step_timeout=0.1))
        ((_, record),) = await playing.submit_and_poll([Job(0, 0)])
        await playing.aclose()
        await shard.aclose()
        return record

    record = asyncio.run(main())
    if hook:
        assert record["error"] == f"StepTimeout: {StepTimeout()}" and record["error_phase"] == hook
    else:
        assert record["error"] is None and record["reward"] == 1.0
    assert happened() == ([] if hook == "setup" else OF_THE_LEASE)


def test_a_vector_s_slow_teardown_leaves_its_step_the_reward(slow: str) -> None:
    async def main() -> Any:
        shard = EnvSlots(EnvFactory(slow, tasks=[row(traps={"tool": "wait"})]), 1, step_timeout=0.1)
        for order in (Reset(), USE, DONE):
            shard.submit([0], [order])
            await shard.wait_ready(1)
            (outcome,) = shard.take()
        await shard.aclose()
        return outcome

    outcome = asyncio.run(main())
    assert outcome.error is None and (outcome.reward, outcome.terminated) == (1.0, True)
    assert happened() == OF_THE_LEASE


def test_a_run_that_is_left_tears_down_what_is_under_way_and_closes_what_was_shared() -> None:
    tasks = [row(traps={"setup": "judge", "verify": "hang", "teardown": "judge"})] * 8

    async def main() -> None:
        envs = EnvFactory("test/Leased-v0", tasks=tasks)
        from gym_llm.rollouts.play import open_local_workers

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), open_local_workers(envs, 8, Says(), {}, RolloutSettings()) as workers:
                await workers[0].submit_and_poll([Job(n, 0) for n in range(8)])
        assert open_resources() == [] and asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert Counter(happened()) == {"open": 1, "setup": 8, "teardown": 8, "torn down": 8, "closed": 1}


def test_waiting_counts_name_the_hooks() -> None:
    async def main() -> dict[str, int]:
        traps = [{hook: "hang"} for hook in ("setup", "tool", "respond", "verify")]
        playing = worker([row(traps=each) for each in traps], 4, RolloutSettings(step_timeout=None))
        exchange = asyncio.create_task(playing.submit_and_poll([Job(n, 0) for n in range(4)]))
        while (counts := await playing.waiting()) != {"setup": 1, "tool": 1, "respond": 1, "verify": 1}:
            await asyncio.sleep(0)
        await playing.aclose()
        await exchange
        return counts

    assert sum(asyncio.run(main()).values()) == 4


@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("notebook", [False, True])
def test_closing_a_vector_environment_tears_down_what_is_under_way(waited: bool, notebook: bool) -> None:
    """Slots that wait in a hook, that wait for an action, and that were never asked to wait."""
    tasks = [row(traps=traps) for traps in ({"tool": "hang"}, {"teardown": "judge"}, {"teardown": "pause"}, {})]

    def use() -> None:
        envs = LocalVectorEnv("test/Leased-v0", 4, tasks=tasks)
        envs.reset(options={"task_index": [0, 1, 2, 3]})
        envs.send([USE, USE], [0, 1])
        if waited:
            envs.recv(min_size=1)
        envs.close()
        assert open_resources() == []

    async def in_loop() -> None:
        use()

    if notebook:
        asyncio.run(in_loop())
    else:
        use()
    assert Counter(happened()) == {"setup": 4, "teardown": 4, "torn down": 4, "open": 1, "closed": 1}


def test_closing_a_vector_environment_closes_all_and_then_raises_what_one_raised() -> None:
    envs = LocalVectorEnv("test/Leased-v0", 3, tasks=[row(traps={"teardown": "raise"}), row()])
    envs.reset(options={"task_index": [1, 0, 1]})
    with pytest.raises(ArithmeticError, match="a bug in teardown"):
        envs.close()
    assert envs.closed and Counter(happened()) == {"setup": 3, "teardown": 3, "torn down": 2}


def test_a_vector_environment_that_cannot_be_closed_here_loses_nothing() -> None:
    async def elsewhere(envs: LocalVectorEnv) -> None:
        with pytest.raises(RuntimeError, match="close it outside"):
            envs.close()

    envs = LocalVectorEnv("test/Leased-v0", 2, tasks=[row(traps={"tool": "pause"})])
    envs.reset()
    envs.send([USE, USE], [0, 1])
    envs.recv(min_size=1)
    asyncio.run(elsewhere(envs))
    assert not envs.closed and "teardown" not in happened()
    envs.close()
    assert Counter(happened()) == {"setup": 2, "teardown": 2, "torn down": 2}


def test_a_teardown_that_is_cancelled_from_within_fails_its_episode_alone() -> None:
    class Scoped(Leased):
        def teardown(self, task: Any, episode: Any) -> Any:
            raise asyncio.CancelledError

    record = asyncio.run(played(Scoped(tasks=[row(traps={})])))
    assert (record["error_phase"], record["reward"]) == ("teardown", None) and "from within" in record["error"]


def test_rollouts_of_a_vector_environment_share_until_it_is_closed() -> None:
    tasks = [row(traps={"verify": "judge"})] * 4

    async def main() -> None:
        envs = LocalVectorEnv("test/Leased-v0", 4, tasks=tasks)
        for _ in range(2):
            records = envs.rollout(Says(), [Job(n, 0) for n in range(4)])
            assert [record["reward"] async for record in records] == [1.0] * 4
        assert happened().count("open") == 1 and happened().count("closed") == 0
        envs.close()
        while open_resources():
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert happened().count("closed") == 1


def test_a_shard_s_process_tears_down_on_its_loop_when_it_is_closed() -> None:
    tasks = [row(traps={"tool": "hang", "teardown": "judge"})] * 3

    async def main() -> None:
        shard = ShardActor(ShardConfig(gym.spec("test/Leased-v0"), 3, tasks, step_timeout=None))
        await shard.submit_and_poll(pack([0, 1, 2], [Reset()] * 3), 3)
        await shard.submit_and_poll(pack([0, 1], [USE, USE]), 0)
        await shard.close()
        assert open_resources() == [] and asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert Counter(happened()) == {"setup": 3, "teardown": 3, "torn down": 3, "open": 1, "closed": 1}


def test_a_batch_player_shares_between_batches_and_closes_at_the_end() -> None:
    player = EnvPool(
        EnvFactory("test/Leased-v0", tasks=[row(traps={"verify": "judge"})]), env_wrappers=(), concurrency=2
    )
    for _ in range(2):
        assert [record["reward"] for record in player.play_all([Job(0, 0), Job(0, 1)], Says())] == [1.0, 1.0]
    assert open_resources() == ['["judge", {"model": "strict"}]']
    player.close()
    assert Counter(happened()) == {"setup": 4, "teardown": 4, "torn down": 4, "open": 1, "closed": 1}
    assert open_resources() == []


def test_trl_s_environments_are_torn_down_by_the_answer_a_failure_the_next_reset_and_the_end() -> None:
    traps = [{"verify": "judge"}, {"verify": "raise"}, {"teardown": "pause"}, {"tool": "hang", "teardown": "pause"}]
    factory = EnvironmentFactory("test/Talks-v0", tasks=[row(traps=each) for each in traps])
    answered, failed, left, dropped = (factory() for _ in range(4))
    for number, environment in enumerate((answered, failed, left, dropped)):
        environment.reset(task_index=number)
    answered.use()
    said = [{"role": "assistant", "content": "done"}]
    assert factory.reward([said, said], environments=[answered, failed]) == [1.0, None]
    assert Counter(happened()) == {"setup": 4, "open": 1, "teardown": 2, "torn down": 2}
    left.reset(task_index=2)
    assert Counter(happened())["torn down"] == 3
    del answered, failed, left, dropped, environment
    gc.collect()
    assert Counter(happened()) == {"setup": 5, "open": 1, "teardown": 5, "torn down": 5, "closed": 1}
    assert open_resources() == []


# -- everything at once ------------------------------------------------------------------------------------------------


class Moody(Engine):
    """Uses the tool or not, and fails now and then."""

    model = "moody"

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        mood = self.rng.random()
        if mood < 0.02:
            raise EngineError("not now")
        await asyncio.sleep(0 if mood < 0.8 else 0.01)
        return response(*(USE if mood < 0.5 and len(request["input"]) < 5 else DONE))


async def run_for_a_while(rng: random.Random, tasks: list[Any]) -> None:
    """Play the tasks, all of them or until the run is left or cancelled."""
    shard = EnvSlots(EnvFactory("test/Leased-v0", tasks=tasks), 128)
    playing = EpisodeWorker(shard, Moody(rng), RolloutSettings(step_timeout=0.1))
    jobs = {Job(n, 0) for n in range(len(tasks))}
    leaving = rng.choice(("never", "at once", "in time"))
    try:
        async with (
            asyncio.timeout(rng.uniform(0.0, 0.5) if leaving == "in time" else None),
            aclosing(schedule([playing], sorted(jobs))) as records,
        ):
            async for record in records:
                jobs.remove(Job(**record["rollout_id"]))
                if leaving == "at once" and rng.random() < 0.01:
                    break
            else:
                assert not jobs
    except TimeoutError:
        pass
    finally:
        await playing.aclose()
        await shard.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def step_for_a_while(rng: random.Random, tasks: list[Any]) -> None:
    """Step a vector environment as a loop of one's own does, and close it in the midst of everything."""
    envs = LocalVectorEnv(
        "test/Leased-v0", 32, tasks=[each for each in tasks if not {"exit", "exit later"} & {*each["traps"].values()}]
    )
    free = list(range(32))
    for _ in range(rng.randrange(2, 12)):
        for slot in free:
            if envs._over[slot] or rng.random() < 0.2:
                envs.async_reset([slot], options={"task_index": rng.randrange(envs.get_attr("num_tasks")[0])})
            else:
                envs.send([rng.choice((USE, DONE))], [slot])
        try:
            envs.recv(min_size=1, timeout=0.01)
        except Exception:  # a hook's, or there is no episode: its hook has failed before
            pass
        free = [slot for slot in range(32) if not envs._busy[slot]]
    try:
        envs.close()
    except (ArithmeticError, EngineError, TimeoutError):
        pass


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # tools whose tasks had not begun
def test_of_many_episodes_with_everything_going_wrong_each_is_torn_down_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(run_teardowns, "TEARDOWN_SECONDS", 0.05)
    rng = random.Random(9)
    gc.disable()  # a coroutine found in the midst of a named tuple's constructor cannot warn: that has no `__import__`
    try:
        while happened().count("setup") < often(3_000, 10_000):
            tasks = [row(traps=random_traps(rng, 0.05)) for _ in range(1_000)]
            if rng.random() < 0.3:
                step_for_a_while(rng, tasks)
            else:
                asyncio.run(run_for_a_while(rng, tasks))
            assert open_resources() == []
            gc.collect()
    finally:
        gc.enable()
    by_event = {event: [number for one, number in Leased.log if one == event] for event in set(happened())}
    assert sorted(by_event["setup"]) == sorted(by_event["teardown"]) == sorted(set(by_event["teardown"]))
    assert sorted(by_event["open"]) == sorted(by_event["closed"])
    assert 0.9 * len(by_event["setup"]) < len(by_event["torn down"]) < len(by_event["setup"])


class Talks(Leased):
    """Without an answer as the user, which TRL has no place for."""

    user_turn = VerifierEnv.user_turn


gym.register("test/Talks-v0", Talks)
