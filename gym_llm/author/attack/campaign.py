"""Attack a verifier in separate processes, and report the results."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from gym_llm.author.attack.finding import CheckResult, Finding, Report
from gym_llm.errors import UsageError

CHECKS = 23
"""The approximate number of calls of `on_check`."""

_SILENCE = 30.0
_START = 60.0
_SHARE_OF_SECOND = 0.2
_LEAST_OF_SECOND = 3.0


def attack(
    env_id: str,
    *,
    rows: str | None = None,
    limit: int = 5,
    env_kwargs: dict[str, Any] | None = None,
    seed: int = 0,
    seconds: float = 30.0,
    folder: str | None = None,
    on_check: Callable[[str], None] | None = None,
) -> Report:
    """Attack a verifier: play wrong answers, and report those that earn a reward.

    The verifier runs in separate processes, which are killed if they hang. The first process makes all checks. The
    second has another hash seed and another clock, and must give the same rewards.

    Args:
        env_id: A registered id, or a file's (`gym_llm.core.registry.env_files.find_env`).
        rows: A source of tasks; None for the verifier's own.
        limit: Number of tasks to play.
        env_kwargs: Further arguments of the environment; over those of its class's `dry_run_kwargs`.
        seed: Seed of generated tasks.
        seconds: Time limit; the report names the checks that had no time.
        folder: A folder to import the verifier from, if it is not installed.
        on_check: Called with each check as it begins.

    Raises:
        UsageError: If the verifier is unknown, or cannot be made.
    """
    began = time.monotonic()
    job = {
        "env_id": env_id,
        "rows": rows,
        "limit": limit,
        "env_kwargs": env_kwargs or {},
        "seed": seed,
        "seconds": seconds * (1 - _SHARE_OF_SECOND),
        "path": [*([folder] if folder else []), *filter(None, sys.path)],
        "entry_point": spec.entry_point if (spec := gym.registry.get(env_id)) is not None else None,
        "play_seconds": min(20.0, 2 * seconds / 3),
    }
    told = on_check or (lambda name: None)
    result, last = _work(job, "0", told)
    if "error" in result:
        raise UsageError(f"{env_id} cannot be attacked: {result['error']}")
    if "report" not in result and last == "start":
        lines = result["error_text"].strip().splitlines() or [f"its process {result['ended']}"]
        raise UsageError(f"{env_id} cannot be attacked: {lines[-1]}")
    if "report" not in result:
        report = Report(env_id, checks=[CheckResult(last, "not run", "its process ended or hung")])
        what = (
            "a verifier that goes on",
            f"its process {result['ended']} during the check {last!r}: {result['error_text'][-300:]}",
        )
        report.findings.append(Finding("hangs", "its process", "high", 0, last, *what))
        return report
    report = Report.from_json(result["report"])
    told("another process")
    second = CheckResult("another process")
    if result["alone"] is None:
        second.state, second.why = "not run", "the time was over"
    else:
        again = {**job, "episodes": result["episodes"], "alone": result["alone"], "shift": 86_399.5}
        again["seconds"] = max(_LEAST_OF_SECOND, seconds - (time.monotonic() - began))
        compared, _ = _work(again, "4711", told)
        found = [Finding(**each) for each in compared.get("findings", ())]
        second.plays = len(result["alone"])
        if "findings" not in compared:
            second.state, second.why = "not run", compared.get("error") or f"it {compared.get('ended')}"
        known = {(finding.check, finding.attack) for finding in report.findings}
        report.findings += [each for each in found if (each.check, each.attack) not in known]
        if any(finding.check == "not determined" for finding in found):
            second.state = "found"
    report.checks.append(second)
    report.seconds = time.monotonic() - began
    return report


def _work(job: dict[str, Any], hash_seed: str, on_check: Callable[[str], None]) -> tuple[dict[str, Any], str]:
    """Run a worker process to its end, or kill it; its last message, and the check it was at."""
    variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gym_llm.author.attack.attack_worker"]
    last, result, buffer = "start", {}, b""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job, default=str).encode() + b"\n")
                process.stdin.close()
            end = time.monotonic() + job["seconds"] + _SILENCE + _START
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                while time.monotonic() < end:
                    if not selector.select(timeout=1.0):
                        continue
                    chunk = os.read(process.stdout.fileno(), 1 << 16)
                    if not chunk:
                        break
                    buffer += chunk
                    *lines, buffer = buffer.split(b"\n")
                    for line in lines:
                        message = json.loads(line)
                        if "check" in message:
                            last = message["check"]
                            on_check(last)
                        else:
                            result = message
            if not result:
                result = {"ended": _ending(process)}
        finally:
            _end(process)
            process.stdout.close()
        if "ended" in result:
            errors.seek(0)
            result["error_text"] = errors.read()[-2000:].decode("utf-8", "replace")
    return result, last


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        return f"ended with status {process.wait(timeout=2)}"
    except subprocess.TimeoutExpired:
        return "hung and was killed"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the worker and what it started: its session."""
    if process.poll() is None:
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            pass
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, 9)
    process.wait()
