"""Rows of tokens with what other models make of them: a teacher for distillation, a reference for a KL penalty."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gym_llm.engines.engine import Engine
from gym_llm.trainers.shared.text_alignment import TextAlignment
from gym_llm.trainers.shared.token_rows import SCORES, TokenRow, token_rows
from gym_llm.types import Rollout


async def with_scores(
    rows: Sequence[TokenRow],
    *,
    teacher: Engine | None = None,
    reference: Engine | None = None,
    tokenizers: tuple[Any, Any] | None = None,
) -> list[TokenRow]:
    """Return rows with the columns `teacher_logprobs` and `ref_logprobs`, from engines that score (`Engine.score`).

    A teacher with another tokenizer reads the text of a row. Its tokens are aligned with those of the row by their
    bytes (`TextAlignment`). `teacher_mask` has 0 for sampled ids that are not aligned.

    Args:
        rows: The rows; they are not changed.
        teacher: A started engine; None for no column.
        reference: A started engine whose model has the same tokenizer, for the other column.
        tokenizers: The tokenizer of the rows and that of the teacher, of transformers; None if it is the same one.

    Raises:
        EngineError: If an engine cannot score a row: it is longer than the context, or has other token ids.
        ValueError: If there are tokenizers and no teacher.
    """
    if tokenizers is not None and teacher is None:
        raise ValueError("tokenizers are for a teacher that has another one: give the teacher, too.")
    alignment = None if tokenizers is None else TextAlignment(*tokenizers)
    scored = list(rows)
    if teacher is not None:
        columns = await asyncio.gather(*(_taught(row, teacher, alignment) for row in rows))
        scored = [replace(row, **each) for row, each in zip(scored, columns, strict=True)]
    if reference is not None:
        logs = await asyncio.gather(*(_scores(row, reference) for row in rows))
        scored = [replace(row, ref_logprobs=each) for row, each in zip(scored, logs, strict=True)]
    return scored


async def add_scores(records: Sequence[Rollout], **engines: Any) -> None:
    """Add the columns of `with_scores` to the trajectories of records, for trainers' functions that take records.

    Args:
        records: The records; they are changed.
        **engines: `teacher`, `reference` and `tokenizers`; see `with_scores`.
    """
    segments = [segment for record in records for segment in record["trajectory"] or () if 1 in segment["loss_mask"]]
    rows = await with_scores([row for record in records for row in token_rows(record)], **engines)
    for segment, row in zip(segments, rows, strict=True):
        segment.update({name: column for name in SCORES if (column := getattr(row, name)) is not None})


async def _taught(row: TokenRow, teacher: Engine, alignment: TextAlignment | None) -> dict[str, Any]:
    if alignment is None:
        return {"teacher_logprobs": await _scores(row, teacher)}
    ids = alignment.teacher_ids(row.input_ids)
    found = alignment.align(row.input_ids, ids, await teacher.score(ids))
    mask = [one & other for one, other in zip(found.mask, row.loss_mask, strict=True)]
    logs = [log if used else 0.0 for log, used in zip(found.log_probs, mask, strict=True)]
    return {"teacher_logprobs": logs, "teacher_mask": mask}


async def _scores(row: TokenRow, engine: Engine) -> list[float]:
    """Return the log probability of each sampled id, 0.0 for any other."""
    scores = await engine.score(row.input_ids)
    return [score if used and score is not None else 0.0 for score, used in zip(scores, row.loss_mask, strict=True)]
