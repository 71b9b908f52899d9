"""The weights that a model with PEFT adapters computes with, under the names that the model has without them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def merged_weights(model: Any) -> dict[str, torch.Tensor]:
    """Return the base model's weights with the active adapters merged; the model itself does not change.

    Layers are merged and restored one after the other, so this takes the memory of the copies and of two layers.

    Args:
        model: A `peft.PeftModel`.

    Returns:
        The same as `model.merge_and_unload().state_dict()`, but without inactive adapters. Tensors that no adapter
        changes are the model's own.

    Raises:
        ValueError: If the adapters change no weights (prompt tuning), are merged already, or cannot be merged. If their
            weights are quantized. If embedding and output layer share weights only without the adapters.
    """
    import torch

    if model.active_peft_config.is_prompt_learning:
        raise ValueError(f"{model.active_peft_config.peft_type.value} changes no weights that could be merged.")
    base = model.get_base_model()
    weights = dict(_weights(base, ""))
    if getattr(base.config.get_text_config(), "tie_word_embeddings", False):
        ends = (base.get_input_embeddings(), base.get_output_embeddings())
        names = [f"{name}.weight" for name, module in base.named_modules() if any(module is end for end in ends)]
        tied = [weights[name] for name in names if name in weights]
        if len(tied) == 2 and tied[0].data_ptr() != tied[1].data_ptr() and not torch.equal(*tied):
            raise ValueError(
                "The adapters change only one of two tied layers (embeddings, output): set ensure_weight_tying=True, "
                "or leave both out."
            )
    return weights


def _weights(module: Any, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper, ModulesToSaveWrapper

    if isinstance(module, BaseTunerLayer):
        yield from _merged(module, prefix)
    elif isinstance(module, ModulesToSaveWrapper):
        adapter: Any = module.active_adapter
        trained = module.active_adapters and not module.disable_adapters
        yield from _weights(module.modules_to_save[adapter] if trained else module.original_module, prefix)
    elif isinstance(module, AuxiliaryTrainingWrapper):  # of single tokens' embeddings
        yield from _weights(module.token_adapter, prefix)
    else:
        not_saved = module._non_persistent_buffers_set
        buffers = ((name, buffer) for name, buffer in module._buffers.items() if name not in not_saved)
        for name, tensor in (*module._parameters.items(), *buffers):
            if tensor is not None:
                yield prefix + name, tensor
        for name, child in module.named_children():
            yield from _weights(child, f"{prefix}{name}.")


def _merged(layer: Any, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights of the layer under an adapter, with it. The layer's own memory is not written to."""
    import torch

    base = layer.get_base_layer()
    own = dict(base.named_parameters())
    if any(not tensor.is_floating_point() for tensor in own.values()):
        raise ValueError(f"The weights of {prefix.rstrip('.')} are quantized: adapters cannot be merged into them.")
    adapters = [layer]
    while adapters[-1].base_layer is not base:  # one for each parameter of the same layer
        adapters.append(adapters[-1].base_layer)
    if any(adapter.merged for adapter in adapters):
        raise ValueError("The model's adapters are merged already: call its unmerge_adapter() before.")
    if layer.disable_adapters:
        yield from ((prefix + name, tensor) for name, tensor in own.items())
        return
    before = {name: tensor.data for name, tensor in own.items()}
    with torch.no_grad():
        try:
            for tensor in own.values():
                tensor.data = tensor.data.clone()
            for adapter in adapters:
                adapter.merge()
            after = {name: tensor.data.clone() for name, tensor in own.items()}
        except RuntimeError as error:
            raise ValueError(f"The adapters of {prefix.rstrip('.')} cannot be merged: {error}") from error
        finally:
            with warnings.catch_warnings(action="ignore"):  # some say that this is inexact, but it is not kept
                for adapter in adapters:
                    if adapter.merged:
                        adapter.unmerge()
            for name, tensor in own.items():
                tensor.data = before[name]
    yield from ((prefix + name, tensor) for name, tensor in after.items())
