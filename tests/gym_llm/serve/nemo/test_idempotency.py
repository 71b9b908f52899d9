"""Answers that are worked out once, however often they are asked for."""

from __future__ import annotations

import asyncio

import pytest
from testing import in_loop

from gym_llm.serve.nemo import idempotency as once
from gym_llm.serve.nemo.idempotency import IdempotencyCache


class Work:
    """Counts how often it is done; it waits for `gate`, and fails the first `failures` times."""

    def __init__(self, answer: bytes = b"4", failures: int = 0) -> None:
        self.answer, self.failures, self.times = answer, failures, 0
        self.gate = asyncio.Event()

    async def __call__(self) -> bytes:
        self.times += 1
        await self.gate.wait()
        if self.times <= self.failures:
            raise KeyError("no")
        return self.answer


@in_loop
async def test_those_who_ask_at_once_and_later_get_the_same_answer():
    answers, work = IdempotencyCache(), Work()
    asking = [asyncio.create_task(answers.get("a", work)) for _ in range(3)]
    await asyncio.sleep(0)
    work.gate.set()
    assert await asyncio.gather(*asking) == [b"4"] * 3
    assert (await answers.get("a", work), answers.done("a"), work.times) == (b"4", b"4", 1)


@in_loop
async def test_work_goes_on_when_its_client_leaves():
    answers, work = IdempotencyCache(), Work()
    asking = asyncio.create_task(answers.get("a", work))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.sleep(0)
    work.gate.set()
    assert (await answers.get("a", work), work.times) == (b"4", 1)


@in_loop
async def test_a_failure_is_not_kept():
    answers, work = IdempotencyCache(), Work(failures=1)
    work.gate.set()
    with pytest.raises(KeyError):
        await answers.get("a", work)
    assert (await answers.get("a", work), work.times) == (b"4", 2)


@in_loop
async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(once, "_KEPT", 8)
    monkeypatch.setattr(once, "_KEPT_BYTES", 40)
    answers = IdempotencyCache()
    for number in range(30):
        work = Work(b"x" * (number % 9))
        work.gate.set()
        await answers.get(number, work)
    kept = [answer for number in range(30) if (answer := answers.done(number)) is not None]
    assert 0 < len(kept) <= 8 and sum(map(len, kept)) <= 40
    assert answers.done(29) is not None
