"""The run's seed is the sampling's, too, for engines that always have one: whoever starts the rollout."""

from typing import Any

import pytest

from gym_llm import Run, collect
from gym_llm.concurrency import wait
from gym_llm.data.files.jsonl import parse_object
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.vector import RayVectorEnv

ID = "gym_llm/FollowUp-v0"  # its tasks do not depend on the seed
NUMBERS = {"limit": 1, "repeats": 4, "sampling": {"temperature": 1.5, "max_output_tokens": 16}}


def sampled(records: Any) -> list[list[int]]:
    """Each episode's token ids."""
    by_repeat = sorted(records, key=lambda record: record["rollout_id"]["repeat_index"])
    return [record["trajectory"][0]["input_ids"] for record in by_repeat]


def with_engine_seed(seed: int) -> list[list[int]]:
    return sampled(collect(ID, "pocket", engine_options={"seed": seed}, **NUMBERS))


def test_collect_and_a_run_sample_the_same(tmp_path: Any) -> None:
    with Run(ID, "pocket", output=tmp_path / "a.jsonl", seed=5, **NUMBERS) as run:
        run.play()
        (part,) = run.parts.values()
        assert part.describe()["engine_options"] == {}
    expected = with_engine_seed(5)
    assert expected != with_engine_seed(0)
    assert sampled(collect(ID, "pocket", seed=5, **NUMBERS)) == expected
    assert sampled(collect(ID, "pocket", seed=6, engine_options={"seed": 5}, **NUMBERS)) == expected

    lines = (tmp_path / "a.jsonl").read_bytes().splitlines()
    assert sampled([parse_object(line, "a.jsonl") for line in lines]) == expected


@pytest.mark.usefixtures("ray")
def test_shards_sample_with_the_seed_of_the_rollout() -> None:
    expected = with_engine_seed(5)
    assert sampled(collect(ID, "pocket", seed=5, workers=1, **NUMBERS)) == expected

    async def play() -> list[Any]:
        settings = RolloutSettings(seed=5, sampling=NUMBERS["sampling"])
        return [record async for record in envs.rollout("pocket", [Job(0, n) for n in range(4)], settings)]

    with RayVectorEnv(ID, 4, num_shards=1, env_wrappers=DEFAULT_WRAPPERS) as envs:
        assert sampled(wait(play())) == expected
