"""Two machines (two Ray nodes on this one): shards on both, and one of them dies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import durable_over_ray
import pytest
from testing import message_item

HERE = Path(__file__).parent
EPISODES = 600
SECONDS = 300.0


def run_alone(script, *arguments):
    """What a script prints, in a process of its own."""
    command = [sys.executable, "-P", str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=dict(os.environ), check=False)
    if done.returncode:
        pytest.fail(done.stdout[-2000:] + done.stderr[-3000:])
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


@pytest.mark.slow
def test_shards_are_on_both_nodes_and_a_node_that_dies_costs_nothing(ray, tmp_path):
    recording = tmp_path / "recorded.jsonl"
    with recording.open("w") as file:
        for n in range(EPISODES):
            episode = {
                "rollout_id": {"task_index": n, "repeat_index": 0},
                "responses_create_params": {"input": [{"role": "user", "content": f"Task {n}"}]},
                "response": {"output": [message_item("done")], "status": "completed"},
            }
            file.write(json.dumps(episode) + "\n")
    found = run_alone("two_nodes.py", str(recording))
    assert len(set(found["nodes_before"])) == 2
    assert found["nodes_before"].count(found["nodes_before"][0]) == 8
    assert found["lockstep"] == [float(n) for n in range(16)]
    assert len(set(found["nodes_after"])) == 1 and set(found["nodes_after"]) < set(found["nodes_before"])
    assert sorted(found["records"]) == [[n, float(n), None] for n in range(EPISODES)]


@pytest.mark.slow
@pytest.mark.nightly
def test_a_trainers_engine_is_on_its_machine_and_the_other_machines_are_told_an_address_that_they_reach(ray):
    found = run_alone("beside_driver.py")
    assert set(found["engines"]) == {found["driver"]}
    assert found["served"].startswith(f"http://{found['address']}:")


@pytest.mark.slow
@pytest.mark.nightly
def test_episodes_go_on_when_a_node_dies(ray, tmp_path):
    found = run_alone(str(durable_over_ray.__file__), str(tmp_path))
    assert found["nodes"] == 1
    assert found["rewards"] == [1.0] * durable_over_ray.TASKS
    used, again = found["asked_again"]
    assert used == 0 and again <= 6
