"""What of a trainer's engine is where, with two Ray nodes on this machine. A process of its own. Prints JSON."""

import asyncio
import json
from contextlib import AsyncExitStack

from ray._private.state import actors
from ray.cluster_utils import Cluster

from gym_llm import make_engine
from gym_llm.rollouts.ray.connection import connect
from gym_llm.rollouts.ray.shared_engine import shared_engine
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv
from gym_llm.trainers.trl.policy import OneEngine


async def engines_nodes(ray, address: str) -> list[str]:
    """Where engines have been started that are to be on this machine."""
    async with AsyncExitStack() as stack:
        engines = [shared_engine("constant:4", ray_address=address, on_this_machine=True) for _ in range(6)]
        names = [(await stack.enter_async_context(engine)).partition(":")[2] for engine in engines]
        return [actors(ray.get_actor(name)._actor_id.hex())["Address"]["NodeID"] for name in names]


def served_url(address: str) -> str:
    """Where the trainer's other processes, and their workers, are told to ask the engine."""
    factory = TrainedEnv("gym_llm/Arithmetic-v0").factory
    player = EnvPool(factory, (), concurrency=1, workers=1, ray_address=address)
    policy = OneEngine(player, "pocket", {}, ray_address=address)
    policy._engine = make_engine("pocket")
    try:
        return player.run(policy._serve({"one host"})).url
    finally:
        policy.stop()
        player.close()


def main() -> None:
    """Start the nodes, and look."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray = connect(cluster.address)
    found = {
        "driver": ray.get_runtime_context().get_node_id(),
        "engines": asyncio.run(engines_nodes(ray, cluster.address)),
        "address": ray.util.get_node_ip_address(),
        "served": served_url(cluster.address),
    }
    print(json.dumps(found), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
