"""Rows of tokens with what other models make of them: a teacher for distillation, a reference for a KL penalty."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gym_llm.engines.engine import Engine
from gym_llm.trainers.shared.token_rows import TokenRow


async def with_scores(
    rows: Sequence[TokenRow], *, teacher: Engine | None = None, reference: Engine | None = None
) -> list[TokenRow]:
    """Return rows with the columns `teacher_logprobs` and `ref_logprobs`, from engines that score (`Engine.score`).

    Args:
        rows: The rows; they are not changed.
        teacher: A started engine whose model has the same tokenizer; None for no column.
        reference: The same, for the other column.

    Raises:
        EngineError: If an engine cannot score a row: it is longer than the context, or has other token ids.
    """
    columns: dict[str, Any] = {
        name: await asyncio.gather(*(_scores(row, engine) for row in rows))
        for name, engine in (("teacher_logprobs", teacher), ("ref_logprobs", reference))
        if engine is not None
    }
    return [replace(row, **{name: column[n] for name, column in columns.items()}) for n, row in enumerate(rows)]


async def _scores(row: TokenRow, engine: Engine) -> list[float]:
    """Return the log probability of each sampled id, 0.0 for any other."""
    scores = await engine.score(row.input_ids)
    return [score if used and score is not None else 0.0 for score, used in zip(scores, row.loss_mask, strict=True)]
