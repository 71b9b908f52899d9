"""Token trees in the forms of TRL and AReaL, which fold rows into trees of their own."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_llm.trainers.shared.token_tree import TokenTree

if TYPE_CHECKING:
    import torch

_UNSAMPLED = -1  # AReaL's version of ids that no weights sampled


def trl_samples(tree: TokenTree, advantages: Sequence[float], *, group_id: Hashable = 0) -> list[dict[str, Any]]:
    """Return the rows of a tree as samples of TRL's AsyncGRPOTrainer, which packs samples of one group as a tree.

    TRL 1.16 folds the samples of a batch into prefix tries: `trl.experimental.async_grpo.packing.TreeRow`. It has no
    format for trees from outside. It keeps samples of one `group_id` together, so that they share their prefix. A token
    that several samples have sampled counts once for each of them in its loss.

    Args:
        tree: Rows of records.
        advantages: One for each of `tree.leaves`.
        group_id: The group of all samples.

    Returns:
        Dicts of `input_ids` and `completion_mask` (int64), `old_log_probs` (float32), each of shape `(tokens,)`, of
        `advantage` and of `group_id`. Rows of masked episodes are left out.

    Raises:
        ValueError: If there is another number of advantages than of rows.
    """
    if len(advantages) != len(tree.leaves):
        raise ValueError(f"There are {len(tree.leaves)} rows and {len(advantages)} advantages.")
    samples: list[dict[str, Any]] = []
    for number, advantage in enumerate(advantages):
        row = tree.row(number)
        if row.is_masked:
            continue
        samples.append(
            {
                "input_ids": np.array(row.input_ids, dtype=np.int64),
                "completion_mask": np.array(row.loss_mask, dtype=np.int64),
                "old_log_probs": np.array(row.logprobs, dtype=np.float32),
                "advantage": float(advantage),
                "group_id": group_id,
            }
        )
    return samples


def areal_batch(tree: TokenTree) -> dict[str, torch.Tensor]:
    """Return the rows of a tree as a batch of AReaL, which folds it into tries if `enable_tree_training` is set.

    AReaL 1.0 builds the tries from the batch (`areal.models.tree_attn.tree.build_packed_tree_batch`) and has no format
    for trees from outside. The batch is that of `gym_llm.trainers.areal.EpisodeWorkflow`.

    Args:
        tree: Rows of records, at least one of which is scored.

    Returns:
        Tensors of shape `(rows, tokens)`, padded on the right with 0: `input_ids`, `loss_mask`, `versions` (int32),
        `logprobs` (float32) and `attention_mask` (bool). The version is -1 for ids that were not sampled. `rewards`
        (float32) has the shape `(rows,)`. Rows of masked episodes are left out.

    Raises:
        ValueError: If no row is scored.
    """
    import torch

    rows = [row for number in range(len(tree.leaves)) if not (row := tree.row(number)).is_masked]
    if not rows:
        raise ValueError("The tree has no scored row: give records with token ids and a reward.")
    shape = len(rows), max(len(row.input_ids) for row in rows)
    batch = {name: torch.zeros(shape, dtype=torch.int32) for name in ("input_ids", "loss_mask", "versions")}
    batch["logprobs"] = torch.zeros(shape)
    batch["attention_mask"] = torch.zeros(shape, dtype=torch.bool)
    for number, row in enumerate(rows):
        end = len(row.input_ids)
        versions = row.weight_versions or [0] * end
        columns = {
            "input_ids": row.input_ids,
            "loss_mask": row.loss_mask,
            "logprobs": row.logprobs,
            "versions": [
                version if sampled else _UNSAMPLED for version, sampled in zip(versions, row.loss_mask, strict=True)
            ],
        }
        for name, column in columns.items():
            batch[name][number, :end] = torch.tensor(column, dtype=batch[name].dtype)
        batch["attention_mask"][number, :end] = True
    batch["rewards"] = torch.tensor([row.reward for row in rows], dtype=torch.float32)
    return batch
