"""What dies or hangs costs its own episodes at most: in `rollout` nothing is lost, doubled or wrong."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from testing import function_call, message, message_item
from vector_envs import rows

from gym_llm.errors import DataError, EngineUnavailable, RayUnavailable
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray import connection as ray_session
from gym_llm.rollouts.ray import local_cluster as own
from gym_llm.rollouts.ray.connection import connect
from gym_llm.vector.ray_vector_env import RayVectorEnv

pytestmark = pytest.mark.usefixtures("ray")
DONE = message("done")


@pytest.fixture
def make():
    """Makes vector environments and closes them after the test."""
    made = []

    def make_one(env_id="test/Hostile-v0", num_envs=4, num_shards=2, **kwargs):
        made.append(RayVectorEnv(env_id, num_envs, num_shards=num_shards, **kwargs))
        return made[-1]

    yield make_one
    for envs in made:
        envs.close()


@pytest.fixture
def engine(tmp_path):
    """A recording in which the model says one word in every episode."""
    path = tmp_path / "recorded.jsonl"

    def record(tasks, repeats=1):
        with path.open("w") as file:
            for task in range(len(tasks)):
                for repeat in range(repeats):
                    episode = {
                        "rollout_id": {"task_index": task, "repeat_index": repeat},
                        "responses_create_params": {"input": tasks[task]["responses_create_params"]["input"]},
                        "response": {"output": [message_item("done")], "status": "completed"},
                    }
                    file.write(json.dumps(episode) + "\n")
        return f"replay:{path}"

    return record


def played(envs, engine, jobs, **kwargs):
    """All records of a rollout."""

    async def gather():
        return [record async for record in envs.rollout(engine, jobs, **kwargs)]

    return asyncio.run(gather())


def pid(ray, shard):
    return ray.get(shard.actor.describe.remote())["pid"]


def kill(ray, envs, number):
    """Kill -9 a shard's process and wait until it is gone."""
    victim = pid(ray, envs._shards[number])
    os.kill(victim, signal.SIGKILL)
    while os.path.exists(f"/proc/{victim}"):
        time.sleep(0.005)


def rewards(records):
    """Rewards by task; every task exactly once, without an error."""
    assert [record["error"] for record in records if record["error"]] == []
    found = {record["rollout_id"]["task_index"]: record["reward"] for record in records}
    assert len(found) == len(records)
    return found


def test_killing_every_shard_in_turn_ten_times_loses_and_doubles_nothing(ray, make, engine):
    tasks = rows(4096)
    envs = make(num_envs=256, tasks=tasks)
    killed = []

    async def run():
        records = []
        async for record in envs.rollout(engine(tasks), (Job(n, 0) for n in range(len(tasks)))):
            records.append(record)
            if len(records) % 350 == 0 and len(killed) < 10:
                shard = envs._shards[len(killed) % 2]
                killed.append((await shard.actor.describe.remote())["pid"])
                os.kill(killed[-1], signal.SIGKILL)
        return records

    found = rewards(asyncio.run(run()))
    assert found == {n: float(n) for n in range(len(tasks))}
    assert len(set(killed)) == 10


def test_a_step_after_a_kill_comes_back_truncated_and_other_shards_go_on(ray, make):
    envs = make("test/Odd-v0", 4)
    asked, _ = envs.reset(seed=1)
    look = [function_call("look")]
    envs.step([look] * 4)
    kill(ray, envs, 0)
    observations, reward, terminated, truncated, infos = envs.step([look] * 4)
    assert truncated.tolist() == [True, True, False, False] and not terminated.any()
    assert np.isnan(reward).tolist() == truncated.tolist() and not np.nansum(reward)
    assert infos["outcome"].tolist() == ["masked"] * 2 + [None] * 2 and infos["failure_kind"][0] == "kill_shaped"
    assert infos["_error"].tolist() == truncated.tolist() and "lost" in infos["error"][0]
    assert [len(observation["input"]) for observation in observations] == [
        3,
        3,
        5,
        5,
    ]  # as last seen; the others went on
    envs.reset(seed=9, options={"reset_mask": truncated})
    _, reward, terminated, _, infos = envs.step([DONE] * 4)
    assert terminated.all() and "error" not in infos
    assert reward[2:].tolist() == [int(a["input"][0]["content"].split()[1]) for a in asked[2:]]


def test_a_kill_between_steps_is_noticed_in_the_next_one_and_next_step_autoreset_begins_again(ray, make):
    envs = make("test/Odd-v0", 4, autoreset_mode="NextStep")
    envs.reset(seed=1)
    kill(ray, envs, 1)
    assert envs.get_attr("colour") == ("red",) * 4  # a new process has taken over
    assert envs.step([DONE] * 4)[3].tolist() == [False, False, True, True]
    _, _, terminated, truncated, infos = envs.step([DONE] * 4)
    assert not terminated.any() and not truncated.any() and infos["turn"].tolist() == [0] * 4
    assert envs.step([DONE] * 4)[2].all()


def test_with_same_step_autoreset_a_lost_slot_is_already_in_its_next_episode(ray, make):
    envs = make("test/Odd-v0", 4, autoreset_mode="SameStep")
    before, _ = envs.reset(seed=1)
    kill(ray, envs, 0)
    observations, _, _, truncated, infos = envs.step([DONE] * 4)
    assert truncated.tolist() == [True, True, False, False]
    assert infos["_error"].tolist() == truncated.tolist()
    assert infos["final_obs"][0] == before[0] and "lost" in infos["final_info"]["error"][0]
    assert len(observations[0]["input"]) == 1 and infos["turn"].tolist() == [0] * 4
    assert envs.step([DONE] * 4)[2].all()


def test_a_reset_that_dies_is_done_again(ray, make):
    envs = make("test/Odd-v0", 4)
    kill(ray, envs, 0)
    kill(ray, envs, 1)
    _, infos = envs.reset(seed=5)
    assert "error" not in infos
    assert envs.step([DONE] * 4)[2].all()


def test_a_shard_that_dies_whenever_it_is_reset_is_an_error_not_an_endless_loop(make):
    envs = make("test/Hostile-v0", 2, num_shards=1, tasks=rows(1, {0: "setup dies"}))
    with pytest.raises(RuntimeError, match="times in a row"):
        envs.reset()


@pytest.mark.parametrize(
    ("trap", "survives"), [("loop", True), ("wait", True), ("stubborn loop", False), ("sleep", False)]
)
def test_a_step_that_hangs_costs_its_deadline(ray, make, trap, survives):
    envs = make(num_envs=4, tasks=rows(4, {1: trap}), step_timeout=1.0)
    envs.reset(options={"task_index": [0, 1, 2, 3]})
    before = [pid(ray, shard) for shard in envs._shards]
    _, reward, _, truncated, infos = envs.step([DONE] * 4)
    assert truncated.tolist() == ([False, True, False, False] if survives else [True, True, False, False])
    assert np.isnan(reward).tolist() == truncated.tolist()  # lost episodes have none: no zero
    assert reward[~truncated].tolist() == ([0.0, 2.0, 3.0] if survives else [2.0, 3.0])
    assert infos["_error"].tolist() == truncated.tolist()
    if survives:
        assert "step_timeout" in infos["error"][1]
        assert [pid(ray, shard) for shard in envs._shards] == before
    envs.reset(options={"task_index": [0, 0, 2, 3]})
    assert envs.step([DONE] * 4)[2].all()


@pytest.mark.parametrize("trap", ["loop", "wait", "raise"])
def test_in_a_rollout_a_step_that_hangs_is_a_record_with_an_error_and_nothing_else_is_lost(ray, make, engine, trap):
    tasks = rows(64, {17: trap})
    envs = make(num_envs=16, tasks=tasks, step_timeout=1.0)
    before = [pid(ray, shard) for shard in envs._shards]
    records = played(envs, engine(tasks), [Job(n, 0) for n in range(64)])
    failed = [record for record in records if record["error"]]
    assert [record["rollout_id"]["task_index"] for record in failed] == [17]
    assert ("ArithmeticError" if trap == "raise" else "step_timeout") in failed[0]["error"]
    assert rewards([r for r in records if not r["error"]]) == {n: float(n) for n in range(64) if n != 17}
    assert [pid(ray, shard) for shard in envs._shards] == before


@pytest.mark.parametrize("trap", ["die", pytest.param("regex", marks=pytest.mark.nightly)])
def test_an_episode_that_takes_its_process_along_is_found_out(ray, make, engine, trap):
    tasks = rows(24, {17: trap})
    envs = make(num_envs=4, tasks=tasks, step_timeout=0.5)
    records = played(envs, engine(tasks), [Job(n, 0) for n in range(24)])
    failed = [record for record in records if record["error"]]
    assert [record["rollout_id"]["task_index"] for record in failed] == [17]
    assert "died" in failed[0]["error"]
    assert rewards([r for r in records if not r["error"]]) == {n: float(n) for n in range(24) if n != 17}


def test_what_a_step_raises_is_raised_here_and_says_where_it_came_from(make):
    envs = make(num_envs=2, tasks=rows(2, {1: "raise"}))
    envs.reset(options={"task_index": [0, 1]})
    with pytest.raises(ArithmeticError, match="a bug in the verifier") as caught:
        envs.step([DONE] * 2)
    assert "raised in a shard's process" in caught.value.__notes__[0] and "Traceback" in caught.value.__notes__[0]


def test_an_info_that_cannot_be_pickled_is_that_slots_error(make):
    envs = make(num_envs=4, tasks=rows(4, {1: "lambda"}))
    envs.reset(options={"task_index": [0, 1, 2, 3]})
    with pytest.raises(TypeError, match="cannot be sent"):
        envs.step([DONE] * 4)
    envs.reset(options={"task_index": [0, 0, 2, 3]})
    assert envs.step([DONE] * 4)[2].all()


def test_wrong_arguments_and_rows_raise_the_original_error():
    with pytest.raises(ValueError, match="broken is not allowed"):
        RayVectorEnv("test/NeedsRow-v0", 4, env_kwargs={"broken": True})
    with pytest.raises(DataError, match="responses_create_params"):
        RayVectorEnv("test/Odd-v0", 4, tasks=[{"number": 1}])
    with pytest.raises(TypeError, match="surprise"):
        RayVectorEnv("test/Odd-v0", 4, env_kwargs={"surprise": 1})
    with pytest.raises(ValueError, match="step_timeout"):
        RayVectorEnv("test/Odd-v0", 4, step_timeout=0)


def test_an_engine_that_cannot_be_used_raises_what_it_raises_in_process(make, tmp_path):
    envs = make("test/Odd-v0", 2, num_shards=1)
    with pytest.raises(EngineUnavailable, match="Cannot read"):
        played(envs, f"replay:{tmp_path}/nothing.jsonl", [Job(0, 0)])


def test_more_shards_than_cpus_and_several_vectors_at_once_do_not_wait_for_a_cpu(make):
    first, second = make("test/Odd-v0", 5, num_shards=5), make("test/Odd-v0", 2)
    for envs in (first, second):
        envs.reset(seed=0)
        assert envs.step([DONE] * envs.num_envs)[2].all()
    assert len(set(first.get_attr("pid"))) == 5


@pytest.fixture
def unconnected(ray, monkeypatch):
    """Ray as if this process were not connected to one; says what it was asked to join or start."""
    asked = []
    monkeypatch.setattr(ray_session, "_own", None)
    monkeypatch.setattr(ray_session, "_watch", None)
    monkeypatch.setattr(ray_session, "_knock", lambda address: None)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **kwargs: asked.append(kwargs["address"]))
    return asked


def test_ray_that_cannot_start_is_one_sentence_with_the_way_out(unconnected, monkeypatch):
    def start(ray):
        raise PermissionError("[Errno 1] Operation not permitted\nmore")

    monkeypatch.setattr(own, "LocalCluster", start)
    with pytest.raises(RayUnavailable, match="LocalVectorEnv, or --workers 0") as caught:
        connect()
    assert "Operation not permitted" in str(caught.value) and "\n" not in str(caught.value)


def test_ray_address_in_the_environment_is_not_looked_at_and_a_cluster_that_was_there_is_not_ended(
    unconnected, monkeypatch
):
    monkeypatch.setenv("RAY_ADDRESS", "nobody.invalid:6379")
    monkeypatch.setattr(own, "LocalCluster", lambda ray: SimpleNamespace(watch=unconnected.append("a Ray of our own")))
    connect()
    monkeypatch.setattr(ray_session, "_own", None)
    connect("somewhere:6379")
    assert unconnected == ["a Ray of our own", "somewhere:6379"]
    assert ray_session._own is None


def test_a_ray_of_our_own_leaves_its_logs_and_nothing_else():
    code = "from gym_llm.rollouts.ray.connection import connect; print(connect().nodes()[0]['Alive'])"
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are too long for Ray's sockets
        environment = {**os.environ, "RAY_TMPDIR": folder}
        run = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        (session,) = Path(folder, "ray").glob("session_2*")
        left = [path.name for path in session.iterdir()]
    assert run.stdout.split() == ["True"]
    assert left == ["logs"]


def test_a_rollout_left_early_stops_the_shards_and_they_can_play_again(make, engine):
    tasks = rows(64)
    envs = make(num_envs=8, tasks=tasks)
    spec = engine(tasks)

    async def first():
        records = envs.rollout(spec, [Job(n, 0) for n in range(64)])
        record = await anext(records)
        await records.aclose()
        return record

    assert asyncio.run(first())["error"] is None
    assert len(played(envs, spec, [Job(n, 0) for n in range(64)])) == 64
    assert threading.active_count() < 50
    assert np.isfinite(envs.reset(seed=0)[1]["turn"]).all()
