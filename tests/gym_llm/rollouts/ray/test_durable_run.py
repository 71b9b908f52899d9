"""Durable runs over Ray: when a shard, the engine or a node dies, episodes go on at the turn where they were."""

from __future__ import annotations

import psutil
import pytest
from durable_over_ray import TASKS, TURNS, CountingServer, play

from gym_llm.rollouts.durable.run_journals import journals_beside


def kill_a_shard(_: CountingServer) -> None:
    processes = psutil.process_iter(["cmdline"])  # None for one that has ended
    victim = next(each for each in processes if any("ShardActor" in word for word in each.info["cmdline"] or ()))
    victim.kill()


def go_down(server: CountingServer) -> None:
    server.left_down = 12  # every episode under way fails


@pytest.mark.parametrize("disturb", [kill_a_shard, go_down])
def test_episodes_go_on_over_ray(ray, tmp_path, disturb):
    server = CountingServer(60, disturb)
    try:
        records = play(tmp_path / "run.jsonl", server)
    finally:
        server.close()
    assert server.is_disturbed
    assert [record["reward"] for record in records] == [1.0] * TASKS
    used, again = server.asked_again()
    assert (used, again <= 6) == (0, True)
    assert len(server.answered) == TASKS * TURNS + again
    assert not journals_beside(tmp_path / "run.jsonl").exists()
