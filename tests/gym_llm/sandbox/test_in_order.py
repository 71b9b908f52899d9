"""Tests of a program run in order, some at a time, to the first failure."""

from __future__ import annotations

import asyncio

import pytest

from gym_llm.sandbox.run_tests import until_failure


async def play(count: int, fails_at: int | None, at_a_time: int) -> tuple[list[int], int, int]:
    """What tests came to, how many were begun, and the most at a time."""
    running, begun, most = 0, 0, 0

    async def test(number: int) -> int:
        nonlocal running, begun, most
        running, begun = running + 1, begun + 1
        most = max(most, running)
        try:
            await asyncio.sleep(0.001 * (count - number))  # the later end first
        finally:
            running -= 1
        return number

    results = await until_failure(test, count, lambda number: number == fails_at, at_a_time=at_a_time)
    assert running == 0
    return results, begun, most


@pytest.mark.parametrize("at_a_time", [1, 3])
def test_results_are_in_order_and_end_with_the_first_failure(at_a_time: int) -> None:
    results, begun, most = asyncio.run(play(9, None, at_a_time))
    assert results == list(range(9)) and begun == 9 and most == at_a_time
    results, begun, most = asyncio.run(play(9, 4, at_a_time))
    assert results == [0, 1, 2, 3, 4] and begun <= 4 + at_a_time and most == at_a_time
    assert asyncio.run(play(9, 0, at_a_time)) == ([0], 1, 1)
    assert asyncio.run(play(0, None, at_a_time)) == ([], 0, 0)


def test_a_fault_of_the_sandbox_ends_them_all() -> None:
    async def test(number: int) -> int:
        if number == 2:
            raise RuntimeError("no sandbox")
        await asyncio.sleep(0.001)
        return number

    with pytest.raises(RuntimeError, match="no sandbox"):
        asyncio.run(until_failure(test, 5, lambda _: False, at_a_time=4))
