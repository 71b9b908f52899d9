"""Images and Dockerfiles: what is unpacked, built and refused; and containers by a stand-in's command line."""

import asyncio
import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from image_files import root_file_system

from gym_llm.errors import SandboxUnavailable, UsageError
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.container import ContainerMachine
from gym_llm.sandbox.machines.dockerfile import read_dockerfile
from gym_llm.sandbox.machines.machine import MachineLimits, MachineProblem
from gym_llm.sandbox.machines.machine_pool import Machines
from gym_llm.sandbox.machines.rootfs import Image, ImageCache

_PROGRAMS = ("/bin/bash", "/bin/cat", "/bin/ls", "/bin/id")


def test_an_image_that_has_changed_is_another(tmp_path: Path):
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    (tmp_path / "root" / "a" / "b" / "file").write_text("1")

    def seen() -> str:
        image = ImageCache(str(tmp_path / "cache")).image(str(tmp_path / "root"))
        return (Path(image.folder) / "a" / "b" / "file").read_text()

    assert seen() == "1"
    (tmp_path / "root" / "a" / "b" / "file").write_text("22")
    assert seen() == "22"


_KILLED = """
import sys, time
from pathlib import Path
from gym_llm.sandbox.machines.rootfs import ImageCache
def write(target):
    (target / "root").mkdir()
    print(target, flush=True)
    time.sleep(60)
ImageCache(sys.argv[1]).entry("x", write)
"""


def test_of_an_image_whose_maker_was_killed_nothing_is_used_and_nothing_stays(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        process.kill()
    assert (left / "root").is_dir() and ImageCache(str(tmp_path)).find("x") is None
    ImageCache(str(tmp_path)).clean()
    assert left.exists(), "somebody may be writing it"
    os.utime(left, (0, 0))
    made = ImageCache(str(tmp_path)).entry("x", lambda target: (target / "root").mkdir())
    assert made.is_dir() and not left.exists()


def test_images_share_the_files_that_they_have_in_common(tmp_path: Path):
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    for name in ("bin/kept", "bin/gone", "changed"):
        (root / name).write_bytes(os.urandom(50_000))
    (root / "link").symlink_to("bin")
    cache = ImageCache(str(tmp_path / "cache"))
    base = cache.image(str(root))
    (tmp_path / "changes" / "bin").mkdir(parents=True)
    (tmp_path / "changes" / "changed").write_text("new")
    os.mknod(tmp_path / "changes" / "bin" / "gone", stat.S_IFCHR, 0)
    changes = tree.pack(str(tmp_path / "changes"), 1 << 20)
    entry = cache.changed("y", base, changes, whole=False, config={"workdir": "/x"})
    image = cache.of_entry(entry, base)
    made, old = Path(image.folder), Path(base.folder)
    assert (image.workdir, (made / "changed").read_text()) == ("/x", "new")
    assert sorted(os.listdir(made / "bin")) == ["kept"] and os.readlink(made / "link") == "bin"
    assert (made / "bin" / "kept").samefile(old / "bin" / "kept")
    assert (old / "changed").read_bytes() == (root / "changed").read_bytes() and (old / "bin" / "gone").exists()


def test_a_full_cache_drops_what_was_longest_unused_and_not_what_is_in_use(tmp_path: Path):
    def write(target: Path) -> None:
        (target / "data").write_bytes(os.urandom(200_000))

    paths = []
    for index in range(3):
        cache = ImageCache(str(tmp_path), limit=450_000)
        paths.append(cache.entry(f"entry {index}", write))
        os.utime(paths[-1], (index, index))
        if index != 0:
            cache.close()
        else:
            held = cache
    other = ImageCache(str(tmp_path), limit=450_000)
    other.clean()
    assert [path.exists() for path in paths] == [True, False, True]
    held.close()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "docker save"])
def test_a_machine_of_an_image_has_nothing_but_the_image(form: str, tmp_path: Path):
    root_file_system(tmp_path / "root", _PROGRAMS)
    source = tmp_path / "root"
    if form == "docker save":
        source = tmp_path / "image.tar"
        manifest = [{"Config": "config.json", "RepoTags": ["mine:1"], "Layers": ["1/layer.tar", "2/layer.tar"]}]
        above = tree.pack_files([("srv/", 0o755, b""), ("etc/.wh.shadow", 0o644, b"")])
        files = [
            ("1/layer.tar", 0o644, gzip.decompress(tree.pack(str(tmp_path / "root"), 1 << 30))),
            ("2/layer.tar", 0o644, above),
            ("config.json", 0o644, b"{}"),
            ("manifest.json", 0o644, json.dumps(manifest).encode()),
        ]
        source.write_bytes(tree.pack_files(files))
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "file").write_text("copied")
    (tmp_path / "build" / "Dockerfile").write_text("FROM mine:1\nCOPY file /srv/\nENV A=1\nRUN echo $A > /srv/made\n")

    async def use() -> list[str]:
        machines = Machines(images={"mine:*": str(source)}, cache=str(tmp_path / "cache"))
        said = []
        for _ in range(2):
            image = await machines.built(tmp_path / "build" / "Dockerfile", timeout_sec=60, limits=MachineLimits())
            try:
                machine = await machines.open(image, MachineLimits())
            except SandboxUnavailable as error:
                pytest.skip(str(error))
            await machine.exec("echo '#!/bin/cat' > /bin/bash.evil; cat /bin/bash.evil > /bin/bash")
            await machine.seal([])
            result = await machine.exec("id -u; cat /srv/file /srv/made; ls /usr/bin/python3 /etc/shadow; echo $A")
            said.append(result.stdout)
            await machine.close()
        machines.close()
        return said

    first, second = asyncio.run(use())
    assert first == second == "0\ncopied1\n1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FROM a\nFROM b", "line 2: a second FROM"),
        ("FROM a\nRUN x \\\n  y\nHEALTHCHECK CMD x", "line 4: HEALTHCHECK is not carried out"),
        ("FROM a\nCOPY --from=b x y", "line 2: COPY --from is not"),
        ("FROM a\nRUN --mount=type=cache x", "line 2: RUN --mount is not"),
        ("FROM a\nRUN <<EOF\nx\nEOF", "line 2: a here-document"),
        ("FROM a\nADD https://x/y /z", "line 2: ADD takes plain files"),
        ("FROM a\nADD x.tar.gz /z", "line 2: ADD takes plain files"),
        ("FROM a\nONBUILD RUN x", "line 2: ONBUILD is not"),
        ("RUN x", "line 1: RUN stands before FROM"),
        ("FROM scratch", "line 1: FROM names an image"),
        ("# nothing", "has no FROM"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_by_its_line(text: str, said: str, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_dockerfile(tmp_path / "Dockerfile")


def test_what_says_how_a_container_starts_is_passed_over(tmp_path: Path):
    text = 'ARG TAG=1\nFROM base:$TAG\nLABEL a=b\nEXPOSE 80\nCMD ["x"]\nENTRYPOINT x\nRUN a && \\\n # why\n\n b\n'
    (tmp_path / "Dockerfile").write_text(text)
    recipe = read_dockerfile(tmp_path / "Dockerfile")
    assert recipe.base == "base:1" and [(one.line, one.name, one.rest) for one in recipe.instructions] == [
        (7, "RUN", "a &&  b")
    ]


@pytest.mark.parametrize("command", ["cat <<< x", "cat <<<x", "echo $((1<<3))", "cat '<<' x"])
def test_what_only_looks_like_a_here_document_is_none(command: str, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(f"FROM a\nRUN {command}\n")
    assert read_dockerfile(tmp_path / "Dockerfile").instructions[0].rest == command


@pytest.mark.slow
def test_a_run_that_fails_and_a_copy_of_nothing_name_their_lines(tmp_path: Path):
    async def made(text: str) -> Image:
        (tmp_path / "Dockerfile").write_text(text)
        machines = Machines(cache=str(tmp_path / "cache"))
        return await machines.built(tmp_path / "Dockerfile", timeout_sec=30, limits=MachineLimits())

    (tmp_path / "out").symlink_to("/etc/passwd")
    for text, said in [
        ("FROM host\nRUN echo oh; exit 3", r"line 2: RUN ended with 3 \(it had no network.*\): oh"),
        ("FROM host\nCOPY nothing /x", "line 2: there is no nothing beside it"),
        ("FROM host\nCOPY ../x /x", r"line 2: there is no ../x beside it"),
        ("FROM host\nCOPY out /x", "line 2: out leads out of its folder"),
    ]:
        try:
            with pytest.raises(UsageError, match=said):
                asyncio.run(made(text))
        except SandboxUnavailable as error:
            pytest.skip(str(error))


_STAND_IN = """#!/bin/bash
# Keeps a container's file system in a folder, and runs here what would run inside.
echo "$@" >> "$COMMANDS"
while [ $# -gt 0 ]; do case "$1" in
    exec) while [ "$1" != timeout ]; do shift; done; shift 5
        cd "$ROOT"; exec bash -c "${2//\\/tests/$ROOT/tests}";;
    cp) case "$2" in -) exec tar -xzf - -C "$ROOT/${3#*:/}" ;; *) cd "$ROOT"; p=${3#*:/}; exec tar -chf - "$p";; esac;;
    *) exit 0;;
esac; done
"""


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_a_container_gets_no_network_and_goes_when_it_is_closed(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stand_in = tmp_path / "bin" / program
    stand_in.parent.mkdir()
    stand_in.write_text(_STAND_IN)
    stand_in.chmod(0o755)
    (tmp_path / "root").mkdir()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "test.sh").write_text("echo tested")
    for name, value in (("COMMANDS", "commands"), ("ROOT", "root")):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")

    async def use() -> list[Any]:
        machines = Machines(program)
        machine = await machines.open(await machines.image("ubuntu:24.04"), MachineLimits(cpus=2, memory_mb=512))
        await machine.upload("/tests", tree.pack(str(tmp_path / "files"), 1000))
        said = [await machine.exec("bash /tests/test.sh; exit 3"), await machine.download("/tests/test.sh")]
        loud = await machine.exec("head -c 50000000 /dev/zero; head -c 50000000 /dev/zero >&2; exit 4")
        assert (len(loud.stdout), len(loud.stderr), loud.return_code) == (1 << 20, 1 << 20, 4)
        await machine.exec("head -c 5000000 /dev/zero > large")
        with pytest.raises(MachineProblem, match="large is not a file, or has more than 1000 bytes"):
            await machine.download("/large", 1000)
        assert await machine.download("/nothing") is None
        await machine.restore(await machine.snapshot())
        fork = await machine.fork()
        await machine.close()
        await fork.close()
        return said

    result, data = asyncio.run(use())
    assert (result.stdout, result.return_code, data) == ("tested\n", 3, b"echo tested")
    begun, *rest = (tmp_path / "commands").read_text().splitlines()
    for part in ("run --detach", "--network none", "--cpus 2", "--memory 512m", "no-new-privileges", "ubuntu:24.04"):
        assert part in begun
    assert any(line.startswith("commit") for line in rest) and [line.split()[0] for line in rest[-2:]] == ["rm", "rmi"]
    *_, commit = [line.split()[-1] for line in rest if line.startswith("commit")]
    assert rest[-1].split()[-1] == commit  # the image of the fork goes last, with the fork
    assert any(line.startswith("run") and commit in line for line in rest)


def test_a_container_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable, match="No sandbox: podman is not on PATH"):
        asyncio.run(ContainerMachine("podman", Image("x", ""), MachineLimits()).start())
