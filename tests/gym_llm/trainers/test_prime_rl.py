"""Groups for prime-rl are of one task each, and whole."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from testing import ROOT

from gym_llm.tokens.routed_experts import pack_experts
from gym_llm.trainers.prime_rl import sample_fields

SEGMENT = {"input_ids": [7, 8, 9], "loss_mask": [0, 1, 1], "logprobs": [0.0, -0.5, -0.25]}


def record(task: int, reward: float, env_id: str = "tests/Quiz-v0", **fields: Any) -> Any:
    rollout_id = {"task_index": task, "repeat_index": 0}
    return {"rollout_id": rollout_id, "env_id": env_id, "reward": reward, "trajectory": [SEGMENT], **fields}


@pytest.mark.parametrize(
    "other", [record(1, 0.0), record(0, 0.0, "tests/Other-v0"), record(0, 0.0, dataset="section/other")]
)
def test_a_group_of_two_tasks_is_refused(other: Any) -> None:
    with pytest.raises(ValueError, match="are of 2 tasks"):
        sample_fields([record(0, 1.0), other], 2)
    assert len(sample_fields([record(0, 1.0), record(0, 0.0), other, other], 2)) == 4


def test_experts_and_the_scores_of_another_model_are_in_prime_rls_fields() -> None:
    experts = pack_experts([[[3, 300]], [[0, 2]]])
    more = {"routed_experts": experts, "teacher_logprobs": [0.0, -1.0, -2.0], "teacher_mask": [0, 1, 0]}
    reference = {"ref_logprobs": [0.0, -3.0, -4.0]}
    first, second, third, plain = sample_fields(
        [record(0, 1.0, trajectory=[{**SEGMENT, **each}]) for each in (more, reference, more, {})], 4
    )
    assert first["routed_experts"].tolist() == [[[3, 300]], [[0, 2]], [[0, 0]]] and third["env_name"] == "tests/Quiz-v0"
    assert (first["ref_logprobs"], first["ref_kl_weights"]) == ([0.0, -1.0, -2.0], [0.0, 1.0, 0.0])
    assert (second["ref_logprobs"], second["ref_kl_weights"]) == ([0.0, -3.0, -4.0], [0.0, 1.0, 1.0])
    assert not {"routed_experts", "ref_logprobs", "ref_kl_weights"} & plain.keys() and "routed_experts" not in second
    with pytest.raises(ValueError, match="one field"):
        sample_fields([record(0, 1.0, trajectory=[{**SEGMENT, **more, **reference}])], 1)


def test_the_example_takes_whole_groups_in_any_order() -> None:
    whole_groups = runpy.run_path(str(ROOT / "examples" / "prime_rl" / "step.py"))["whole_groups"]
    records = [record(0, 1.0), record(1, 0.0), record(0, 0.0, dataset="b"), record(0, 0.5)]
    records += [record(1, 1.0), record(0, 1.0, dataset="b")]
    fields = sample_fields(whole_groups(records, 2), 2)
    assert [each["advantages"][1] for each in fields] == [0.25, -0.25, -0.5, 0.5, -0.5, 0.5]
    with pytest.raises(ValueError, match="Task 1 of tests/Quiz-v0 has 1 episodes, and --group-size is 2"):
        whole_groups(records[:4], 2)
    with pytest.raises(ValueError, match="Task 0 of tests/Quiz-v0 has 4 episodes"):
        whole_groups([record(0, 1.0)] * 4, 2)
