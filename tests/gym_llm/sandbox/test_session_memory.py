"""Sessions that wait hold no more memory together than their sandbox has for them."""

import asyncio

import pytest

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import CellResult, PythonSession, Sandbox
from gym_llm.sandbox.memory import available

MEBI = 1 << 20
HOLD = "kept = bytearray({size} << 20); kept[::4096] = b'1' * len(kept[::4096]); len(kept) >> 20"


def played(memory_bytes: int | None, *cells: tuple[int, str]) -> list[CellResult]:
    """Cells, each in the session of that number, one after the other."""

    async def main() -> list[CellResult]:
        async with Sandbox(memory_bytes=memory_bytes) as sandbox:
            sessions = [PythonSession(sandbox) for _ in range(3)]
            results = [await sessions[number].run(code) for number, code in cells]
            for session in sessions:
                await session.close()
            assert not sandbox.memory._held
            return results

    try:
        return asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_the_largest_is_ended_and_its_next_cell_says_so_once() -> None:
    large, small = HOLD.format(size=120), HOLD.format(size=60)
    after = [(0, "kept"), (0, "1"), (0, "'kept' in dir()"), (1, "len(kept) >> 20"), (2, "len(kept) >> 20")]
    results = played(150 * MEBI, (0, large), (1, small), (2, small), *after)
    assert [result.value for result in results] == ["120", "60", "60", None, "1", "False", "60", "60"]
    ended = results[3]
    assert (ended.limit, ended.state_lost) == ("memory", True) and "too much memory" in (ended.error or "")
    assert not any(result.state_lost for result in results if result is not ended)


@pytest.mark.slow
def test_one_that_alone_holds_too_much_is_ended_behind_its_cell() -> None:
    results = played(50 * MEBI, (0, HOLD.format(size=60)), (0, "1"), (0, "2"))
    assert [result.value for result in results] == ["60", None, "2"]
    assert (results[1].limit, results[1].state_lost) == ("memory", True)


@pytest.mark.slow
def test_memory_that_was_let_go_and_what_all_share_do_not_count() -> None:
    small = HOLD.format(size=40)
    results = played(
        60 * MEBI, (0, small), (0, "del kept"), (1, small), (1, "del kept"), (2, small), (0, "1"), (1, "1")
    )
    assert not any(result.state_lost for result in results)


def test_the_default_is_a_part_of_what_there_is() -> None:
    assert 0 < Sandbox().memory.most <= available() and Sandbox(memory_bytes=5).memory.most == 5
    with pytest.raises(ValueError, match="memory_bytes is a number of bytes"):
        Sandbox(memory_bytes=0)
