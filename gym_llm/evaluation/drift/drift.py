"""Drift of a file: recompute its log probabilities under an engine, measure the difference, and find its cause."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gym_llm.engines.engine import Engine
from gym_llm.engines.prompt_ids import load_prompt_tokens
from gym_llm.engines.scores import MOST_LIKELIEST
from gym_llm.engines.specs import make_engine
from gym_llm.errors import DataError, EngineUnavailable, UsageError
from gym_llm.evaluation.drift.causes import CAUSES, Finding
from gym_llm.evaluation.drift.contexts import context_hypotheses
from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.evaluation.drift.hypotheses import Hypothesis, arithmetic, expected, is_rounded, loss, places, vocabulary
from gym_llm.evaluation.drift.measures import grouped, measures
from gym_llm.evaluation.drift.precision import can_change_precision, precision_hypothesis
from gym_llm.evaluation.drift.recompute import Floats, SampledTokens, recompute
from gym_llm.evaluation.drift.rows import read_rows
from gym_llm.evaluation.drift.sampling import drawn_otherwise
from gym_llm.evaluation.drift.structure import lost_specials, mask_fault
from gym_llm.evaluation.drift.weights import model_folder, server_options, weight_hypotheses
from gym_llm.tokens.prompt_tokens import PromptTokens

NOISE = 1e-4
"""The root of the mean squared residual up to which sampler and trainer agree: float32 stays below a tenth of it."""

_EXPLAINS = 0.6  # share of the drift that a cause has to explain
_NEARLY = 0.02  # causes that explain as much, but for this share, are equally good
_ONE_SIDED = 0.99
_SMALL = 0.02  # of a nat: the precision where it cannot be tried
_MOST_ROWS = 256
_MOST_FAR = 0.1  # share of the tokens that other weights move by a nat or more

OnStep = Callable[[str, int, int], None]
"""`on_step(what, done, total)` is called as rows are scored."""


@dataclass
class Drift:
    """A measured drift: its summary, and the residuals for plots.

    Attributes:
        summary: See `drift_of`.
        tokens: The sampled tokens; None before they are scored.
        residuals: Recorded minus computed log probabilities.
    """

    summary: dict[str, Any]
    tokens: SampledTokens
    residuals: Floats = field(repr=False)


@dataclass(frozen=True)
class _Question:
    """What a search for causes needs."""

    engine: Engine
    spec: str
    options: Mapping[str, Any]
    prompts: Mapping[str, PromptTokens]
    checkpoints: Sequence[str]
    adapters: Sequence[str]
    on_step: OnStep


def drift_of(
    path: str | os.PathLike[str],
    engine: str = "pocket",
    *,
    options: Mapping[str, Any] | None = None,
    checkpoints: Sequence[str] = (),
    adapters: Sequence[str] = (),
    tokenizer: str | None = None,
    templates: Sequence[str] = (),
    temperature: float | None = None,
    limit: int | None = None,
    on_read: Callable[[int], None] | None = None,
    on_step: OnStep = lambda what, done, total: None,
) -> Drift:
    """Recompute the log probabilities of a file under an engine, and say how far they are apart and why.

    A trainer is taken to divide the logits by the temperature of the request, and to give every token a probability.

    Args:
        path: A rollout file; see `gym_llm.evaluation.drift.rows.read_rows`.
        engine: The spec of an engine that scores: the trainer's weights.
        options: Its options.
        checkpoints: Specs of engines with other weights that may have sampled.
        adapters: Specs of engines with another adapter that may have sampled, or with none.
        tokenizer: The name or folder of the tokenizer, where the engine is a server.
        templates: Files of other chat templates that the sampler may have used.
        temperature: The trainer's temperature, where it is not that of the requests.
        limit: Read no more than this number of rows.
        on_read: Called with the size in bytes of each line that is read.
        on_step: Called as rows are scored.

    Returns:
        The drift. Its `summary` has JSON values: the fields of `gym_llm.evaluation.drift.measures.measures`, and

        - `path`, `engine`, `rows`: the file, the engine, and the number of rows.
        - `by`: short measures by turn, position and version.
        - `cause`: one of `gym_llm.evaluation.drift.causes.CAUSES`; None without drift.
        - `detail`, `explained`: a sentence about the cause, and the share of the drift that it explains.
        - `others`: further causes that explain most of it.
        - `notes`: sentences about what was not examined.

    Raises:
        DataError: If the file has no token ids with log probabilities.
        EngineError: If the engine cannot score these tokens.
        EngineUnavailable: If the engine, or a tokenizer that was named, cannot be loaded.
    """
    rows = read_rows(path, on_read=on_read)[:limit]
    if temperature is not None:
        rows = [replace(row, temperature=temperature) for row in rows]
    prompts, notes = _load_prompts(engine, tokenizer, templates)
    options = {**server_options(engine, tokenizer), **(options or {})}
    question = _Question(make_engine(engine, **options), engine, options, prompts, checkpoints, adapters, on_step)
    tokens, findings = asyncio.run(_examine(rows, question))
    computed = expected(tokens)
    residuals = computed.distance(tokens.recorded)
    if (width := float(np.quantile(computed.high - computed.low, 0.9))) > NOISE:
        notes.append(
            f"At a temperature other than 1 only the {MOST_LIKELIEST} likeliest tokens are known: most log "
            f"probabilities are known within a range of {width:.2g} or less. Smaller drift is not seen."
        )
    best = findings[0] if findings else None
    summary = {
        "path": os.fspath(path),
        "engine": engine,
        "rows": len(rows),
        **measures(residuals),
        "by": grouped(tokens, residuals),
        "cause": best.cause if best else None,
        "detail": best.detail if best else "Sampler and trainer agree.",
        "explained": best.explained if best else 1.0,
        "others": [each._asdict() for each in findings[1:]],
        "notes": notes,
    }
    return Drift(summary, tokens, residuals)


def _load_prompts(
    engine: str, tokenizer: str | None, templates: Sequence[str]
) -> tuple[dict[str, PromptTokens], list[str]]:
    """The tokenizer and its chat templates, and notes on what cannot be examined without them."""
    name = tokenizer or model_folder(engine)
    if name is None:
        if templates:
            raise UsageError("Other templates need a tokenizer: name it with --tokenizer.")
        return {}, ["Masks and templates are not examined: name the tokenizer with --tokenizer."]
    try:
        prompts = {"": load_prompt_tokens(name, "template")}
    except EngineUnavailable:
        if tokenizer is not None or templates:
            raise
        return {}, [f"Masks and templates are not examined: {name} has no tokenizer with a chat template."]
    for file in templates:
        try:
            text = Path(file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"Cannot read the template {file}: {error}.") from None
        prompts[file] = load_prompt_tokens(name, "template", template=text)
    return prompts, []


async def _examine(rows: list[DriftRow], question: _Question) -> tuple[SampledTokens, list[Finding]]:
    done = 0

    def scored(count: int) -> None:
        nonlocal done
        done += count
        question.on_step("scoring", done, len(rows))

    def on_step(what: str) -> None:
        question.on_step(f"trying {what}", 0, 0)

    async with question.engine as engine:
        tokens = await recompute(rows, engine, on_scored=scored)
        drift = expected(tokens).distance(tokens.recorded)
        own = question.prompts.get("")
        fault = mask_fault(rows, own) if own else None
        if fault is not None:
            return tokens, [Finding(fault.cause, fault.detail, 1.0)]
        if np.sqrt((drift**2).mean()) <= NOISE:
            found = drawn_otherwise(tokens)
            return tokens, [found] if found else []
        if own and (lost := lost_specials(rows, own)):
            return tokens, [Finding("special tokens", lost, 1.0)]
        if len(rows) > _MOST_ROWS:
            tokens_tried = await recompute(_most_drifting(tokens, drift), engine)
        else:
            tokens_tried = tokens
        drift = expected(tokens_tried).distance(tokens_tried.recorded)
        hypotheses = [each for tried in (arithmetic, vocabulary, places) for each in tried(tokens_tried, drift)]
        if not _explaining(hypotheses, drift):
            hypotheses += await weight_hypotheses(
                tokens_tried,
                drift,
                question.spec,
                question.options,
                checkpoints=question.checkpoints,
                adapters=question.adapters,
                on_step=on_step,
            )
        if own is not None and not _explaining(hypotheses, drift):
            on_step("other prompts")
            hypotheses += await context_hypotheses(tokens_tried, drift, engine, question.prompts)
    if not _explaining(hypotheses, drift):
        precision = await precision_hypothesis(tokens_tried, drift, question.spec, question.options, on_step=on_step)
        hypotheses += [precision] if precision else []
    return tokens, _explaining(hypotheses, drift) or [_by_elimination(tokens_tried, drift, question)]


def _most_drifting(tokens: SampledTokens, drift: Floats) -> list[DriftRow]:
    """The rows to try causes on: every second is one of those that drift most, the others are spread over the file."""
    totals = np.bincount(tokens.row, np.minimum(np.abs(drift), 5.0), minlength=len(tokens.rows))
    most = np.argsort(-totals, kind="stable")[: _MOST_ROWS // 2]
    spread = np.linspace(0, len(tokens.rows) - 1, _MOST_ROWS // 2).astype(int)
    return [tokens.rows[index] for index in np.unique(np.concatenate([most, spread]))]


def _explaining(hypotheses: Sequence[Hypothesis], drift: Floats) -> list[Finding]:
    """The causes that explain most of the drift, the best first, each once."""
    whole = loss(drift)
    ranks = list(CAUSES)
    found: dict[str, Finding] = {}
    for each in hypotheses:
        explained = 1 - loss(each.residuals) / whole
        if explained >= _EXPLAINS and explained > found.get(each.cause, Finding("", "", 0.0)).explained:
            found[each.cause] = Finding(each.cause, each.detail, explained)
    return sorted(found.values(), key=lambda each: (-round(each.explained / _NEARLY), ranks.index(each.cause)))


def _by_elimination(tokens: SampledTokens, drift: Floats, question: _Question) -> Finding:
    """The cause that is left where no hypothesis explains the drift."""
    if form := is_rounded(tokens.recorded):
        return Finding("dtype", f"The recorded log probabilities are rounded to {form}.", 0.0)
    if (drift[np.abs(drift) > NOISE] > 0).mean() >= _ONE_SIDED:
        text = "No token is less likely than recorded: the sampler had fewer tokens to choose from."
        return Finding("truncated vocabulary", text, 0.0)
    if not can_change_precision(question.spec) and np.sqrt((drift**2).mean()) <= _SMALL:
        return Finding("dtype", "The drift is as small as that of rounding, and nothing else explains it.", 0.0)
    far = float((np.abs(drift) > 1).mean())
    if far > _MOST_FAR:
        return Finding("unknown", f"{far:.0%} of the tokens are apart by a nat or more, and no cause explains it.", 0.0)
    text = "Nothing that was tried explains it. If other weights sampled, name them with --checkpoint or --adapter."
    return Finding("unknown", text, 0.0)
