"""Hypotheses about other token ids: the sampler read another prompt, or sampled other ids of the same text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from gym_llm.engines.engine import Engine
from gym_llm.errors import EngineError
from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.evaluation.drift.hypotheses import Hypothesis, expected, loss
from gym_llm.evaluation.drift.other_prompts import Prompt, Turn, other_prompts
from gym_llm.evaluation.drift.recompute import Floats, SampledTokens, recompute
from gym_llm.tokens.prompt_tokens import PromptTokens

_MOST_TURNS = 16
_ENOUGH = 0.02  # of the drift is left: no other prompt has to be tried
_SAME = 1e-3  # residual of a token before the first that was split otherwise
_MOST_FIRST = 5  # turns on which a prompt is tried first
_PROMISING = 0.6  # of their drift is left, at most, if a prompt is tried on all


async def context_hypotheses(
    tokens: SampledTokens, drift: Floats, engine: Engine, prompts: Mapping[str, PromptTokens]
) -> list[Hypothesis]:
    """Return hypotheses about what the sampler read; the turns that drift most are scored after other prompts.

    Args:
        tokens: The tokens.
        drift: Their residuals.
        engine: The engine that scored them.
        prompts: The tokenizer and the template of the model under "", and other templates by their names.

    Raises:
        EngineError: If the engine cannot score.
    """
    turns = _drifting(tokens, drift)
    own = prompts[""]
    few = turns[:: max(len(turns) // _MOST_FIRST, 1)]
    found = []
    for cause, detail, prompt in other_prompts(prompts):
        if (first := await _after(tokens, few, prompt, engine)) is None:
            continue
        if loss(first) > _PROMISING * loss(drift[np.concatenate([turn.tokens for turn in few])]):
            continue
        other = await _after(tokens, turns, prompt, engine)
        if other is not None:
            left = drift.copy()
            mine = np.concatenate([turn.tokens for turn in turns])
            left[mine] = other
            # Turns that were not scored again keep the same share of their drift.
            rest = np.setdiff1d(np.arange(len(drift)), mine)
            left[rest] = drift[rest] * min(loss(other) / max(loss(drift[mine]), 1e-12), 1.0)
            if all(own.decode(prompt(turn)) == own.decode(turn.prompt) for turn in turns):
                if cause != "retokenised turn":
                    detail = "The row has the text that the sampler read, but in other tokens."
                cause = "retokenised turn"
            found.append(Hypothesis(cause, detail, left))
            if loss(left) < _ENOUGH * loss(drift):
                return found
    if (split := await _split_otherwise(tokens, drift, turns, engine, own)) is not None:
        found.append(split)
    return found


def _drifting(tokens: SampledTokens, drift: Floats) -> list[Turn]:
    """The turns with the most drift, of any row."""
    _, groups = np.unique(np.stack([tokens.row, tokens.turn]), axis=1, return_inverse=True)
    groups = groups.reshape(-1)
    order = np.argsort(groups, kind="stable")
    # The rows of a line of the file are those of one episode.
    before = {
        row.place: earlier
        for earlier, row in itertools.pairwise(tokens.rows)
        if row.place.partition(".")[0] == earlier.place.partition(".")[0]
    }
    turns = []
    for mine in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        row, number = tokens.rows[tokens.row[mine[0]]], int(tokens.turn[mine[0]])
        start, end = row.spans[number]
        if len(mine) == end - start:
            turns.append(Turn(row, number, start, end, mine, before.get(row.place)))
    return sorted(turns, key=lambda turn: -loss(drift[turn.tokens]) * len(turn.tokens))[:_MOST_TURNS]


async def _after(tokens: SampledTokens, turns: Sequence[Turn], prompt: Prompt, engine: Engine) -> Floats | None:
    """Residuals of the turns' tokens after other prompts; None if no prompt differs or one cannot be made."""
    try:
        others = [prompt(turn) for turn in turns]
        if all(other == turn.prompt for other, turn in zip(others, turns, strict=True)) or not all(others):
            return None
        rows = [
            _row(turn, other, turn.row.ids[turn.start : turn.end], tokens)
            for turn, other in zip(turns, others, strict=True)
        ]
        found = await recompute(rows, engine, with_top=False)
    except EngineError:  # too long with that prompt, or not a request that the template can show
        return None
    except Exception as error:
        if type(error).__module__.startswith("jinja2"):
            return None  # the template objects to the changed request
        raise
    return expected(found).distance(found.recorded) if len(found) == sum(len(t.tokens) for t in turns) else None


def _row(turn: Turn, prompt: list[int], sampled: list[int], tokens: SampledTokens) -> DriftRow:
    recorded = tokens.recorded[turn.tokens][: len(sampled)].tolist()
    ids, mask = [*prompt, *sampled], [0] * len(prompt) + [1] * len(sampled)
    values = [0.0] * len(prompt) + recorded
    return DriftRow(ids, mask, values, temperature=turn.row.temperature, top_p=turn.row.top_p)


async def _split_otherwise(
    tokens: SampledTokens, drift: Floats, turns: Sequence[Turn], engine: Engine, own: PromptTokens
) -> Hypothesis | None:
    """The hypothesis that other ids of the same text were sampled.

    The tokens of such a turn agree up to the first that was split otherwise. There the recorded log probability is that
    of a token whose text is the beginning of the text that follows.
    """
    rows, owners = [], []
    for index, turn in enumerate(turns):
        apart = np.flatnonzero(np.abs(drift[turn.tokens]) > 10 * _SAME)
        if not len(apart) or np.abs(drift[turn.tokens[: apart[0]]]).max(initial=0.0) > _SAME:
            continue
        first = int(apart[0])
        place = turn.start + first
        for token in _beginnings(turn.row.ids[place : place + 4], own):
            rows.append(
                DriftRow(
                    [*turn.row.ids[:place], token],
                    [0] * place + [1],
                    [0.0] * place + [float(tokens.recorded[turn.tokens[first]])],
                    temperature=turn.row.temperature,
                )
            )
            owners.append(index)
    if not rows:
        return None
    found = await recompute(rows, engine, with_top=False)
    residuals = expected(found).distance(found.recorded)
    hits = {owners[n] for n in np.flatnonzero(np.abs(residuals) < _SAME * (1 + np.abs(found.recorded)))}
    if len(hits) < 2 or len(hits) < len(turns) / 3:
        return None
    left = drift.copy()
    for index in hits:
        left[turns[index].tokens] = 0.0
    mine = np.concatenate([turn.tokens for turn in turns])
    rest = np.setdiff1d(np.arange(len(drift)), mine)
    left[rest] = drift[rest] * min(loss(left[mine]) / max(loss(drift[mine]), 1e-12), 1.0)
    text = f"In {len(hits)} of {len(turns)} turns the sampler split the text into other tokens than the row has."
    return Hypothesis("retokenised turn", text, left)


def _beginnings(ids: list[int], own: PromptTokens) -> list[int]:
    """The single tokens, other than the first of these ids, with which their text can begin."""
    texts = {own.decode(ids[:count]) for count in range(2, len(ids) + 1)}
    first = own.decode(ids[:1])
    texts |= {first[:cut] for cut in range(1, len(first))}
    single = (own.encode(text) for text in texts)
    return sorted({each[0] for each in single if len(each) == 1 and each != ids[:1]})
