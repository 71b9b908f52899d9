"""Gathering the whole weights of a sharded model, one tensor after the other.

The model shows whether it uses FSDP 1, FSDP 2 or DeepSpeed's ZeRO-3. All processes gather together: each must iterate
over all weights, even if it does not use them, and none may stop before the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gym_llm.trainers.shared.peft_weights import merged_weights

if TYPE_CHECKING:
    import torch

_INSERTED = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")
"""Parts of a tensor's name that wrappers inside the model have put there."""


def is_sharded(model: Any) -> bool:
    """Whether this process holds only a part of the model's weights."""
    from torch.distributed.tensor import DTensor

    if _fsdp_units(model):
        return True
    return any(isinstance(tensor, DTensor) or hasattr(tensor, "ds_id") for tensor in model.parameters())


def full_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights under the names that they have in the bare model, PEFT's adapters merged into them.

    A tensor with several names comes once. Use each tensor before the next one: its memory may be freed. Without
    adapters, at most one unit of FSDP 1, or one tensor of FSDP 2 and ZeRO-3, is complete at a time. With adapters, FSDP
    1 and ZeRO-3 gather the whole model.

    Args:
        model: Sharded or not; with FSDP 1 the outermost `FullyShardedDataParallel`, otherwise the bare model.

    Yields:
        Names and tensors: parameters, and buffers that checkpoints have.

    Raises:
        ValueError: If adapters cannot be merged; see `merged_weights`.
    """
    if not hasattr(model, "peft_config"):
        yield from _plain_weights(model)
        return
    if not hasattr(model, "get_base_model"):
        raise ValueError(
            "An engine can be given the weights of adapters from peft.get_peft_model or peft_config=, not others."
        )
    is_fsdp1 = bool(_fsdp_units(model))
    with _all_whole(model):
        for name, tensor in merged_weights(model).items():
            yield _bare(name), _kept(tensor) if is_fsdp1 else _whole(tensor)


def _plain_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    units = _fsdp_units(model)
    if not units:
        for name, tensor in _own_weights(model, (), "", set()):
            if hasattr(tensor, "ds_id"):
                with _gathered([tensor]):
                    yield _bare(name), tensor.data
            else:
                yield _bare(name), _whole(tensor)
        return
    from torch.distributed.fsdp import FullyShardedDataParallel

    for prefix, unit in units:
        with FullyShardedDataParallel.summon_full_params(unit, recurse=False, writeback=False):
            for name, tensor in _own_weights(unit, FullyShardedDataParallel, prefix, set()):
                yield _bare(name), _kept(tensor)


def _own_weights(module: Any, apart: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Parameters and saved buffers of a module and those under it, but for children of a class that stand apart."""
    saved = [
        (name, tensor) for name, tensor in module._buffers.items() if name not in module._non_persistent_buffers_set
    ]
    for name, tensor in (*module._parameters.items(), *saved):
        if tensor is not None and id(tensor) not in seen:
            seen.add(id(tensor))
            yield prefix + name, tensor
    for name, child in module.named_children():
        if not isinstance(child, apart):
            yield from _own_weights(child, apart, f"{prefix}{name}.", seen)


def _fsdp_units(model: Any) -> list[tuple[str, Any]]:
    """The modules that FSDP 1 shards, and what the names of their tensors begin with."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    return [
        (f"{name}." if name else "", module)
        for name, module in model.named_modules()
        if isinstance(module, FullyShardedDataParallel)
    ]


@contextmanager
def _all_whole(model: Any) -> Iterator[None]:
    """The whole model in this process's memory, where it can only be had so; FSDP 2 computes with parts."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    partitioned = [tensor for tensor in model.parameters() if hasattr(tensor, "ds_id")]
    if partitioned:
        with _gathered(partitioned):
            yield
    elif _fsdp_units(model):
        with FullyShardedDataParallel.summon_full_params(model, writeback=False):
            yield
    else:
        yield


@contextmanager
def _gathered(parameters: list[Any]) -> Iterator[None]:
    import deepspeed

    with deepspeed.zero.GatheredParameters(parameters):
        yield


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """What FSDP 1 has gathered; a copy in the CPU's memory, which others take as it is, but FSDP frees afterwards."""
    return tensor.data.clone() if tensor.device.type == "cpu" else tensor.data


def _whole(tensor: Any) -> torch.Tensor:
    from torch.distributed.tensor import DTensor

    if not isinstance(tensor, DTensor):
        return tensor.detach()  # type: ignore[no-any-return]
    device = tensor.device_mesh.device_type
    # Parts that are kept in the CPU's memory meet where the processes' connections are.
    part: Any = tensor.detach() if tensor.device.type == device else tensor.detach().to(device)
    return part.full_tensor()  # type: ignore[no-any-return]


def _bare(name: str) -> str:
    for part in _INSERTED:
        name = name.replace(part, "")
    return name
