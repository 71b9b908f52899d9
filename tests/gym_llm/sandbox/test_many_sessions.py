"""More sessions than a process may have files or processes for: a script in a process of its own, with limits."""

import os
import subprocess
import sys

import pytest

SESSIONS = """
import asyncio, resource, sys
from gym_llm.errors import SandboxError, SandboxUnavailable
from gym_llm.sandbox import PythonSession, Sandbox

async def main(kind, soft, hard, count, opened):
    resource.setrlimit(getattr(resource, kind), (soft, hard))
    files = [open('/dev/null') for _ in range(opened)]
    async with Sandbox() as sandbox:
        sessions = []
        try:
            for number in range(count):
                session = PythonSession(sandbox)
                await session.run(f"x = {number}")
                sessions.append(session)
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            print("error:", error)
        values = [(await session.run("x")).value for session in sessions]
        assert values == [str(number) for number in range(len(sessions))], values
        print(len(sessions), "sessions")

try:
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
except SandboxUnavailable as error:
    print("unavailable:", error)
"""


def sessions(kind: str, soft: int, hard: int, count: int = 25, opened: int = 0) -> str:
    command = [sys.executable, "-c", SESSIONS, kind, *map(str, (soft, hard, count, opened))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.stdout.startswith("unavailable"):
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_soft_limit_of_open_files_is_raised_for_sessions():
    assert sessions("RLIMIT_NOFILE", 128, 256, opened=110) == "25 sessions\n"


def test_too_many_sessions_for_the_open_files_say_so_and_the_others_go_on():
    said = sessions("RLIMIT_NOFILE", 128, 136, opened=110)
    assert "error: No more runs or sessions can be opened" in said
    assert "ulimit -n" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of the same user count, and there may be any number of them")
def test_too_many_sessions_for_the_processes_say_so_and_the_others_go_on():
    said = sessions("RLIMIT_NPROC", 40, 40)
    assert "no more processes or namespaces can be had" in said
    assert "close some sessions" in said
