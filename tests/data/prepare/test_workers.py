"""Chunks through worker processes: in order, bounded, with failures told."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from gym_llm.data.prepare.line_workers import ChunkWorkers
from gym_llm.errors import DataError

pytestmark = pytest.mark.slow


def test_results_come_in_order_and_chunks_are_taken_as_needed() -> None:
    taken = 0

    def chunks() -> Iterator[int]:
        nonlocal taken
        for number in range(200):
            taken += 1
            yield number

    with ChunkWorkers("functools:partial", 2) as workers:
        seen = []
        for result in workers.map((pow, 2), chunks()):
            seen.append(result)
            assert taken - len(seen) <= 6
    assert seen == [2**number for number in range(200)]


def test_a_failure_in_a_worker_comes_back_with_its_traceback() -> None:
    with ChunkWorkers("functools:partial", 2) as workers, pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(workers.map((divmod, 10), [5, 0, 2]))


def test_large_chunks_and_results_do_not_block_each_other() -> None:
    with ChunkWorkers("operator:methodcaller", 2) as workers:
        blocks = [bytes([number]) * 3_000_000 for number in range(20)]
        assert list(workers.map(("upper",), blocks)) == [block.upper() for block in blocks]


def test_the_work_is_the_same_without_processes() -> None:
    with ChunkWorkers("functools:partial", 0) as workers:
        assert list(workers.map((pow, 3), range(5))) == [1, 3, 9, 27, 81]


def test_a_dead_worker_is_told() -> None:
    with ChunkWorkers("functools:partial", 1) as workers, pytest.raises(DataError, match="signal 9"):
        list(workers.map((signal.raise_signal,), [signal.SIGKILL]))


def test_workers_are_used_again_for_another_function() -> None:
    with ChunkWorkers("functools:partial", 2) as workers:
        assert list(workers.map((pow, 2), [3, 4])) == [8, 16]
        (first,) = {process.pid for process in workers._processes[:1]}
        assert list(workers.map((max, 7), [3, 9, 8])) == [7, 9, 8]
        assert workers._processes[0].pid == first
