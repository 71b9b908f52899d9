"""A record of which nothing is left but why, and one of an environment that did not begin, in every conversion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from gym_llm.records.record import lost_record
from gym_llm.trainers.atropos import scored_data
from gym_llm.trainers.nemo_rl import nemo_gym_results
from gym_llm.trainers.prime_rl import sample_fields
from gym_llm.trainers.slime import to_samples


@dataclass
class SlimeSample:
    """The fields of slime's `Sample` that are set."""

    class Status(Enum):
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        FAILED = "failed"

    index: int = 0
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    reward: float | None = None
    status: Status = Status.COMPLETED
    remove_sample: bool = False
    rollout_id: int | None = None
    weight_versions: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


def scored(task: int) -> Any:
    segment = {"input_ids": [7, 8, 9], "loss_mask": [0, 1, 1], "logprobs": [0.0, -0.5, -0.25]}
    item = {"prompt_token_ids": [7], "generation_token_ids": [8, 9], "generation_log_probs": [-0.5, -0.25]}
    return {
        **lost_record("tests/Lost-v0", (task, 1), ""),
        **{"outcome": "scored", "reward": 1.0, "failure_kind": None, "error": None, "trajectory": [segment]},
        "responses_create_params": {"input": "Go."},
        "response": {"output": [item]},
    }


def by_nemo_rl(records: Any) -> list[bool]:
    return [result["mask_sample"] for result in nemo_gym_results(records, padding=0)]


def by_prime_rl(records: Any) -> list[bool]:
    assert len(sample_fields(records, 2)) == 1  # the scored one's
    return [True, False]


def by_atropos(records: Any) -> list[bool]:
    assert scored_data(records) is None  # the group is left out
    return [True, False]


def by_slime(records: Any) -> list[bool]:
    tokenizer = SimpleNamespace(pad_token_id=0, decode=lambda ids, **_: "")
    return [to_samples(record, SlimeSample(), tokenizer)[0].remove_sample for record in records]


@pytest.mark.parametrize("convert", [by_nemo_rl, by_prime_rl, by_atropos, by_slime])
def test_a_lost_record_is_masked_beside_a_scored_one(convert: Callable[[Any], list[bool]]) -> None:
    assert convert([lost_record("tests/Lost-v0", (0, 0), "The worker was killed."), scored(0)]) == [True, False]


def test_a_masked_members_reward_is_that_of_its_own_dataset_and_environment() -> None:
    records = [lost_record("tests/Lost-v0", (0, 0), "Killed."), scored(0)]
    others = [{**scored(0), "reward": 0.0, "dataset": "other"}, {**scored(0), "reward": 0.0, "env_id": "tests/Other"}]
    assert nemo_gym_results([*records, *others], padding=0)[0]["reward"] == 1.0  # type: ignore[list-item]
