"""Hypotheses about other weights: another precision, an older checkpoint, another adapter or none."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gym_llm.engines.specs import engine_class, make_engine
from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.evaluation.drift.hypotheses import Hypothesis, loss
from gym_llm.evaluation.drift.recompute import Floats, SampledTokens, recompute
from gym_llm.evaluation.drift.renormalise import at_temperature

_DTYPES = ("bfloat16", "float16", "float32")
_NOISE = 0.1  # of a nat: rounding rarely moves a token by more
_SHRINKS = 0.75  # the geometric mean of residuals falls to less than this with the right precision
_TINY = 1e-8
_MOST_ROWS = 32  # that are scored in another precision: processors are slow in some


def model_folder(spec: str) -> str | None:
    """Return the name or folder of the model that a spec names; None for a server."""
    kind, _, name = spec.strip().partition(":")
    if kind == "pocket":
        return str(resources.files("gym_llm.engines.pocket") / "model")
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
    candidates = [
        *(("stale weights", f"The weights of {each} sampled", each) for each in checkpoints),
        *(("wrong adapter", f"The weights of {each} sampled", each) for each in adapters),
        *([("wrong adapter", f"The base model {base} sampled, without the adapter", base)] if base else []),
    ]
    for cause, text, other in candidates:
        if on_step is not None:
            on_step(other)
        # Options such as `threads` are those of the first engine, as far as the other has them.
        scored = await _residuals(tokens.rows, other, _shared(other, options))
        left = _better_turns(tokens, drift, scored)
        share = float(np.mean(left != scored)) if len(left) else 0.0
        some = f" {1 - share:.0%} of the tokens" if share > 0.01 else ""
        found.append(Hypothesis(cause, f"{text}{some}.", left))
    return found


def _better_turns(tokens: SampledTokens, drift: Floats, other: Floats) -> Floats:
    """The residuals of each turn under the weights that fit it better."""
    left = other.copy()
    keys = tokens.row * (int(tokens.turn.max()) + 1) + tokens.turn
    order = np.argsort(keys, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        if loss(drift[mine]) < loss(other[mine]):
            left[mine] = drift[mine]
    return left


async def precision_hypothesis(
    tokens: SampledTokens,
    drift: Floats,
    spec: str,
    options: Mapping[str, Any],
    *,
    on_step: Callable[[str], None] | None = None,
) -> Hypothesis | None:
    """Return the hypothesis of another precision; None if no other fits better, or the engine has one only.

    Rounding depends on the order of sums, so residuals do not vanish; but most of them get smaller by far. Arguments
    are those of `weight_hypotheses`.
    """
    folder = model_folder(spec)
    if folder is None or not can_change_precision(spec) or np.quantile(np.abs(drift), 0.98) > _NOISE:
        return None
    chosen = np.linspace(0, len(tokens.rows) - 1, min(len(tokens.rows), _MOST_ROWS)).astype(int)
    rows = [tokens.rows[index] for index in chosen]
    before = _geometric(drift[np.isin(tokens.row, chosen)])
    own = options.get("dtype", "auto")
    fits: dict[str, float] = {}
    for dtype in _DTYPES:
        if dtype != own and not (own == "auto" and dtype == "float32"):
            if on_step is not None:
                on_step(dtype)
            other = {**_shared(spec, options), "dtype": dtype}
            fits[dtype] = _geometric(await _residuals(rows, f"transformers:{folder}", other))
    best = min(fits, key=fits.__getitem__)
    if fits[best] > _SHRINKS * before:
        return None
    # It explains what can be: rounding that is independent of ours remains.
    return Hypothesis("dtype", f"The sampler computed in {best}.", np.zeros_like(drift))


def can_change_precision(spec: str) -> bool:
    """Whether the model of a spec can be loaded in another precision in this process."""
    return spec.strip().partition(":")[0] in ("pocket", "transformers")


def _geometric(residuals: Floats) -> float:
    return float(np.exp(np.log(np.abs(residuals) + _TINY).mean()))


def _shared(spec: str, options: Mapping[str, Any]) -> dict[str, Any]:
    kind = "transformers:x" if spec.strip() == "pocket" else spec
    names = inspect.signature(engine_class(kind)).parameters
    return {name: value for name, value in options.items() if name in names}


async def _residuals(rows: Sequence[DriftRow], spec: str, options: Mapping[str, Any]) -> Floats:
    async with make_engine(spec, **options) as engine:
        found = await recompute(rows, engine, with_top=False)
    return at_temperature(found, found.temperature).distance(found.recorded)
