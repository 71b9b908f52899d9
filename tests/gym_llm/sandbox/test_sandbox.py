"""Runs in the real sandbox."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from gym_llm.errors import SandboxError, SandboxUnavailable
from gym_llm.sandbox import Limits, RunResult, Sandbox

T = TypeVar("T")
SMALL = Limits(cpu_seconds=1, wall_seconds=1, memory_bytes=256 << 20)


def inside(use: Callable[[Sandbox], Awaitable[T]]) -> T:
    async def main() -> T:
        async with Sandbox() as sandbox:
            return await use(sandbox)

    try:
        return asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def python(code: str, stdin: bytes = b"", limits: Limits = SMALL) -> RunResult:
    return inside(lambda sandbox: sandbox.python(code, stdin=stdin, limits=limits))


def test_a_program_reads_and_prints():
    result = python(
        "import sys; print(input()[::-1]); print(sys.stdin.read(), file=sys.stderr); sys.exit(3)", b"ab\ncd"
    )
    assert (result.stdout, result.stderr, result.exit_code, result.limit) == (b"ba\n", b"cd\n", 3, None)
    assert not result.ok


def test_a_traceback_names_the_programs_own_lines():
    result = python("def f():\n    return 1 / 0\nf()")
    assert result.exit_code == 1
    assert b'"main.py", line 2' in result.stderr.replace(b"/tmp/", b"")
    assert b"inside" not in result.stderr


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("while True: pass", "cpu"),
        ("import time; time.sleep(60)", "wall"),
        ("kept = []\nwhile True: kept.append(bytearray(10**6))", "memory"),
        ("print('x' * 10**7)", "output"),
    ],
)
def test_what_takes_too_much_is_killed(code: str, limit: str):
    result = python(code)
    assert result.limit == limit
    assert not result.ok


def test_processes_are_limited_together():
    code = """
import os, time
n = 0
try:
    while True:
        if not os.fork():
            time.sleep(9)
        n += 1
except OSError:
    print(n)
"""
    assert 1 < int(python(code, limits=Limits(processes=16)).stdout) < 20


def test_what_a_program_leaves_running_is_gone_and_what_it_wrote_can_be_had():
    async def use(sandbox: Sandbox) -> RunResult:
        return await sandbox.run(
            ["sh", "-c", "cat in > out; ln -s out link; (sleep 60; echo late >> out) & echo done"],
            files={"in": b"text"},
            collect=["out", "link", "missing"],
            limits=SMALL,
        )

    result = inside(use)
    assert result.ok
    assert result.stdout == b"done\n"
    assert result.files == {"out": b"text"}  # no link is followed
    assert result.wall_seconds < 30


def test_runs_share_nothing():
    async def use(sandbox: Sandbox) -> list[RunResult]:
        await sandbox.python("open('left', 'w').write('a'); open('/dev/shm/left', 'w')")
        look = "import os, random; print(os.listdir('/tmp'), os.listdir('/dev/shm')); print(random.random())"
        return [await sandbox.python(look) for _ in range(2)]

    first, second = (result.stdout.splitlines() for result in inside(use))
    assert first[0] == second[0] == b"['main.py'] []"
    assert first[1] != second[1]


FILL = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
other = server.accept()[0]
other.sendall(b"hello")
assert client.recv(5) == b"hello"
client.setblocking(False)
n = 0
try:
    while True: n += client.send(bytes(1 << 16))
except BlockingIOError:
    print(n)
"""


def test_sockets_on_loopback_speak_and_keep_no_more_than_they_are_counted_as():
    result = inside(lambda sandbox: sandbox.python(FILL, loopback=True))
    assert result.ok, result.stderr
    assert 1 << 16 <= int(result.stdout) <= 425984
    assert not inside(lambda sandbox: sandbox.python(FILL)).ok


def test_a_command_that_is_not_there_is_not_the_programs_fault():
    with pytest.raises(SandboxError, match="no-such-command"):
        inside(lambda sandbox: sandbox.run(["no-such-command"]))


def test_an_argument_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="cpu_seconds is a number above 0, got 0"):
        Limits(cpu_seconds=0)
    with pytest.raises(ValueError, match="concurrency"):
        Sandbox(concurrency=0)
