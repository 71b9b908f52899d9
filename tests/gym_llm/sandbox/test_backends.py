"""Other back ends: no protection, which is real here, and containers, whose command line is what there is to see."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

import gym_llm
from gym_llm.errors import SandboxError, SandboxUnavailable
from gym_llm.sandbox import Limits, PythonSession, Sandbox

T = TypeVar("T")


def within(backend: str, use: Callable[[Sandbox], Awaitable[T]]) -> T:
    async def main() -> T:
        async with Sandbox(backend) as sandbox:
            return await use(sandbox)

    return asyncio.run(main())


def test_without_protection_programs_run_all_the_same():
    result = within("unsafe", lambda sandbox: sandbox.python("print(input() * 2)", stdin=b"ab\n"))
    assert (result.stdout, result.ok) == (b"abab\n", True)


def test_without_protection_limits_hold():
    limits = Limits(cpu_seconds=0.5, wall_seconds=1)
    assert within("unsafe", lambda sandbox: sandbox.python("while True: pass", limits=limits)).limit == "cpu"


def test_without_protection_a_session_keeps_its_state():
    async def use(sandbox: Sandbox) -> str | None:
        session = PythonSession(sandbox)
        await session.run("x = 20")
        value = (await session.run("x + 1")).value
        await session.close()
        return value

    assert within("unsafe", use) == "21"


LEAVES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        open({path!r}, 'w').write(str(os.getpid()))
        while {burns}: pass
        time.sleep(60)
    os._exit(0)
while not os.path.exists({path!r}) or not open({path!r}).read(): time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.parametrize("burns", [False, True])
def test_without_a_namespace_what_leaves_its_session_is_measured_and_ended_too(tmp_path: Path, burns: bool):
    path = str(tmp_path / "pid")
    code = LEAVES.format(path=path, burns=burns) + ("time.sleep(60)" if burns else "")
    limits = Limits(cpu_seconds=1, wall_seconds=5)
    result = within("unsafe", lambda sandbox: sandbox.python(code, limits=limits))
    assert (result.limit, result.ok) == (("cpu", False) if burns else (None, True))
    assert not Path(f"/proc/{Path(path).read_text()}").exists()


def test_a_run_that_nobody_waits_for_ends(tmp_path: Path):
    async def use(sandbox: Sandbox) -> int:
        code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        run = asyncio.create_task(sandbox.python(code))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.wait([run])
        return int((tmp_path / "pid").read_text())

    process = within("unsafe", use)
    assert not Path(f"/proc/{process}").exists()


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ValueError, match="backend is one of bubblewrap, docker, podman, apptainer, unsafe; got 'jail'"):
        Sandbox("jail")


@pytest.mark.parametrize("backend", ["docker", "podman", "apptainer"])
def test_a_container_program_that_is_not_there_is_named(backend: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable, match=f"^No sandbox: {backend} is not on PATH.$"):
        within(backend, lambda sandbox: sandbox.python("1"))


_STAND_IN = """#!/bin/sh
# Runs what stands behind the image's name here, as a container program would inside.
case "$1" in info|version) exit 0;; esac
echo "$@" >> "$COMMANDS"
while [ "$1" != python3 ]; do shift; done
shift
exec "$INTERPRETER" "$1" "$2" "$3" "$(echo "$4" | sed "s:/run/gym_llm:$INSIDE:")" "$5"
"""


@pytest.mark.parametrize("backend", ["docker", "podman", "apptainer"])
def test_a_container_gets_no_network_and_its_programs_run(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import sys

    import gym_llm.sandbox

    program = tmp_path / backend
    program.write_text(_STAND_IN)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("COMMANDS", str(tmp_path / "commands"))
    monkeypatch.setenv("INTERPRETER", sys.executable)
    monkeypatch.setenv("INSIDE", str(Path(gym_llm.sandbox.__file__).parent))
    result = within(backend, lambda sandbox: sandbox.python("print(6 * 7)"))
    assert result.stdout == b"42\n"
    (line,) = (tmp_path / "commands").read_text().splitlines()
    assert "--network none" in line
    assert "/run/gym_llm/inside:ro" in line


def test_a_container_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\ntest "$1" = info || { echo "no such image." >&2; exit 1; }\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxError, match=r"A sandbox ended before it answered: no such image\."):
        within("docker", lambda sandbox: sandbox.python("1"))


@pytest.mark.parametrize("backend", ["bubblewrap", "unsafe"])
def test_a_run_writes_nothing_into_the_package(backend: str, tmp_path: Path):
    shutil.copytree(Path(gym_llm.__file__).parent, tmp_path / "gym_llm", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import asyncio, sys; from gym_llm.errors import SandboxUnavailable; from gym_llm.sandbox import Sandbox\n"
        "async def run():\n"
        "    async with Sandbox(sys.argv[1]) as sandbox: return (await sandbox.python('print(6 * 7)')).text\n"
        "try: print(asyncio.run(run()))\n"
        "except SandboxUnavailable as error: print('unavailable', error)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code, backend]
    said = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    if said.stdout.startswith("unavailable"):
        pytest.skip(said.stdout)
    assert said.stdout == "42\n\n"
    assert list((tmp_path / "gym_llm").rglob("__pycache__")) == []
