"""Recorded and recomputed log probabilities of rows, as flat arrays over their sampled tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gym_llm.engines.engine import Engine
from gym_llm.engines.scores import MOST_LIKELIEST, Scores
from gym_llm.errors import EngineError
from gym_llm.evaluation.drift.drift_row import DriftRow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_AT_ONCE = 64
"""Rows whose scores are awaited together: a file may have a hundred thousand."""


@dataclass(frozen=True)
class SampledTokens:
    """The sampled tokens of some rows, one after the other; each array has one entry for each token.

    Tokens that were sampled under a constraint are left out: their log probabilities are among the allowed tokens.

    Attributes:
        rows: The rows.
        recorded: The recorded log probabilities.
        scored: Those of the engine, at temperature 1 and among all tokens.
        ids: The token ids.
        row: The index of the row.
        place: The index in the row.
        turn: The index of the span of sampled ids in the row.
        offset: The index in the span.
        version: The version of the weights that sampled it, as recorded.
        temperature: The temperature of its request.
        top_p: The `top_p` of its request.
        top_ids: The most likely ids at the position, the likeliest first, shape (tokens, 20); -1 for none.
        top: Their log probabilities; -inf for none.
        every: For each row, the scores of all its ids; NaN for the first.
    """

    rows: Sequence[DriftRow]
    recorded: Floats
    scored: Floats
    ids: Ints
    row: Ints
    place: Ints
    turn: Ints
    offset: Ints
    version: Ints
    temperature: Floats
    top_p: Floats
    top_ids: Ints
    top: Floats
    every: Sequence[Floats]

    def __len__(self) -> int:
        return len(self.recorded)


async def score_all(
    ids: Sequence[Sequence[int]],
    engine: Engine,
    *,
    top_k: int = 0,
    on_scored: Callable[[int], None] | None = None,
) -> list[Scores]:
    """Return the scores of rows of ids, in their order.

    Args:
        ids: The rows.
        engine: A started engine.
        top_k: The number of likeliest tokens.
        on_scored: Called with the number of rows that were scored since the last call.

    Raises:
        EngineError: If the engine cannot score, or cannot score one of the rows.
    """
    order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))  # rows of about one length share a batch
    found: list[Scores | None] = [None] * len(ids)
    for start in range(0, len(order), _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        scores = await asyncio.gather(*(engine.score(ids[index], top_k=top_k) for index in some))
        for index, each in zip(some, scores, strict=True):
            found[index] = each
        if on_scored is not None:
            on_scored(len(some))
    return [each for each in found if each is not None]


async def recompute(
    rows: Sequence[DriftRow],
    engine: Engine,
    *,
    with_top: bool = True,
    on_scored: Callable[[int], None] | None = None,
) -> SampledTokens:
    """Return the sampled tokens of rows, scored by an engine.

    Args:
        rows: The rows.
        engine: A started engine.
        with_top: Whether the most likely tokens are needed. They are where a temperature is not 1, in any case.
        on_scored: See `score_all`.

    Raises:
        EngineError: If the engine cannot score, or cannot score one of the rows.
    """
    with_top = with_top or any(row.temperature != 1 for row in rows)
    top_k = MOST_LIKELIEST if with_top else 0
    return sampled_tokens(rows, await score_all([row.ids for row in rows], engine, top_k=top_k, on_scored=on_scored))


def sampled_tokens(rows: Sequence[DriftRow], scores: Sequence[Scores]) -> SampledTokens:
    """Return the sampled tokens of rows, with the scores of all of their ids.

    Raises:
        EngineError: If no token can be scored.
    """
    places: list[tuple[int, int, int, int]] = []
    for number, row in enumerate(rows):
        for turn, (start, end) in enumerate(row.spans):
            constrained = row.constrained or [0] * len(row.ids)
            first = max(start, 1)  # nothing comes before the first id, so it has no probability
            places += [(number, at, turn, at - start) for at in range(first, end) if not constrained[at]]
    if not places:
        raise EngineError("There are no tokens to score: all were sampled under a constraint.")
    columns = np.array(places, np.int64)
    top_ids = np.full((len(places), MOST_LIKELIEST), -1, np.int64)
    top = np.full((len(places), MOST_LIKELIEST), -np.inf)
    for index, (number, at, _, _) in enumerate(places):
        for rank, (token, value) in enumerate(scores[number].likeliest[at][:MOST_LIKELIEST]):
            top_ids[index, rank], top[index, rank] = token, value

    def gathered(value: Callable[[DriftRow, int], float]) -> Floats:
        return np.array([value(rows[number], at) for number, at, _, _ in places])

    every = [np.array([np.nan if value is None else value for value in each]) for each in scores]
    return SampledTokens(
        rows=rows,
        recorded=gathered(lambda row, at: row.log_probs[at]),
        scored=np.array([every[number][at] for number, at, _, _ in places]),
        ids=gathered(lambda row, at: row.ids[at]).astype(np.int64),
        row=columns[:, 0],
        place=columns[:, 1],
        turn=columns[:, 2],
        offset=columns[:, 3],
        version=gathered(lambda row, at: row.versions[at] if row.versions else 0).astype(np.int64),
        temperature=gathered(lambda row, at: row.temperature),
        top_p=gathered(lambda row, at: row.top_p),
        top_ids=top_ids,
        top=top,
        every=every,
    )
