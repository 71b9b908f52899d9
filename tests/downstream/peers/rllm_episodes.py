"""1,000 random episodes as rLLM has them, through its own grouping."""

import json

from random_talk import play
from rllm.trainer.algorithms.config import CompactFilteringConfig, TransformConfig
from rllm.trainer.algorithms.transform import transform_episodes_to_trajectory_groups

from gym_llm.trainers.rllm import episode
from gym_llm.trainers.shared.token_rows import token_rows


def merged(steps):
    """Ids, mask and log probabilities of steps, those together whose prompts go on from each other."""
    sequences = []
    for step in steps:
        if not sequences or step.prompt_ids[: len(sequences[-1][0])] != sequences[-1][0]:
            sequences.append(([], [], []))
        ids, mask, log_probs = sequences[-1]
        read = step.prompt_ids[len(ids) :]
        ids += read + step.response_ids
        mask += [0] * len(read) + [1] * len(step.response_ids)
        log_probs += [0.0] * len(read) + step.logprobs
    return sequences


records = play(1000)
for number, record in enumerate(records):  # two of a task, of which the one or the other may be masked
    record["rollout_id"] = {"task_index": number // 2, "repeat_index": number % 2}
episodes = [episode(record) for record in records]
groups, _ = transform_episodes_to_trajectory_groups(
    episodes, TransformConfig(), CompactFilteringConfig(enable=True, mask_error=True)
)
scored = [record for record in records if record["reward"] is not None]
assert sum(len(group.trajectories) for group in groups) == len(scored)
theirs = {
    (about["task_id"], about["rollout_idx"]): trajectory
    for group in groups
    for trajectory, about in zip(group.trajectories, group.metadata, strict=True)
}
segments = 0
for record in scored:
    task, repeat = record["rollout_id"].values()
    trajectory = theirs[str(task), str(repeat)]
    assert trajectory.reward == record["reward"] == sum(step.reward for step in trajectory.steps)
    rows = token_rows(record)
    assert merged(trajectory.steps) == [(row.input_ids, row.loss_mask, row.logprobs) for row in rows]
    for step in trajectory.steps:
        output = step.model_output
        assert (output.prompt_ids, output.completion_ids, output.logprobs) == (
            step.prompt_ids,
            step.response_ids,
            step.logprobs,
        )
    segments += len(rows)
print(json.dumps({"episodes": len(records), "segments": segments, "masked": len(records) - len(scored)}))
