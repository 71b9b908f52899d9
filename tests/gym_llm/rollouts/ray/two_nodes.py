"""Two Ray nodes on this machine, one of which dies. A process of its own: a process has one Ray. Prints JSON."""

import asyncio
import json
import os
import sys
import threading
import time

import psutil
import vector_envs
from ray.cluster_utils import Cluster

from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.ray.connection import connect
from gym_llm.vector.ray_vector_env import RayVectorEnv

EPISODES = 600
DONE = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}]


def main(recording: str) -> None:
    """Play in lockstep, then whole episodes, and kill the second node in their midst."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    ray = connect(cluster.address)
    tasks = vector_envs.rows(EPISODES)
    with RayVectorEnv("test/Hostile-v0", 16, tasks=tasks) as envs:
        before = envs.get_attr("node")
        envs.reset(options={"task_index": list(range(16))})
        lockstep = envs.step([DONE] * 16)[1].tolist()
        records = []

        async def play() -> None:
            async for record in envs.rollout(f"replay:{recording}", [Job(n, 0) for n in range(EPISODES)]):
                records.append(record)
                if len(records) == 100:
                    await asyncio.to_thread(cluster.remove_node, second, False)

        asyncio.run(asyncio.wait_for(play(), 120))
        after = envs.get_attr("node")
        deadline = time.monotonic() + 30
        while len(set(after)) > 1 and time.monotonic() < deadline:  # processes outlive their node for a moment
            time.sleep(0.1)
            after = envs.get_attr("node")
    found = {
        "num_shards": envs.num_shards,
        "nodes_before": before,
        "nodes_after": after,
        "lockstep": lockstep,
        "records": [(r["rollout_id"]["task_index"], r["reward"], r["error"]) for r in records],
    }
    print(json.dumps(found), flush=True)
    closing = threading.Thread(target=lambda: (ray.shutdown(), cluster.shutdown()), daemon=True)
    closing.start()
    closing.join(30)  # Ray can wait for ever for the node that was killed
    for process in psutil.Process().children(recursive=True):
        process.kill()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
