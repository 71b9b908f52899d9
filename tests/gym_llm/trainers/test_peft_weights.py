"""Merged weights make the model without adapters compute what the one with them does, and leave that as it was."""

import pytest
from testing import POCKET

pytest.importorskip("peft")

import torch
from peft import (
    IA3Config,
    LoHaConfig,
    LoraConfig,
    OFTConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
    VeraConfig,
    get_peft_model,
)
from transformers import AutoModelForCausalLM

from gym_llm.trainers.shared.peft_weights import merged_weights

pytestmark = pytest.mark.slow

IDS = torch.arange(40, 80)[None]
ALL = {"target_modules": "all-linear"}
NAME = "model.layers.0.self_attn.q_proj.weight"
Q = {"target_modules": ["q_proj"]}


def base():
    return AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval()


@torch.no_grad()
def adapted(config):
    """The pocket model with adapters as a training might leave them."""
    torch.manual_seed(0)
    model = get_peft_model(base(), config).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def logits(model):
    return model(input_ids=IDS).logits


CONFIGS = {
    "lora": LoraConfig(**ALL),
    "dora": LoraConfig(**ALL, use_dora=True),
    "biases": LoraConfig(**ALL, bias="all"),
    "of parameters": LoraConfig(
        target_modules=[], target_parameters=["mlp.up_proj.weight", "mlp.down_proj.weight", "self_attn.q_proj.weight"]
    ),
    "norms trained whole": LoraConfig(**Q, modules_to_save=["norm"]),
    "single tokens": LoraConfig(**Q, trainable_token_indices=[1, 2, 50]),
    "both ends": LoraConfig(target_modules=["embed_tokens", "q_proj"], ensure_weight_tying=True),
    "both ends trained whole": LoraConfig(**Q, modules_to_save=["embed_tokens"], ensure_weight_tying=True),
    "ia3": IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "loha": LoHaConfig(**Q),
    "oft": OFTConfig(**Q, oft_block_size=4),
    "vera": VeraConfig(**Q),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_model_without_adapters_computes_the_same_with_merged_weights(kind):
    model = adapted(CONFIGS[kind])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    places = {name: tensor.data_ptr() for name, tensor in model.named_parameters()}
    own = logits(model)
    weights = merged_weights(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert places == {name: tensor.data_ptr() for name, tensor in model.named_parameters()}
    assert torch.equal(logits(model), own)
    plain = base()
    assert (logits(plain) - own).abs().max() > 0.01
    assert set(weights) == set(plain.state_dict())
    plain.load_state_dict(weights)
    torch.testing.assert_close(logits(plain), own, atol=1e-4, rtol=0)


def test_adapters_that_are_switched_off_or_not_in_use_do_not_count():
    model = adapted(LoraConfig(**Q, modules_to_save=["norm"]))
    model.add_adapter("other", LoraConfig(**Q))
    model.set_adapter("other")  # as it began: it adds nothing
    weights = merged_weights(model)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in base().state_dict().items())
    model.set_adapter("default")
    assert not torch.equal(merged_weights(model)["model.norm.weight"], weights["model.norm.weight"])


def test_adapters_that_are_switched_off_add_nothing():
    model = adapted(LoraConfig(**Q, modules_to_save=["norm"]))
    plain = base().state_dict()
    with model.disable_adapter():
        weights = merged_weights(model)
        assert all(torch.equal(tensor, weights[name]) for name, tensor in plain.items())
    assert not torch.equal(merged_weights(model)[NAME], plain[NAME])


def test_adapters_that_are_merged_already_are_refused_and_stay_as_they_are():
    model = adapted(LoraConfig(**Q))
    own = logits(model)
    model.merge_adapter()
    with pytest.raises(ValueError, match="merged already"):
        merged_weights(model)
    model.unmerge_adapter()
    torch.testing.assert_close(logits(model), own, atol=1e-4, rtol=0)


def test_adapters_that_cannot_be_merged_leave_the_model_as_it_was():
    model = adapted(LoraConfig(**Q))
    model.add_adapter("other", LoraConfig(**Q))
    model.base_model.set_adapter(["default", "other"])
    layer = model.get_base_model().model.layers[0].self_attn.q_proj
    layer.lora_bias["other"] = True  # for a layer that has no bias
    own = logits(model)
    with pytest.raises(ValueError, match=r"model\.layers\.0\.self_attn\.q_proj cannot be merged: .*no bias"):
        merged_weights(model)
    assert not layer.merged and torch.equal(logits(model), own)


@pytest.mark.parametrize(
    "config", [LoraConfig(target_modules=["embed_tokens"]), LoraConfig(**Q, modules_to_save=["lm_head"])]
)
def test_one_end_alone_of_a_model_that_ties_both_is_refused(config):
    with pytest.raises(ValueError, match="change only one of two tied layers"):
        merged_weights(adapted(config))


@pytest.mark.parametrize("make", [PromptTuningConfig, PrefixTuningConfig])
def test_learned_prompts_are_refused(make):
    model = get_peft_model(base(), make(task_type="CAUSAL_LM", num_virtual_tokens=3))
    with pytest.raises(ValueError, match="changes no weights that could be merged"):
        merged_weights(model)


def test_quantized_weights_are_refused():
    model = adapted(LoraConfig(**Q))
    layer = model.get_base_model().model.layers[0].self_attn.q_proj.get_base_layer()
    layer.weight = torch.nn.Parameter(layer.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(ValueError, match=r"model\.layers\.0\.self_attn\.q_proj are quantized"):
        merged_weights(model)
