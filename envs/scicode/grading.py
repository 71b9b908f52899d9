"""Runs a step's tests: the solution's calls in one sandbox, the judgement of what they returned in another."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gym_llm.envs.scicode.splitting import Split
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import RunResult, Sandbox

_INSIDE = Path(__file__).with_name("inside")
_RETURNED = "returned.json"


async def failure(
    sandbox: Sandbox, solution: str, dependencies: str, tests: list[Split], targets: list[Any], limits: Limits
) -> str | None:
    """Why a step's tests do not pass; None if they do.

    Args:
        sandbox: Where both run, each for itself.
        solution: The program that a model wrote.
        dependencies: The problem's imports.
        tests: The step's.
        targets: One for each.
        limits: Of either run.

    Raises:
        SandboxError: If the sandbox failed.
    """
    files = {
        "values.py": _inside("values.py"),
        "solution.txt": solution.encode("utf-8", "replace"),
        "calls.json": json.dumps([test.calls for test in tests]).encode(),
    }
    called = await sandbox.python(_inside("calls_cell.py").decode(), files=files, collect=[_RETURNED], limits=limits)
    returned = called.files.get(_RETURNED)
    if not called.ok or returned is None:
        return _why(called, "it ended before its tests")
    files = {
        "values.py": _inside("values.py"),
        "compare.py": _inside("compare.py"),
        _RETURNED: returned,
        "tests.json": json.dumps([test.judgement for test in tests]).encode(),
        "targets.json": json.dumps(targets).encode(),
        "dependencies.txt": dependencies.encode("utf-8", "replace"),
    }
    larger = replace(limits, memory_bytes=2 * limits.memory_bytes)
    judged = await sandbox.python(_inside("judgement_cell.py").decode(), files=files, limits=larger)
    return None if judged.ok else _why(judged, "its tests ended early")


@cache
def _inside(name: str) -> bytes:
    return (_INSIDE / name).read_bytes()


def _why(result: RunResult, otherwise: str) -> str:
    """The limit, or the name of the exception (its message may have addresses of memory)."""
    if result.limit is not None:
        return f"limit: {result.limit}"
    if result.signal is not None:
        return f"signal {result.signal}"
    last = result.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    name = last.partition(":")[0].strip()
    return name if name.isidentifier() and len(name) < 100 else otherwise
