"""One of several processes, each with a part of a model: gathers the weights, and compares them with the whole ones.

Run by torchrun with how the model is sharded (fsdp1, fsdp1-flat, fsdp2, zero3) and whether it has adapters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gym_llm.engines.weights import weights_folder
from gym_llm.trainers.shared.full_weights import full_weights, is_sharded

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")


def make(adapters: bool) -> Any:
    """The same model in every process."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    if not adapters:
        return model
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(target_modules="all-linear", init_lora_weights=False))


def shard(model: Any, way: str) -> Any:
    """The model as `full_weights` takes it, with only a part of it in this process."""
    layers = [module for module in model.modules() if type(module).__name__ == "Qwen3DecoderLayer"]
    if way == "zero3":
        import deepspeed

        deepspeed.init_distributed("gloo")
        trained = [tensor for tensor in model.parameters() if tensor.requires_grad]
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
        }
        optimizer = torch.optim.SGD(trained, lr=0.1)
        engine, *_ = deepspeed.initialize(model=model, model_parameters=trained, optimizer=optimizer, config=config)
        assert sum(tensor.numel() for tensor in engine.module.parameters()) == 0
        return engine.module
    torch.distributed.init_process_group("gloo")
    if way == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for layer in layers:
            fully_shard(layer)
        return fully_shard(model)
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({type(layers[0])}),
        device_id=torch.device("cpu"),
        use_orig_params=way == "fsdp1",
    )


def each_once(weights: Iterator[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """The same, if no name comes twice."""
    seen = set()
    for name, tensor in weights:
        assert name not in seen, name
        seen.add(name)
        yield name, tensor


def main(way: str, adapters: bool) -> None:
    """Gather twice: the first time must have changed nothing."""
    whole = make(adapters)
    model = shard(make(adapters), way)
    assert is_sharded(model) and not is_sharded(whole)
    expected = {
        name: tensor.clone() for name, tensor in (whole.merge_and_unload() if adapters else whole).state_dict().items()
    }
    for _ in range(2):
        with weights_folder(each_once(full_weights(model))) as folder:
            gathered = load_file(Path(folder) / "model.safetensors")
        assert gathered.keys() <= expected.keys(), gathered.keys() - expected.keys()
        # One of two names of the same tensor is left out.
        assert expected.keys() - gathered.keys() <= {"lm_head.weight"}, expected.keys() - gathered.keys()
        for name, tensor in gathered.items():
            torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=0, msg=name)
    print("{}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "adapters")
