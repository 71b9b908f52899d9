"""EnvSlots's contract: hand out, take whoever is ready; over this process and over Ray."""

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ResetNeeded
from testing import function_call, message, outputs

from gym_llm.vector.local_vector_env import LocalVectorEnv
from gym_llm.vector.ray_vector_env import RayVectorEnv

N = 6
DONE = message("done")


def rest(seconds):
    return [function_call("rest", {"seconds": seconds})]


@pytest.fixture(scope="module")
def kept():
    made = {}
    yield made
    for envs in made.values():
        envs.close()


@pytest.fixture(params=["local", "ray"])
def envs(request, kept):
    """Six environments at the start of an episode each, with nothing under way."""
    if request.param not in kept:
        if request.param == "ray":
            request.getfixturevalue("ray")
            kept["ray"] = RayVectorEnv("test/Odd-v0", N, num_shards=2)
        else:
            kept["local"] = LocalVectorEnv("test/Odd-v0", N)
    envs = kept[request.param]
    while envs._busy.any():
        envs.recv()
    envs.reset(seed=0)
    return envs


def test_fast_slots_come_before_slow_ones(envs):
    seconds = [0.9, 0.0, 0.6, 0.3, 0.0, 1.2]
    envs.send([rest(each) for each in seconds])
    came = []
    while len(came) < N:
        infos = envs.recv(min_size=1)[4]
        came.extend(infos["env_id"].tolist())
    assert set(came[:2]) == {1, 4} and came[2:] == [3, 2, 0, 5]


def test_what_is_received_is_what_the_slots_did(envs):
    asked, _ = envs.reset(seed=4)
    envs.send([rest(0.0), DONE], [4, 1])
    observations, rewards, terminated, truncated, infos = envs.recv()
    assert infos["env_id"].dtype == np.int64
    by_slot = dict(zip(infos["env_id"].tolist(), range(2), strict=True))
    assert by_slot.keys() == {1, 4}
    assert outputs(observations[by_slot[4]]) == ["rested 0.0"]
    assert rewards[by_slot[1]] == float(asked[1]["input"][0]["content"].split()[1])
    assert terminated[by_slot[1]] and not terminated[by_slot[4]] and not truncated.any()
    assert infos["_secret"].tolist() == [slot == by_slot[1] for slot in range(2)]


def test_min_size_and_max_size_bound_what_comes(envs):
    envs.send([rest(0.0)] * N)
    assert len(envs.recv(min_size=3, max_size=3)[0]) == 3
    assert 1 <= len(envs.recv(min_size=1, max_size=2)[0]) <= 2
    while envs._busy.any():
        envs.recv(min_size=1)


def test_without_sizes_recv_waits_for_all_that_is_under_way(envs):
    envs.send([rest(0.2), rest(0.0), DONE], [5, 2, 0])
    assert sorted(envs.recv()[4]["env_id"]) == [0, 2, 5]


def test_batch_size_is_recvs_default():
    with LocalVectorEnv("test/Odd-v0", 4, batch_size=2) as envs:
        envs.reset(seed=0)
        envs.send([rest(0.3), rest(0.0), rest(0.3), rest(0.0)])
        assert sorted(envs.recv()[4]["env_id"]) == [1, 3]
    with pytest.raises(ValueError, match="batch_size"):
        LocalVectorEnv("test/Odd-v0", 4, batch_size=5)


def test_a_timeout_gives_what_there_is_and_the_rest_later(envs):
    envs.send([rest(0.0), rest(0.1), rest(3.0)], [0, 1, 3])
    assert sorted(envs.recv(timeout=1.0)[4]["env_id"]) == [0, 1]
    observations, rewards, *_, infos = envs.recv(timeout=0.0)
    assert observations == () and rewards.shape == (0,) and infos["env_id"].tolist() == []
    assert envs.recv(min_size=1)[4]["env_id"].tolist() == [3]


def test_after_a_timeout_the_next_one_is_not_held_up_by_the_slowest(envs):
    envs.send([rest(0.5), rest(5.0)], [0, 1])
    envs.recv(timeout=0.1)  # waited for both
    assert envs.recv(min_size=1)[4]["env_id"].tolist() == [0]


def test_new_orders_while_others_wait(envs):
    envs.send([rest(1.0)], [0])
    for _ in range(5):
        envs.send([rest(0.0)], [1])
        assert envs.recv(min_size=1)[4]["env_id"].tolist() == [1]
    assert envs.recv(min_size=1)[4]["env_id"].tolist() == [0]


@pytest.mark.parametrize("use", ["send", "step", "reset", "async_reset"])
def test_a_busy_slot_is_an_already_pending_call(envs, use):
    envs.send([rest(0.2)], [2])
    calls = {
        "send": lambda: envs.send([DONE, DONE], [1, 2]),
        "step": lambda: envs.step([DONE] * N),
        "reset": lambda: envs.reset(),
        "async_reset": lambda: envs.async_reset([2]),
    }
    with pytest.raises(AlreadyPendingCallError):
        calls[use]()
    assert envs.recv()[4]["env_id"].tolist() == [2]
    envs.send([DONE], [1])  # was refused together with slot 2 and has not been touched
    assert envs.recv()[4]["env_id"].tolist() == [1]


def test_async_reset_begins_episodes_and_takes_seeds_and_tasks_by_slot(envs):
    everything, _ = envs.reset(seed=7)
    envs.async_reset([4, 1], seed=7)
    observations, rewards, terminated, truncated, received = envs.recv()
    order = received["env_id"].tolist()
    assert sorted(order) == [1, 4] and not rewards.any() and not terminated.any() and not truncated.any()
    assert [observation for observation in observations] == [everything[slot] for slot in order]
    assert received["turn"].tolist() == [0, 0]
    envs.async_reset(options={"task_index": list(range(10, 10 + N))})
    received = envs.recv()[4]
    assert (received["task_index"] == received["env_id"] + 10).all()


def test_episodes_go_round_without_lockstep(envs):
    """Each slot plays five episodes at its own pace; nothing is lost or mixed up."""
    finished = [0] * N
    envs.send([rest(0.01 * slot) for slot in range(N)])
    while sum(finished) < 5 * N:
        _, _, terminated, _, infos = envs.recv(min_size=1)
        again, onward = [], []
        for slot, over, turn in zip(infos["env_id"].tolist(), terminated, infos["turn"], strict=True):
            finished[slot] += over
            if over and finished[slot] < 5:
                again.append(slot)
            elif not over:
                onward.append((slot, DONE if turn == 2 else rest(0.005)))
        if again:
            envs.async_reset(again)
        if onward:
            envs.send([action for _, action in onward], [slot for slot, _ in onward])
    assert finished == [5] * N


def test_wrong_use_is_one_sentence(envs):
    with pytest.raises(RuntimeError, match="Nothing is under way"):
        envs.recv()
    for ids in ([0, 0], [N], [-1]):
        with pytest.raises(ValueError, match="env_ids"):
            envs.send([DONE] * len(ids), ids)
    with pytest.raises(ValueError, match="one action per environment"):
        envs.send([DONE], [0, 1])
    envs.send([DONE], [0])
    envs.recv()
    with pytest.raises(ResetNeeded):
        envs.send([DONE], [0])
