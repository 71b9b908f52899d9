"""Machines: what commands find in them, what they may take, and what is left of them: real ones, behind bubblewrap."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gym_llm.errors import SandboxError, SandboxUnavailable, UsageError
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.machine import BubblewrapMachine, ExecResult, MachineLimits
from gym_llm.sandbox.machines.rootfs import ImageCache

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> ImageCache:
    return ImageCache(str(tmp_path_factory.mktemp("images")))


def within(cache: ImageCache, use: Callable[[BubblewrapMachine], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        limits = MachineLimits(**options.pop("limits", {}))
        try:
            machine = await BubblewrapMachine(cache.image("host"), limits, **options).start()
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        try:
            return await use(machine)
        finally:
            await machine.close()

    return asyncio.run(main())


def run(cache: ImageCache, command: str, **options: Any) -> ExecResult:
    machine_options = {name: options.pop(name) for name in ("limits", "network", "overlay") if name in options}
    return within(cache, lambda machine: machine.exec(command, **options), **machine_options)


def test_a_command_is_root_in_a_place_of_its_own(cache: ImageCache):
    os.environ["SECRET_OF_THE_HOST"] = "1"
    result = run(
        cache, "id -u; pwd; env | sort; cat /proc/1/environ; ls /home; touch /usr/x", env={"A": "b c"}, cwd="/tmp"
    )
    lines = result.stdout.splitlines()
    assert lines[:2] == ["0", "/tmp"] and "A=b c" in lines and "HOME=/root" in lines
    assert "SECRET" not in result.stdout and "/proc/1/environ: Permission denied" in result.stderr
    assert result.return_code == 1 and "Read-only file system" in result.stderr


def test_what_a_command_says_and_how_it_ends_comes_back(cache: ImageCache):
    async def use(machine: BubblewrapMachine) -> list[Any]:
        said = [
            await machine.exec(command) for command in ("echo a; echo b >&2; exit 7", "kill -9 $$", "printf '\\377'")
        ]
        said.append(await machine.exec("pwd", cwd="/nowhere"))
        said.append(await machine.exec("id -u; id -un", user="nobody"))
        said.append(await machine.exec("pwd", user="nobody-else"))
        return said

    first, killed, bytes_, nowhere, nobody, unknown = within(cache, use)
    assert (first.stdout, first.stderr, first.return_code) == ("a\n", "b\n", 7)
    assert (killed.return_code, bytes_.stdout) == (137, "\ufffd")
    assert nowhere.return_code == 126 and "/nowhere" in nowhere.stderr
    assert nobody.stdout == "65534\nnobody\n"
    assert unknown.return_code == 126 and "no user 'nobody-else'" in unknown.stderr


def test_files_and_processes_last_from_one_command_to_the_next(cache: ImageCache):
    async def use(machine: BubblewrapMachine) -> tuple[str, str, str]:
        await machine.exec("cd /tmp; echo served > x; python3 -m http.server -b 127.0.0.1 8123 & echo $! > /pid")
        fetch = "for i in $(seq 100); do curl -sf 127.0.0.1:8123/x && break; sleep 0.1; done"
        if not shutil.which("curl"):
            fetch = fetch.replace("curl -sf ", "python3 -m urllib.request http://")
        fetched = (await machine.exec(fetch, timeout_sec=60)).stdout
        state = (await machine.exec("cat /proc/$(cat /pid)/comm")).stdout
        await machine.seal([])
        return fetched, state, (await machine.exec("cat /proc/$(cat /pid)/comm; echo gone")).stdout

    assert within(cache, use) == ("served\n", "python3\n", "gone\n")


def test_there_is_no_network_and_nothing_of_the_kernels_to_change(cache: ImageCache):
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    assert "Network is unreachable" in run(cache, f'python3 -c "{code}"').stderr
    for command in ("mount -t tmpfs x /mnt", "unshare -U true", "chroot / true", "echo 1 > /proc/sys/kernel/sysrq"):
        assert run(cache, command).return_code != 0, command


def test_owners_change_in_name_only_so_that_installers_go_on(cache: ImageCache):
    result = run(cache, "touch x; chown 42:42 x && stat -c %u x")
    assert (result.stdout, result.return_code) == ("0\n", 0)


def test_each_limit_ends_the_command_and_not_the_machine(cache: ImageCache):
    limits = {"memory_mb": 200, "storage_mb": 20, "processes": 30, "output_bytes": 1000}

    async def use(machine: BubblewrapMachine) -> list[ExecResult]:
        hog = "import time; x = bytearray(150 << 20); time.sleep(20)"
        commands = [
            ("while :; do :; done", 0.5),
            ("sleep 60", 0.5),
            (f"for i in 1 2 3; do python3 -c '{hog}' & done; wait", 30),
            ("head -c 30000000 /dev/zero > /big; stat -c %s /big; rm /big", 30),
            ("yes | head -c 100000; echo err >&2", 30),
            ("for i in $(seq 60); do sleep 20 & done; echo all", 5),
            ("echo alive", 30),
        ]
        return [await machine.exec(command, timeout_sec=seconds) for command, seconds in commands]

    cpu, wall, memory, storage, output, processes, alive = within(cache, use, limits=limits)
    assert (cpu.limit, cpu.return_code, wall.limit, wall.return_code) == ("cpu", 124, "wall", 124)
    assert (memory.limit, memory.return_code) == ("memory", 137)
    assert "No space left" in storage.stderr and int(storage.stdout) <= 20 << 20
    assert processes.limit == "processes" or "Resource temporarily unavailable" in processes.stderr
    assert (len(output.stdout), output.stderr, output.return_code) == (1000, "err\n", 0)
    assert (alive.stdout, alive.return_code) == ("alive\n", 0)


@pytest.mark.parametrize("overlay", [True, False])
def test_a_snapshot_brings_back_what_was_changed_removed_and_replaced(cache: ImageCache, overlay: bool):
    change = "echo 1 > /a; ln /a /b; ln -s a /c; rm -r /opt /etc/hosts /srv; mkdir /srv; mkfifo /f; chmod 700 /srv"
    look = (
        "cat /a; stat -c %h /b; readlink /c; ls -d /opt /etc/hosts; ls -A /srv; stat -c %a /srv; test -p /f && echo ok"
    )

    async def use(machine: BubblewrapMachine) -> list[str]:
        assert machine.overlay == overlay or machine.overlay is False
        fresh = await machine.snapshot()
        await machine.exec(change)
        before = (await machine.exec(look)).stdout
        changed = await machine.snapshot()
        await machine.exec("rm -rf /a /b /c /f; echo 2 > /opt; sleep 100 & sleep 0")
        await machine.restore(changed)
        after = (await machine.exec(look)).stdout
        left = (await machine.exec("pgrep -x sleep")).stdout
        await machine.restore(fresh)
        return [before, after, left, (await machine.exec("ls -d /opt /etc/hosts; ls /a")).stdout]

    before, after, left, fresh = within(cache, use, overlay=overlay)
    assert before == after == "1\n2\na\n700\nok\n" and left == ""
    assert fresh.split() == ["/etc/hosts", "/opt"]


@pytest.mark.parametrize("overlay", [True, False])
def test_a_fork_has_the_files_and_goes_on_apart(cache: ImageCache, overlay: bool):
    async def use(machine: BubblewrapMachine) -> list[str]:
        await machine.exec("echo 1 > /a; rm -r /srv; sleep 100 & sleep 0")
        fork = await machine.fork()
        try:
            await machine.exec("echo 2 > /a")
            await fork.exec("echo 3 > /b")
            commands = [(machine, "cat /a; ls /b; ls -d /srv"), (fork, "cat /a; cat /b; ls -d /srv; pgrep -x sleep")]
            return [(await one.exec(command)).stdout for one, command in commands]
        finally:
            await fork.close()

    assert within(cache, use, overlay=overlay) == ["2\n", "1\n3\n"]


def test_forks_that_were_prepared_are_used_and_the_others_end(cache: ImageCache):
    async def use(machine: BubblewrapMachine) -> list[Any]:
        machine.prepare_forks(2)
        (spare, _), (unused, started) = machine._spares
        await machine.exec("echo 1 > /a")
        fork = await machine.fork()
        said = (await fork.exec("cat /a")).stdout
        await fork.close()
        await machine.close()
        return [fork is spare, said, started.done(), unused._process]

    assert within(cache, use) == [True, "1\n", True, None]


def test_files_go_in_and_come_out_and_no_link_leads_out(cache: ImageCache):
    async def use(machine: BubblewrapMachine) -> list[Any]:
        await machine.exec("ln -s /etc/passwd /link; ln -s /proc/1/root /out; mkdir /tests; echo old > /tests/old")
        await machine.upload(
            "/tests", tree.pack_files([("a/b", 0o755, b"new"), ("s", tree.LINK, b"a/b")]), replace=True
        )
        found = [await machine.download(path, 10_000) for path in ("/tests/s", "/tests/old", "/link")]
        with pytest.raises(SandboxError, match="/dev/zero is not a file"):
            await machine.download("/dev/zero")
        with pytest.raises(SandboxError, match="/link has more than 3 bytes"):
            await machine.download("/link", 3)
        with pytest.raises(SandboxError, match="leads out of its folder"):
            await machine.upload("/tests", tree.pack_files([("../x", 0o644, b"")]))
        return found

    new, old, linked = within(cache, use)
    assert (new, old) == (b"new", None)
    assert linked.startswith(b"root:x:0:0:root:/root") and b"\n" in linked and linked.count(b"\n") == 2, (
        "the machine's own"
    )


def test_a_sealed_machine_starts_scripts_with_the_images_shell(cache: ImageCache):
    async def use(machine: BubblewrapMachine) -> ExecResult:
        await machine.exec(
            "rm /bin; mkdir /bin; printf '#!/usr/bin/python3\\nprint(\"forged\")' > /bin/bash; chmod +x /bin/bash"
        )
        await machine.exec("echo /evil.so > /etc/ld.so.preload")
        await machine.exec("mkdir -p /logs; ln -s /etc /logs/verifier; mkdir /tests; echo x > /tests/x")
        await machine.seal(["/tests", "/logs/verifier"])
        return await machine.exec("readlink /bin; ls -d /tests /logs/verifier /etc/ld.so.preload /etc/passwd")

    result = within(cache, use)
    assert result.stdout == "usr/bin\n/etc/passwd\n"


def test_nothing_is_left_of_a_machine_that_is_closed_or_whose_user_is_killed(cache: ImageCache, tmp_path: Path):
    script = tmp_path / "user.py"
    script.write_text(
        "import asyncio, sys, time\n"
        "from gym_llm.sandbox.machines.machine import BubblewrapMachine\n"
        "from gym_llm.sandbox.machines.rootfs import ImageCache\n"
        "async def main():\n"
        "    machine = await BubblewrapMachine(ImageCache(sys.argv[1]).image('host')).start()\n"
        "    await machine.exec('sleep 12345.25 & echo')\n"
        "    print(machine._process.pid, flush=True)\n"
        "    if sys.argv[2] == 'close':\n"
        "        await machine.close()\n"
        "    else:\n"
        "        time.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    mounts = Path("/proc/self/mounts").read_text()
    for how in ("close", "kill"):
        arguments = [sys.executable, str(script), str(cache.folder), how]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            if how == "kill":
                process.kill()
            process.wait()
        for _ in range(200):
            if not _alive(pid) and not _sleepers():
                break
            time.sleep(0.05)
        assert not _alive(pid) and not _sleepers()
    assert Path("/proc/self/mounts").read_text() == mounts


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"12345.25" in path.read_bytes() and b"bash" not in path.read_bytes():
                found.append(str(path))
        except OSError:
            pass
    return found


def test_a_machine_that_is_closed_says_so(cache: ImageCache):
    async def use(machine: BubblewrapMachine) -> None:
        await machine.close()
        with pytest.raises(SandboxError, match="The machine is closed"):
            await machine.exec("true")

    within(cache, use)


def test_limits_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="memory_mb is a number above 0, got 0"):
        MachineLimits(memory_mb=0)


def test_an_image_that_is_not_there_is_named(cache: ImageCache):
    with pytest.raises(UsageError, match="There is no image '/no/such'"):
        cache.image("/no/such")
