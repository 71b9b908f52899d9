"""prime-rl: episodes as its `TrainingSample`s, which its `prepare_batch` packs for the trainer.

prime-rl is on no package index. Its types are those of `src/prime_rl/transports/rollouts/types.py` at commit 559b447 of
github.com/PrimeIntellect-ai/prime-rl; older ones have a prompt and a completion apart, which this is not for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gym_llm.tokens.routed_experts import experts_of_all
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.trainers.shared.trainer_tasks import task_of
from gym_llm.types import Rollout


def sample_fields(
    records: Sequence[Rollout],
    group_size: int,
    *,
    temperature: float = 1.0,
    advantages: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Return the fields of `TrainingSample`s: one sample per segment of an episode, as prime-rl has one per branch.

    Masked episodes have no samples and are not in a baseline, as in prime-rl. Samples with an advantage of 0.0 are
    kept: their tokens count in the mean of the loss.

    Args:
        records: Whole groups, one after the other, with token ids.
        group_size: Episodes per group.
        temperature: The sampling temperature.
        advantages: One for each record, at each of its sampled ids (e.g. of `rloo_advantages`); None for prime-rl's
            own: the reward less the mean of the group.

    Returns:
        `token_ids`, `mask`, `logprobs`, `temperatures` and `advantages`, as long as each other, and `env_name`. If a
        record has experts: `routed_experts`, an array of shape (ids, layers, experts of a token). If it has scores
        (`add_scores`): `ref_logprobs`, and `ref_kl_weights`, which are 1.0 where there is a score.

    Raises:
        ValueError: If the records are not whole groups of one task each. If the number of advantages differs. If an
            episode has the scores of two models, because prime-rl has one field.
    """
    if advantages is None:
        rewards = [record["reward"] for record in records]
        advantages = group_advantages(rewards, group_size, scale="none").tolist()
    if len(advantages) != len(records):
        raise ValueError(f"There are {len(advantages)} advantages for {len(records)} records.")
    for start in range(0, len(records), group_size):
        if len(tasks := {task_of(record) for record in records[start : start + group_size]}) > 1:
            raise ValueError(
                f"Records {start} to {start + group_size - 1} are of {len(tasks)} tasks: sort them by task, "
                "without incomplete groups."
            )
    return [
        {
            "token_ids": row.input_ids,
            "mask": [bool(sampled) for sampled in row.loss_mask],
            "logprobs": row.logprobs,
            "temperatures": [temperature] * len(row.input_ids),
            "env_name": record["env_id"],
            "advantages": [advantage * sampled for sampled in row.loss_mask],
            **_more(row),
        }
        for record, advantage in zip(records, advantages, strict=True)
        for row in token_rows(record)
        if not row.is_masked
    ]


def _more(row: TokenRow) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if row.routed_experts is not None:
        fields["routed_experts"] = experts_of_all(row.routed_experts, len(row.input_ids))
    if row.teacher_logprobs is not None and row.ref_logprobs is not None:
        raise ValueError(
            "prime-rl has one field, ref_logprobs: add the scores of a teacher or of a reference, not both."
        )
    scores = row.ref_logprobs if row.teacher_logprobs is None else row.teacher_logprobs
    if scores is not None:
        fields |= {"ref_logprobs": scores, "ref_kl_weights": [float(one) for one in row.teacher_mask or row.loss_mask]}
    return fields


def training_samples(records: Sequence[Rollout], group_size: int, **options: Any) -> list[Any]:
    """prime-rl's own `TrainingSample`s, for its `prepare_batch`; see `sample_fields`.

    ```python
    samples = training_samples(records, group_size=8)
    grid = prepare_batch(samples, seq_len=4096, num_train_workers=1, bin_cost=sum)
    await FileSystemMicroBatchSender(output_dir, data_world_size=1).send(grid)
    ```

    Raises:
        ImportError: If prime-rl is not installed.
        ValueError: As `sample_fields`.
    """
    try:
        from prime_rl.transports.rollouts.types import RoutedExperts, TrainingSample
    except ImportError as error:
        raise ImportError(f"training_samples needs prime-rl, which is installed from its repository: {error}") from None
    samples = sample_fields(records, group_size, **options)
    for fields in samples:
        if (experts := fields.get("routed_experts")) is not None:
            packed = {"data": experts.tobytes(), "shape": list(experts.shape), "dtype": str(experts.dtype)}
            fields["routed_experts"] = RoutedExperts(**packed)
    return [TrainingSample(**fields) for fields in samples]
