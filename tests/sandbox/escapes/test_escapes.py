"""About a hundred programs that try to get out of the sandbox, to forge how they ended, or to have it fail."""

import asyncio
import os
import runpy
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gym_llm.errors import SandboxError, SandboxUnavailable
from gym_llm.sandbox import CellResult, Limits, PythonSession, RunResult, Sandbox
from gym_llm.sandbox.backends import bubblewrap
from gym_llm.sandbox.zygote import Zygote

attempts = runpy.run_path(str(Path(__file__).with_name("attempts.py")))
controls = runpy.run_path(str(Path(__file__).with_name("controls.py")))
CALLS, HELP, PROGRAMS = (attempts[name] for name in ("CALLS", "HELP", "PROGRAMS"))
CONTROLS, NONE, LIMITED, KILLED, LOUD = (controls[name] for name in ("CONTROLS", "NONE", "LIMITED", "KILLED", "LOUD"))
SMALL = Limits(cpu_seconds=1, wall_seconds=1, memory_bytes=256 << 20)
ATTEMPTS = {**{name: f"called({call})" for name, call in CALLS.items()}, **PROGRAMS}
FORGE = "forge = lambda header: os.write(3, struct.pack('>I', len(header)) + header)"
CELLS = {
    "a header that is too deep": "forge(b'[' * 4000)\ntime.sleep(9)",
    "half a header": "os.write(3, b'\\0\\0')\ntime.sleep(9)",
    "a huge header": "os.write(3, b'\\xff' * 1000)\ntime.sleep(9)",
    "an answer ahead of the cell": 'forge(b\'{"sizes": [], "names": []}\')\nwhile True: pass',
    "names that are none": 'forge(b\'{"sizes": [1], "names": [{}]}\')\ntime.sleep(9)',
    "a huge value": "'a' * (1 << 24)",
}


class OpenSandbox(Sandbox):
    """Bubblewrap's namespaces without a filter, where a run has every right, and yet none over this machine."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        settings = {"packages": list(self.mounts.packages), "preload": [], "filter": False, "environment": {}}
        self._backend = Zygote(lambda control: bubblewrap(self.mounts, f"serve {control}", settings))

    def common(self, *arguments: Any) -> dict[str, Any]:
        return {**super().common(*arguments), "rights": 0xFFFFFFFF}


async def played(sandbox: Sandbox, host: Path, code: str, before: str = "", **limits: Any) -> RunResult:
    program = f"{HELP}\nHOST = {str(host)!r}\n{before}\n{code}"
    return await sandbox.python(program, limits=replace(SMALL, **limits), collect=["left"])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunResult]:
    """What came of every attempt."""
    host = tmp_path_factory.mktemp("host") / "host"
    host.write_text("unchanged")

    async def main() -> dict[str, RunResult]:
        async with Sandbox(concurrency=4) as sandbox:
            found = await asyncio.gather(*(played(sandbox, host, code) for code in ATTEMPTS.values()))
            after = await sandbox.python("print(input())", stdin=b"alive")
            assert after.stdout == b"alive\n"
            return dict(zip(ATTEMPTS, found, strict=True))

    before = {process.pid for process in psutil.Process().children(recursive=True)}
    entries = set(os.listdir(tempfile.gettempdir()))
    try:
        found = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert host.read_text() == "unchanged"
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert not {name for name in set(os.listdir(tempfile.gettempdir())) - entries if name.startswith("gym_llm")}
    return found


def test_there_are_a_hundred():
    assert len(ATTEMPTS) + len(CELLS) >= 100
    assert {*CONTROLS, *NONE, *LIMITED, *KILLED, *LOUD} <= ATTEMPTS.keys()
    assert not CONTROLS.keys() & NONE.keys()


@pytest.mark.slow
def test_nothing_escapes(results: dict[str, RunResult]):
    assert [name for name, result in results.items() if b"ESCAPED" in result.stdout] == []


@pytest.mark.slow
def test_no_attempt_fails_by_a_mistake_of_its_own(results: dict[str, RunResult]):
    said = {name: result.stderr for name, result in results.items() if result.stderr and name not in LOUD}
    assert said == {}
    assert all(words in results[name].stderr for name, words in LOUD.items())
    ended = {name: (result.limit, result.signal) for name, result in results.items()}
    assert {name: limit for name, (limit, _) in ended.items() if limit not in LIMITED.get(name, (None,))} == {}
    assert {name: ended[name][1] for name in KILLED} == KILLED
    assert {name for name, result in results.items() if not result.ok} <= {*LIMITED, *KILLED, *LOUD}


@pytest.mark.slow
def test_what_is_left_is_a_plain_file_or_nothing(results: dict[str, RunResult]):
    left = {name: result.files["left"] for name, result in results.items() if result.files.get("left")}
    assert left == {"left: a file": b"plain", "left: a huge sparse file": bytes(60 << 20)}
    assert results["signals to the supervisor"].stdout.endswith(b"here\n")


@pytest.mark.slow
def test_with_the_protection_off_each_attempt_gets_further(results: dict[str, RunResult], tmp_path: Path):
    host = tmp_path / "host"
    host.write_text("here")
    left = [name for name in ATTEMPTS if name not in NONE and (name not in LIMITED or name in CONTROLS)]

    async def main() -> dict[str, RunResult | None]:
        found: dict[str, RunResult | None] = {}
        sandboxes = {"open": OpenSandbox(), "closed": Sandbox(), "unsafe": Sandbox("unsafe")}
        for name in left:
            where, before, limits = CONTROLS.get(name, ("open", "", {}))
            try:
                found[name] = await played(sandboxes[where], host, ATTEMPTS[name], before, **limits)
            except SandboxError:  # there it can break its supervisor
                found[name] = None
        for sandbox in sandboxes.values():
            await sandbox.aclose()
        return found

    found = asyncio.run(main())
    told = {name: _further(results[name], result) for name, result in found.items()}
    counts = Counter(told.values())
    print(f"{len(ATTEMPTS)} attempts. Controls: {dict(counts)}; by the limit that ends it: {len(LIMITED)}")
    for name, why in NONE.items():
        print(f"  none for {name}: {why}")
    assert [name for name, outcome in told.items() if outcome is None] == []
    assert {name: r.stderr for name, r in found.items() if r is not None and r.stderr} == {}
    assert counts["succeeds"] >= 50


def _further(inside: RunResult, outside: RunResult | None) -> str | None:
    """What an attempt reached with the protection off that it did not reach with it; None for nothing."""
    if outside is None or (outside.signal is not None and outside.signal != inside.signal):
        return "breaks something"
    if b"ESCAPED" in outside.stdout:
        return "succeeds"
    return "gets further" if outside.stdout != inside.stdout else None


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
