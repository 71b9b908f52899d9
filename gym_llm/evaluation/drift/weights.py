"""Hypotheses about other weights: another precision, an older checkpoint, another adapter or none."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gym_llm.engines.specs import engine_class, make_engine
from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.evaluation.drift.hypotheses import Hypothesis, loss
from gym_llm.evaluation.drift.recompute import Floats, SampledTokens, recompute
from gym_llm.evaluation.drift.renormalise import at_temperature

_ON_THE_WAY = 0.8  # share of the drift that weights between, or beyond, two others have to explain
_NEAR = 0.1  # of the way


def model_folder(spec: str) -> str | None:
    """Return the name or folder of the model that a spec names; None for a server."""
    kind, _, name = spec.strip().partition(":")
    if kind == "pocket":
        from gym_llm.engines.pocket import MODEL_PATH

        return MODEL_PATH
    return name if kind in ("transformers", "vllm") else None


def adapter_base(spec: str) -> str | None:
    """Return the spec of the model under the adapter that a spec names; None if it names no folder of an adapter."""
    folder = model_folder(spec)
    config = Path(folder, "adapter_config.json") if folder else None
    if config is None or not config.is_file():
        return None
    base = json.loads(config.read_text("utf-8")).get("base_model_name_or_path")
    return f"transformers:{base}" if base else None


async def weight_hypotheses(
    tokens: SampledTokens,
    drift: Floats,
    spec: str,
    options: Mapping[str, Any],
    *,
    checkpoints: Sequence[str] = (),
    adapters: Sequence[str] = (),
    on_step: Callable[[str], None] | None = None,
) -> list[Hypothesis]:
    """Return hypotheses about the sampler's weights: those that are named, and the model under an adapter.

    Each is scored by an engine of its own, one after the other.

    Args:
        tokens: The tokens.
        drift: Their residuals.
        spec: The engine that scored them.
        options: Its options.
        checkpoints: Specs of engines with weights that may have sampled: earlier or later ones.
        adapters: Specs of engines with another adapter, or none.
        on_step: Called with what is scored next.

    Raises:
        EngineUnavailable: If a named engine cannot be started.
        EngineError: If a named engine cannot score the tokens.
    """
    found = []
    base = adapter_base(spec)
    tokenizer = options.get("tokenizer") or model_folder(spec)
    candidates = [
        *(("stale weights", f"The weights of {each} sampled", each) for each in checkpoints),
        *(("wrong adapter", f"The weights of {each} sampled", each) for each in adapters),
        *([("wrong adapter", f"The base model {base} sampled, without the adapter", base)] if base else []),
    ]
    for cause, text, other in candidates:
        if on_step is not None:
            on_step(other)
        # Options such as `threads` are those of the first engine, as far as the other has them.
        given = {**server_options(other, tokenizer), **shared_options(other, options)}
        scored = await residuals_under(tokens.rows, other, given)
        left = _better_turns(tokens, drift, scored)
        share = float(np.mean(left != scored)) if len(left) else 0.0
        some = f" {1 - share:.0%} of the tokens" if share > 0.01 else ""
        found.append(Hypothesis(cause, f"{text}{some}.", left))
        if (between := _on_the_way(drift, scored, cause, other, is_base=other is base)) is not None:
            found.append(between)
    return found


def _on_the_way(drift: Floats, other: Floats, cause: str, name: str, *, is_base: bool) -> Hypothesis | None:
    """The hypothesis of weights on the line through the trainer's and others; None if few tokens fit.

    Small changes of weights change log probabilities in proportion, so one number has to explain all tokens. An adapter
    of another scale is on the line through the adapter and its base.
    """
    way = drift - other  # from the trainer's log probabilities to the others'
    is_apart = np.abs(way) > 0
    if not is_apart.any():
        return None
    ratios, weights = drift[is_apart] / way[is_apart], np.abs(way[is_apart])
    order = np.argsort(ratios)
    half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    share = float(ratios[order][min(half, len(order) - 1)])  # the weighted median leaves the least drift
    left = drift - share * way
    if min(abs(share), abs(1 - share)) < _NEAR or loss(left) > (1 - _ON_THE_WAY) * loss(drift):
        return None
    if is_base:
        text = f"The sampler had about {1 - share:.2g} times the trainer's adapter over {name}."
    else:
        text = f"The sampler's weights are about {share:.2g} of the way from the trainer's to {name}."
    return Hypothesis(cause, text, left)


def _better_turns(tokens: SampledTokens, drift: Floats, other: Floats) -> Floats:
    """The residuals of each turn under the weights that fit it better."""
    left = other.copy()
    keys = tokens.row * (int(tokens.turn.max()) + 1) + tokens.turn
    order = np.argsort(keys, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        if loss(drift[mine]) < loss(other[mine]):
            left[mine] = drift[mine]
    return left


def server_options(spec: str, tokenizer: str | None) -> dict[str, Any]:
    """Return the options with which a server scores, where the spec names one: its completions do."""
    has_api = "api" in inspect.signature(engine_class(spec)).parameters
    return {"api": "completions", "tokenizer": tokenizer} if has_api else {}


def shared_options(spec: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the engine of a spec has."""
    kind = "transformers:x" if spec.strip() == "pocket" else spec
    names = inspect.signature(engine_class(kind)).parameters
    return {name: value for name, value in options.items() if name in names}


async def residuals_under(rows: Sequence[DriftRow], spec: str, options: Mapping[str, Any]) -> Floats:
    """Return recorded minus computed log probabilities under the engine of a spec."""
    async with make_engine(spec, **options) as engine:
        found = await recompute(rows, engine, with_top=False)
    return at_temperature(found, found.temperature).distance(found.recorded)
