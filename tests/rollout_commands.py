"""`gym-llm rollout` as a command, and what goes into it and comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from testing import row

from gym_llm.cli import main

COMMAND = [sys.executable, "-m", "gym_llm.cli"]
ENV = "gym_llm/FollowUp-v0"
NOWHERE = "http://127.0.0.1:9/v1"


def gym_llm(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, argv)], capture_output=True, text=True, timeout=60, **options)


def start(*argv: object, **options: Any) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *map(str, argv)], **pipes, **options)


def play(*argv: object) -> int:
    """The command in this process, where the process does not matter: saves a start."""
    return main(["rollout", ENV, *map(str, argv)])


def write_tasks(count: int, path: str = "tasks.jsonl") -> str:
    rows = (row(f"Question {number}", expected_answer="yes") for number in range(count))
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in rows))
    return path


def question(body: dict[str, Any]) -> int:
    """The number in a request's question."""
    return int(body["messages"][0]["content"].split()[-1])


def read(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]
