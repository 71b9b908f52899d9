"""Faults of a third blind test of `gym-llm drift`: those that it did not name at first.

Their author had read the command's page alone. It named six causes of ten. A fourth one, a larger vocabulary of the
trainer at temperature 1.5, is smaller than what the 20 likeliest tokens show, and the command says so.
"""

from __future__ import annotations

from collections.abc import Callable

import planted_drift as planted
from blind_drift import played, scored
from blind_drift_stacks import rescore
from planted_drift import Case, bare, each, records, segments, spans


def white_space_trimmed() -> Case:
    """The user's text ends with two line breaks, which the sampler's template trims and that of the row does not."""
    found = [record for record in records(1) if record["env_id"].startswith("gym_llm/Arithmetic")]
    for record in found:
        request = record["responses_create_params"]
        *before, last = request["input"]
        request["input"] = [*before, {**last, "content": f"{last['content']}\n\n"}]
    end = "<|im_end|>\n<|im_start|>assistant"
    return planted.template_drift(found, lambda text: text, lambda text: text.replace(end, f"\n\n{end}", 1))


def values_of_later_turns_moved() -> Case:
    """From the second turn on, each log probability is that of the token after it; the masks are right."""
    found = played("gym_llm/Counter-v0", 3, limit=20, sampling={"temperature": 1.3})
    for record in found:
        number = 0
        for segment in record["trajectory"]:
            for start, end in spans(segment):
                number += 1
                if number > 1:
                    segment["logprobs"][start:end] = [*segment["logprobs"][start + 1 : end], 0.0]
    return Case(bare(found))


def linear_layers_in_8_bits() -> Case:
    """The sampler's linear layers are FP8 (W8A8) in a model in bfloat16: scales by output channel and by token."""
    import torch

    def rounded(values: torch.Tensor) -> torch.Tensor:
        scale = values.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / 448
        return ((values.float() / scale).to(torch.float8_e4m3fn).float() * scale).to(values.dtype)

    class Linear(torch.nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(rounded(weight), requires_grad=False)

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(rounded(states), self.weight)

    sampler = planted.Model(dtype=torch.bfloat16)
    for layer in sampler.model.model.layers:
        for block in (layer.self_attn, layer.mlp):
            for name, part in list(block.named_children()):
                if isinstance(part, torch.nn.Linear):
                    setattr(block, name, Linear(part.weight.data))
    return each(lambda segment: rescore(segment, sampler), records(1))


def likely_tokens_at_a_high_temperature() -> Case:
    """Sound: sampled and recorded at 1.5."""
    found = played("gym_llm/Arithmetic-v0", 6, limit=20, sampling={"temperature": 1.5})
    for segment in segments(found):
        ids, mask = segment["input_ids"], segment["loss_mask"]
        segment["logprobs"] = scored(ids, planted.model().logits(ids) / 1.5, mask)
    return Case(bare(found))


THIRD_FAULTS: dict[str, tuple[str, Callable[[], Case]]] = {
    "white space trimmed": ("template drift", white_space_trimmed),
    "values of later turns moved": ("mask off by one", values_of_later_turns_moved),
    "linear layers in 8 bits": ("dtype", linear_layers_in_8_bits),
}
THIRD_SOUND: dict[str, Callable[[], Case]] = {"likely tokens at 1.5": likely_tokens_at_a_high_temperature}
