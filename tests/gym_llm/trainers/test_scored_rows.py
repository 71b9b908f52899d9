"""Rows with the log probabilities of a teacher and of a reference model."""

from __future__ import annotations

import pytest
from testing import in_loop

import gym_llm
from gym_llm.engines.pocket import PocketEngine
from gym_llm.trainers.shared.scored_rows import add_scores, with_scores
from gym_llm.trainers.shared.token_rows import token_rows

pytestmark = pytest.mark.slow


@in_loop
async def test_a_policy_as_its_own_teacher_gives_what_it_sampled_with() -> None:
    async with PocketEngine() as engine:
        played = gym_llm.rollout("gym_llm/Weather-v0", engine, limit=6)
        rows = [row async for record in played for row in token_rows(record)]
        assert rows and all(row.teacher_logprobs is None for row in rows)
        scored = await with_scores(rows, teacher=engine)
        both = await with_scores(rows, teacher=engine, reference=engine)
    for row, one, two in zip(rows, scored, both, strict=True):
        assert one.teacher_logprobs == pytest.approx(row.logprobs, abs=1e-4)
        assert one.ref_logprobs is None and two.ref_logprobs == pytest.approx(row.logprobs, abs=1e-4)
        assert one.input_ids is row.input_ids


@in_loop
async def test_scores_are_added_to_records_for_the_functions_that_take_these() -> None:
    async with PocketEngine() as engine:
        records = [record async for record in gym_llm.rollout("gym_llm/Weather-v0", engine, limit=3)]
        await add_scores(records, teacher=engine)
    rows = [row for record in records for row in token_rows(record)]
    assert len(rows) >= 3 and all(row.ref_logprobs is None and row.teacher_mask is None for row in rows)
    for row in rows:
        assert row.teacher_logprobs == pytest.approx(row.logprobs, abs=1e-4)
