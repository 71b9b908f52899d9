"""What a sandbox shows of this machine, and what a compiler remembers."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import Limits, Sandbox, own_python
from gym_llm.sandbox.languages import Compiled, CompileError, Compiler, mounts_for


def test_only_a_toolchain_is_shown_not_what_is_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    for program in (home / "bin" / "go", tmp_path / "go1" / "bin" / "go"):
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for folder in (home / "lib", tmp_path / "go1" / "pkg"):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))

    def shown(folder: str) -> set[str]:
        monkeypatch.setenv("PATH", folder)
        mounts_for.cache_clear()
        try:
            return set(mounts_for("go").shown) - set(own_python().shown)
        finally:
            mounts_for.cache_clear()

    assert shown(str(home / "bin")) == {str(home / "bin" / "go")}
    assert shown(str(tmp_path / "go1" / "bin")) == {str(tmp_path / "go1")}
    monkeypatch.setattr("shutil.which", lambda _: "/bin/go")
    monkeypatch.setattr("os.path.realpath", str)
    assert shown("/bin") == set()


def test_this_packages_data_is_hidden_where_links_lead_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = tmp_path / "real" / "packages"
    (real / "gym_llm").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    packages = str(tmp_path / "link" / "packages")
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": packages, "platlib": packages})
    mounts = own_python()
    assert mounts.packages == (str(real),)
    assert str(real / "gym_llm") in mounts.hidden


def test_what_took_the_compiler_too_long_once_is_tried_again():
    async def main() -> list[Compiled | CompileError]:
        async with Sandbox(mounts=mounts_for("c")) as sandbox:
            compiler = Compiler(sandbox)
            source = '#include "endless.h"\nint main(void) { return 0; }'
            short = Limits(cpu_seconds=0.01, processes=64)
            return [await compiler.compile("c", source, files={"endless.h": b""}, limits=short) for _ in range(2)]

    try:
        first, second = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert isinstance(first, CompileError)
    assert first is not second


def test_packages_below_tmp_are_there_all_the_same(tmp_path: Path):
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "some_package.py").write_text("VALUE = 7")
    mounts = own_python()
    mounts = replace(mounts, shown=(*mounts.shown, str(folder)), packages=(*mounts.packages, str(folder)))

    async def main() -> bytes:
        async with Sandbox(mounts=mounts) as sandbox:
            return (
                await sandbox.python("import os, some_package; print(some_package.VALUE, os.listdir('/tmp'))")
            ).stdout

    try:
        assert asyncio.run(main()) == b"7 ['main.py']\n"
    except SandboxUnavailable as error:
        pytest.skip(str(error))
