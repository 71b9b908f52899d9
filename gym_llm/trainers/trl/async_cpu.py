"""TRL's AsyncGRPOTrainer on a machine without a GPU, for small models and for tests."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

if TYPE_CHECKING:
    import torch
    from trl.experimental.async_grpo import AsyncGRPOTrainer

ATTENTION = "gym_llm_tree"
"""The name under which transformers knows `tree_attention`."""


def cpu_trainer(model: str, **arguments: Any) -> AsyncGRPOTrainer:
    """Make an `AsyncGRPOTrainer` that trains on the CPU.

    TRL 1.16 needs CUDA in two places: its constructor reads the GPU's name for the log, and the model gets
    FlashAttention 3. This trainer logs no name, and its attention is `tree_attention`.

    Args:
        model: A model's name or folder.
        **arguments: Arguments of the trainer; its `args` have `use_cpu=True, bf16=False`.
    """
    import torch
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface
    from trl.experimental.async_grpo import AsyncGRPOTrainer

    AttentionInterface.register(ATTENTION, tree_attention)
    AttentionMaskInterface.register(ATTENTION, lambda **_: None)
    has_gpu = torch.cuda.is_available()
    with nullcontext() if has_gpu else mock.patch("torch.cuda.get_device_name", return_value="cpu"):
        trainer = AsyncGRPOTrainer(model, **arguments)
    cast(Any, trainer.model).set_attn_implementation(ATTENTION)
    return trainer


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    tree_kv_index: torch.Tensor,
    tree_cu_seqlens_q: torch.Tensor,
    tree_cu_seqlens_k: torch.Tensor,
    tree_max_seqlen_q: int,
    tree_max_seqlen_k: int,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention over samples that share prefixes, as TRL packs them into a row; in plain PyTorch.

    The row's N tokens are S segments, each of which continues a path of earlier ones. A token sees the tokens of its
    path up to itself. All segments are padded to the longest, which suits small models.

    Args:
        module: The layer.
        query: Shape (1, heads, N, size).
        key: Shape (1, key heads, N, size).
        value: Like `key`.
        attention_mask: None.
        tree_kv_index: The positions in the row of all tokens of all paths, one path after the other.
        tree_cu_seqlens_q: The starts of the segments in the row, and the end of the last; shape (S + 1,).
        tree_cu_seqlens_k: The starts of the paths in `tree_kv_index`; a path ends with its segment. Shape (S + 1,).
        tree_max_seqlen_q: Length of the longest segment.
        tree_max_seqlen_k: Length of the longest path.
        scaling: Factor of the scores.
        sliding_window: Maximum number of visible tokens.
        softcap: Not supported.

    Returns:
        Shape (1, N, heads, size), and no weights.

    Raises:
        ValueError: If scores are to be capped.
    """
    import torch

    if softcap:
        raise ValueError("This model caps its attention scores, which the attention for CPUs cannot do.")
    stretch = _padded(tree_cu_seqlens_q, tree_max_seqlen_q)
    path = _padded(tree_cu_seqlens_k, tree_max_seqlen_k)
    lengths, path_lengths = tree_cu_seqlens_q.diff(), tree_cu_seqlens_k.diff()
    depth = (path_lengths - lengths)[:, None] + torch.arange(tree_max_seqlen_q)  # of a stretch's tokens in their path
    behind = depth[:, :, None] - torch.arange(tree_max_seqlen_k)
    seen = (behind >= 0) & (behind < (sliding_window or tree_max_seqlen_k + tree_max_seqlen_q))
    places = tree_kv_index[path.clamp(max=len(tree_kv_index) - 1)]
    attended = torch.nn.functional.scaled_dot_product_attention(
        query[0].transpose(0, 1)[stretch.clamp(max=query.shape[2] - 1)].transpose(1, 2),
        key[0].transpose(0, 1)[places].transpose(1, 2),
        value[0].transpose(0, 1)[places].transpose(1, 2),
        attn_mask=seen[:, None],
        scale=scaling,
        enable_gqa=True,
    ).transpose(1, 2)
    real = torch.arange(tree_max_seqlen_q) < lengths[:, None]
    return attended[real][None], None


def _padded(starts: torch.Tensor, longest: int) -> torch.Tensor:
    """The indices of each stretch, and then those after it; shape (S, longest)."""
    import torch

    return starts[:-1, None].long() + torch.arange(longest)
