"""Small runs of benchmarks/sandbox_leaks.py, which plays 10,000 runs, and of benchmarks/sandbox_load.py."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from testing import ROOT

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import Limits, Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _sandbox() -> None:
    async def start() -> None:
        async with Sandbox() as sandbox:
            await sandbox.python("")

    try:
        asyncio.run(start())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def benchmark(name: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints last."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.stdout, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


@pytest.mark.nightly
def test_nothing_is_left_of_a_thousand_runs_whose_sandbox_is_killed_at_random():
    figures = benchmark("sandbox_leaks.py", "--runs", "1000")
    assert figures["wrong"] == []
    assert not any(figures["left"].values()), figures["left"]
    assert (figures["tasks"], figures["too_much"]) == (0, []), figures["grown"]
    assert figures["killed"]["supervisor"] > 5
    assert figures["outcomes"]["right"] > 200


@pytest.mark.nightly
def test_verdicts_are_the_same_on_a_busy_machine():
    figures = benchmark("sandbox_load.py", "--programs", "14")
    assert figures["disagreements"] == figures["wrong"] == []
    assert figures["agreed"] >= 12


def test_what_had_too_much_memory_for_a_moment_passed_its_limit():
    async def main() -> list[str | None]:
        async with Sandbox() as sandbox:
            code = "x = b'x' * (20 << 20)\ndel x\nprint('ok')"  # some milliseconds
            runs = [sandbox.python(code, limits=Limits(memory_bytes=24 << 20)) for _ in range(8)]
            return [run.limit for run in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == ["memory"] * 8
