"""The attention for CPUs sees what each sample would see alone."""

import itertools
import os

import numpy as np
import pytest
import torch

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl.experimental.async_grpo.packing import TreeRow

from gym_llm.trainers.trl.async_cpu import tree_attention

pytestmark = pytest.mark.slow

HEADS, KEY_HEADS, SIZE = 4, 2, 8


def packed(random):
    """A row of random samples that share prefixes, and the places of each sample's tokens in it."""
    row = TreeRow()
    stems = [random.integers(0, 3, random.integers(1, 9)) for _ in range(3)]
    for _ in range(8):
        ids = np.concatenate([stems[random.integers(3)], random.integers(0, 3, random.integers(1, 9))])
        zeros = np.zeros(len(ids))
        row.add({"input_ids": ids, "completion_mask": zeros, "old_log_probs": zeros, "advantage": 1.0, "group_id": 0})
    return row, row.pack()


@pytest.mark.parametrize("window", [None, 4])
def test_a_packed_row_is_attended_as_its_samples_would_be(window):
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    for _ in range(20):
        row, tree = packed(random)
        count = len(tree["input_ids"])
        query = torch.randn(1, HEADS, count, SIZE)
        key, value = torch.randn(2, 1, KEY_HEADS, count, SIZE)
        longest_q, longest_k = tree["tree_max_seqlens"].tolist()
        names = ("tree_kv_index", "tree_cu_seqlens_q", "tree_cu_seqlens_k")
        attended, _ = tree_attention(
            torch.nn.Identity(),
            query,
            key,
            value,
            None,
            **{name: tree[name] for name in names},
            tree_max_seqlen_q=longest_q,
            tree_max_seqlen_k=longest_k,
            scaling=0.3,
            sliding_window=window,
        )
        assert attended.shape == (1, count, HEADS, SIZE)
        starts = tree["tree_cu_seqlens_k"].tolist()
        paths = [tree["tree_kv_index"][a:b] for a, b in itertools.pairwise(starts)]
        ids = {tuple(tree["input_ids"][path].tolist()) for path in paths}
        assert {tuple(sample["input_ids"].tolist()) for sample in row.samples} <= ids
        for path in paths:
            distance = torch.arange(len(path))[:, None] - torch.arange(len(path))
            alone = torch.nn.functional.scaled_dot_product_attention(
                query[:, :, path],
                key[:, :, path],
                value[:, :, path],
                attn_mask=(distance >= 0) & (distance < (window or 100)),
                scale=0.3,
                enable_gqa=True,
            )
            torch.testing.assert_close(attended[0, path], alone[0].transpose(0, 1))


def test_capped_scores_are_refused():
    with pytest.raises(ValueError, match="caps its attention scores"):
        nothing = torch.zeros(1, 1, 1, 1)
        index = torch.zeros(2, dtype=torch.int32)
        tree_attention(
            torch.nn.Identity(),
            nothing,
            nothing,
            nothing,
            None,
            tree_kv_index=index,
            tree_cu_seqlens_q=index,
            tree_cu_seqlens_k=index,
            tree_max_seqlen_q=1,
            tree_max_seqlen_k=1,
            softcap=30.0,
        )
