"""`teardown` and shared resources in shards, whose processes write down what happens in them."""

import asyncio
import json
import os
import random
import signal
from collections import Counter

import pytest
from testing import function_call, message, row
from vector_envs import random_traps

from gym_llm.errors import StepTimeout
from gym_llm.rollouts.plan import Job
from gym_llm.vector.ray_vector_env import RayVectorEnv

pytestmark = pytest.mark.usefixtures("ray")
USE, DONE = [function_call("use")], message("done")


def happened(folder):
    """What each process has written down: how often each event, and of what; by the process's number."""
    return {
        int(file.name): [line.rsplit(" ", 1) for line in file.read_text().splitlines()] for file in folder.iterdir()
    }


def unbalanced(events):
    """The leases that were not given back exactly once, and the resources that were not closed."""
    of = {name: Counter(number for event, number in events if event == name) for name in {event for event, _ in events}}
    empty = Counter()
    doubled = [lease for lease, times in of.get("teardown", empty).items() if times > 1]
    left = of.get("setup", empty) - of.get("teardown", empty) + (of.get("open", empty) - of.get("closed", empty))
    return [*left, *doubled]


@pytest.fixture
def make(tmp_path):
    """Makes vector environments that write into a folder, and closes them after the test."""
    made = []

    def make_one(tasks, **kwargs):
        folder = tmp_path / "happened"
        folder.mkdir(exist_ok=True)
        made.append(RayVectorEnv("test/Leased-v0", tasks=tasks, env_kwargs={"folder": str(folder)}, **kwargs))
        return made[-1], folder

    yield make_one
    for envs in made:
        envs.close()


def test_code_that_never_returns_is_torn_down_when_the_watchdog_interrupts_it(make):
    tasks = [row(traps={"verify": "loop", "teardown": "judge"}), row(traps={"setup": "loop"}), row(traps={})]
    envs, folder = make(tasks, num_envs=3, num_shards=1, step_timeout=1.0)
    envs.async_reset(options={"task_index": [0, 1, 2]})
    *_, infos = envs.recv()
    assert "step_timeout" in infos["error"][list(infos["env_id"]).index(1)]
    envs.send([DONE, DONE], [0, 2])
    *_, infos = envs.recv()
    assert "step_timeout" in infos["error"][list(infos["env_id"]).index(0)]
    envs.close()
    ((_, events),) = happened(folder).items()
    assert Counter(event for event, _ in events) == {"setup": 2, "teardown": 2, "torn down": 2, "open": 1, "closed": 1}


def test_closing_a_vector_environment_tears_down_in_its_processes(make):
    tasks = [row(traps={"tool": "hang", "teardown": "judge"})] * 6
    envs, folder = make(tasks, num_envs=6, num_shards=2)
    envs.reset(seed=0)
    envs.send([USE] * 3, [0, 2, 4])
    envs.close()
    logs = happened(folder)
    assert len(logs) == 2 and [unbalanced(events) for events in logs.values()] == [[], []]
    assert Counter(event for events in logs.values() for event, _ in events)["torn down"] == 6


def test_of_ten_thousand_episodes_in_processes_that_are_killed_each_is_torn_down_once(ray, make, tmp_path):
    rng = random.Random(9)
    tasks = [row(traps=random_traps(rng, 0.02)) for _ in range(10_000)]
    for task in tasks:
        if task["traps"].get("teardown") == "hang":  # that takes half a minute
            task["traps"]["teardown"] = "pause"
    recorded = tmp_path / "recorded.jsonl"
    with recorded.open("w") as file:
        for number in range(len(tasks)):
            if rng.random() < 0.02:
                continue  # the engine fails
            used = {"type": "function_call_output", "call_id": "call_1", "output": "used"}
            output = [*USE, used, *DONE]
            record = {
                "rollout_id": {"task_index": number, "repeat_index": 0},
                "reward": 1.0,
                "responses_create_params": {"input": tasks[number]["responses_create_params"]["input"]},
                "response": {"output": output if rng.random() < 0.5 else output[-1:], "status": "completed"},
            }
            file.write(json.dumps(record) + "\n")
    envs, folder = make(tasks, num_envs=512, num_shards=2, step_timeout=3.0)
    killed = []

    async def run(jobs, leave_after=None):
        records = []
        async for record in envs.rollout(f"replay:{recorded}", jobs):
            records.append(record)
            if len(records) % 700 == 0 and len(killed) < 4:
                shard = envs._shards[len(killed) % 2]
                killed.append((await shard.actor.describe.remote())["pid"])
                os.kill(killed[-1], signal.SIGKILL)
            if len(records) == leave_after:
                break
        return records

    jobs = [Job(number, 0) for number in range(len(tasks))]
    left = asyncio.run(run(jobs, leave_after=1_000))
    records = asyncio.run(run(jobs[len(left) :]))
    assert len({tuple(record["rollout_id"].values()) for record in records}) == len(records) == 9_000
    errors = Counter(record["error_phase"] for record in records if record["error"])
    elsewhere = {record["error"] for record in records if record["error"] and not record["error_phase"]}
    assert elsewhere <= {f"StepTimeout: {StepTimeout()}"}  # the watchdog's, on a machine that is very busy
    assert errors.keys() >= {"engine", "setup", "tool", "respond", "verify", "teardown"} and len(killed) == 4
    alive = [description["pid"] for description in ray.get([shard.actor.describe.remote() for shard in envs._shards])]
    envs.close()
    logs = happened(folder)
    alive_logs = [logs.get(number, []) for number in alive]  # one that started late may have played nothing
    assert [unbalanced(events) for events in alive_logs] == [[], []]
    assert sum(event == "setup" for events in alive_logs for event, _ in events) > 4_000
    assert sum(event == "setup" for events in logs.values() for event, _ in events) > 9_000
