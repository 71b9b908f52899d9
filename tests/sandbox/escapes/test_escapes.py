"""More than sixty programs that try to get out of the sandbox, to forge how they ended, or to have it fail."""

import asyncio
import os
import runpy
import tempfile
from pathlib import Path

import psutil
import pytest

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import CellResult, Limits, PythonSession, RunResult, Sandbox

attempts = runpy.run_path(str(Path(__file__).with_name("attempts.py")))
CALLS, HELP, PROGRAMS = (attempts[name] for name in ("CALLS", "HELP", "PROGRAMS"))
SMALL = Limits(cpu_seconds=1, wall_seconds=1, memory_bytes=256 << 20)
ATTEMPTS = {
    **{name: f"n = call({call})\nescaped(n >= 0)" for name, call in CALLS.items()},
    **PROGRAMS,
}
FORGE = "forge = lambda header: os.write(3, struct.pack('>I', len(header)) + header)"
CELLS = {
    "a header that is too deep": "forge(b'[' * 4000)\ntime.sleep(9)",
    "half a header": "os.write(3, b'\\0\\0')\ntime.sleep(9)",
    "a huge header": "os.write(3, b'\\xff' * 1000)\ntime.sleep(9)",
    "an answer ahead of the cell": 'forge(b\'{"sizes": [], "names": []}\')\nwhile True: pass',
    "names that are none": 'forge(b\'{"sizes": [1], "names": [{}]}\')\ntime.sleep(9)',
    "a huge value": "'a' * (1 << 24)",
}


def test_there_are_sixty():
    assert len(ATTEMPTS) + len(CELLS) >= 60


@pytest.mark.slow
def test_nothing_escapes_and_no_attempt_is_a_failure_of_the_sandbox(tmp_path: Path):
    host = tmp_path / "host"
    host.write_text("unchanged")

    async def main() -> dict[str, RunResult]:
        async with Sandbox(concurrency=4) as sandbox:
            codes = [f"{HELP}\nHOST = {str(host)!r}\n{code}" for code in ATTEMPTS.values()]
            results = await asyncio.gather(*(sandbox.python(code, limits=SMALL, collect=["left"]) for code in codes))
            after = await sandbox.python("print(input())", stdin=b"alive")
            assert after.stdout == b"alive\n"
            return dict(zip(ATTEMPTS, results, strict=True))

    before = {process.pid for process in psutil.Process().children(recursive=True)}
    entries = set(os.listdir(tempfile.gettempdir()))
    try:
        results = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert [name for name, result in results.items() if b"ESCAPED" in result.stdout] == []
    tracebacks = {name: result.stderr for name, result in results.items() if b"NameError" in result.stderr}
    assert tracebacks == {}
    assert results["signals to the supervisor"].stdout == b"here\n"
    for name in ("a fork bomb", "standard output closed", "forks that nobody waits for"):
        assert not results[name].ok, name
    assert all(
        result.files.get("left", b"") == b"" or name == "left: a huge sparse file" for name, result in results.items()
    )
    assert host.read_text() == "unchanged"
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert not {name for name in set(os.listdir(tempfile.gettempdir())) - entries if name.startswith("gym_llm")}


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_what_a_cell_writes_to_its_supervisor_ends_the_cell_at_most(name: str):
    async def main() -> list[CellResult]:
        async with Sandbox() as sandbox:
            session = PythonSession(sandbox, SMALL)
            code = f"import os, struct, time\n{FORGE}\n{CELLS[name]}"
            results = [await session.run(code), await session.run("#" * (1 << 20)), await session.run("1 + 1")]
            await session.close()
            return results

    try:
        results = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert len(results) == 3
    assert results[2].value == "2" or results[1].state_lost or results[0].state_lost
