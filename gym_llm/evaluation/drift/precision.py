"""Hypotheses about precision: the sampler computed all of the model, or one part of it, in another dtype."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from gym_llm.engines.scores import MOST_LIKELIEST
from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.evaluation.drift.hypotheses import Hypothesis, expected
from gym_llm.evaluation.drift.recompute import Floats, Ints, SampledTokens, sampled_tokens
from gym_llm.evaluation.drift.weights import model_folder, residuals_under, shared_options

_DTYPES = ("bfloat16", "float16", "float32")
_PART_DTYPES = {
    "last layer": ("bfloat16", "float16"),
    "cached keys and values": ("bfloat16", "float16", "float8_e4m3fn"),
    "linear layers' weights": ("float8_e4m3fn",),
    "linear layers": ("float8_e4m3fn",),
}
_NOISE = 0.3  # of a nat: rounding rarely moves a token by more
_SHRINKS = 0.75  # the geometric mean of residuals falls to less than this with the right precision
_TINY = 1e-8
_MOST_ROWS = 16  # that are scored in another precision: processors are slow in some
_AT_ONCE = 8


async def precision_hypothesis(
    tokens: SampledTokens,
    drift: Floats,
    spec: str,
    options: Mapping[str, Any],
    *,
    on_step: Callable[[str], None] | None = None,
) -> Hypothesis | None:
    """Return the hypothesis of another precision; None if no other fits better, or the engine has one only.

    Rounding depends on the order of sums, so residuals do not vanish; but most of them get smaller by far.

    Args:
        tokens: The tokens.
        drift: Their residuals.
        spec: The engine that scored them.
        options: Its options.
        on_step: Called with what is scored next.

    Raises:
        EngineUnavailable: If the model cannot be loaded.
        EngineError: If it cannot score the tokens.
    """
    folder = model_folder(spec)
    if folder is None or not can_change_precision(spec) or np.quantile(np.abs(drift), 0.98) > _NOISE:
        return None
    chosen = np.linspace(0, len(tokens.rows) - 1, min(len(tokens.rows), _MOST_ROWS)).astype(int)
    rows = [tokens.rows[index] for index in chosen]
    tried = drift[np.isin(tokens.row, chosen)]
    # Tokens that are almost certain do not move, whatever the precision is.
    large = np.flatnonzero(np.abs(tried) >= np.median(np.abs(tried)))
    before = _geometric(tried[large])
    own = options.get("dtype", "auto")
    given = shared_options(f"transformers:{folder}", options)
    fits: dict[str, float] = {}
    for dtype in _DTYPES:
        if dtype != own and not (own == "auto" and dtype == "float32"):
            if on_step is not None:
                on_step(dtype)
            residuals = await residuals_under(rows, f"transformers:{folder}", {**given, "dtype": dtype})
            fits[f"The sampler computed in {dtype}"] = _geometric(residuals[large])
    if on_step is not None:
        on_step("parts in half precision")
    fits |= await asyncio.to_thread(_fits_of_parts, rows, folder, given, large)
    best = min(fits, key=fits.__getitem__)
    if fits[best] > _SHRINKS * before:
        return None
    text = f"{best}: the geometric mean of the differences falls from {before:.1e} to {fits[best]:.1e} with it."
    # It explains what can be: rounding that is independent of ours remains.
    return Hypothesis("dtype", text, np.zeros_like(drift))


def can_change_precision(spec: str) -> bool:
    """Whether the model of a spec can be loaded in another precision in this process."""
    return spec.strip().partition(":")[0] in ("pocket", "transformers")


def _geometric(residuals: Floats) -> float:
    return float(np.exp(np.log(np.abs(residuals) + _TINY).mean()))


def _fits_of_parts(rows: Sequence[DriftRow], folder: str, options: Mapping[str, Any], chosen: Ints) -> dict[str, float]:
    """The geometric means of chosen residuals with one part of the model in another dtype, by sentences about it."""
    import torch

    from gym_llm.engines.local_model import load_model
    from gym_llm.engines.scoring import score_rows

    model, _ = load_model(folder, options.get("device", "auto"), options.get("dtype", "auto"), name=folder)
    parts: dict[str, Callable[[Any, Any], AbstractContextManager[None]]] = {
        "last layer": _last_layer_in,
        "cached keys and values": lambda model, dtype: _cache_in(dtype),
        "linear layers' weights": lambda model, dtype: _linears_in(model, dtype, with_states=False),
        "linear layers": lambda model, dtype: _linears_in(model, dtype, with_states=True),
    }
    asked = [(row.ids, MOST_LIKELIEST if row.temperature != 1 else 0) for row in rows]
    fits = {}
    for part, dtypes in _PART_DTYPES.items():
        for name in dtypes:
            with parts[part](model, getattr(torch, name)):
                batches = [asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE)]
                scores = [each for batch in batches for each in score_rows(model, batch)]
            found = sampled_tokens(rows, scores)
            residuals = expected(found).distance(found.recorded)
            fits[f"The sampler computed its {part} in {name}"] = _geometric(residuals[chosen])
    return fits


@contextmanager
def _last_layer_in(model: Any, dtype: Any) -> Iterator[None]:
    """The logits come from states and weights of this dtype."""
    import torch

    def logits(module: Any, states: tuple[Any, ...], found: Any) -> Any:
        bias = None if module.bias is None else module.bias.to(dtype)
        return torch.nn.functional.linear(states[0].to(dtype), module.weight.to(dtype), bias).to(found.dtype)

    hook = model.get_output_embeddings().register_forward_hook(logits)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _cache_in(dtype: Any) -> Iterator[None]:
    """Attention reads keys and values that were rounded to this dtype."""
    import torch
    from torch.overrides import TorchFunctionMode

    attention = torch.nn.functional.scaled_dot_product_attention
    most = torch.finfo(dtype).max

    class Rounded(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is attention:
                query, *read = args[:3]
                args = (query, *(each.clamp(-most, most).to(dtype).to(each.dtype) for each in read), *args[3:])
            return func(*args, **(kwargs or {}))

    with Rounded():
        yield


@contextmanager
def _linears_in(model: Any, dtype: Any, *, with_states: bool) -> Iterator[None]:
    """Linear layers but the last one round weights by output channel, and with `with_states` states by token.

    These are the scales of vLLM's and LLM Compressor's dynamic FP8 (W8A8).
    """
    import torch

    most = torch.finfo(dtype).max

    def rounded(values: Any) -> Any:
        exact = values.float()
        scale = exact.abs().amax(-1, keepdim=True).clamp(min=1e-12) / most
        return ((exact / scale).to(dtype).float() * scale).to(values.dtype)

    exact_weights = {}

    def before(layer: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        exact_weights[layer] = layer.weight.data
        layer.weight.data = rounded(layer.weight.data)  # one layer at a time: a model in two forms may not fit
        return (rounded(states[0]), *states[1:]) if with_states else states

    def after(layer: Any, _states: tuple[Any, ...], _found: Any) -> None:
        layer.weight.data = exact_weights.pop(layer)

    last = model.get_output_embeddings()
    layers = [each for each in model.modules() if isinstance(each, torch.nn.Linear) and each is not last]
    hooks = [layer.register_forward_pre_hook(before) for layer in layers]
    hooks += [layer.register_forward_hook(after, always_call=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
