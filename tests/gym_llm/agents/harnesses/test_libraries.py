"""Tests for the libraries that a harness's Python brings into a machine, and for how it is started there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_llm.agents.harnesses import libraries
from gym_llm.agents.harnesses.libraries import copy_libraries, libraries_version, loaded

SHOWN = "import json, os, ssl, sys; print(json.dumps([sys.executable, sys.prefix, sorted(os.environ), ssl.__name__]))"


def layer(folder: Path, name: str, data: bytes) -> Path:
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin" / name).write_bytes(data)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not libraries_version(), reason="this machine's loader is too old")
def test_a_python_runs_with_the_copied_libraries_and_its_commands_do_not(tmp_path: Path) -> None:
    venv, place = tmp_path / "venv", tmp_path / "libraries"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    place.mkdir()
    copy_libraries(sys.executable, place, place, 0)
    names = {path.name.partition(".")[0] for path in (place / "lib").iterdir()}
    assert {"libc", "libm", "libpthread", "libstdc++"} <= names
    command = loaded(["python", "-c", SHOWN], [venv, place])
    assert command[0].startswith(f"{place}/lib/ld-linux")
    shown = json.loads(subprocess.run(command, capture_output=True, check=True, env={"LANG": "C.UTF-8"}).stdout)
    assert shown[:2] == [f"{venv}/bin/python", str(venv)] and "LD_LIBRARY_PATH" not in shown[2]
    mapped = [*command[:-1], "print(open('/proc/self/maps').read())"]
    maps = subprocess.run(mapped, capture_output=True, text=True, check=True).stdout
    assert f"{place}/lib/libc.so" in maps and "/lib/x86_64-linux-gnu/libc.so" not in maps.replace(str(place), "")


def test_scripts_start_with_the_interpreters_of_their_layers(tmp_path: Path) -> None:
    node = layer(tmp_path / "node", "node", b"\x7fELF")
    own = layer(tmp_path / "own", "tool", b"#!/usr/bin/env -S node --quiet\n")
    assert loaded(["tool", "x"], [own, node]) == (f"{node}/bin/node", "--quiet", f"{own}/bin/tool", "x")
    layer(own, "native", b"\x7fELF")
    assert loaded(["native"], [own, node]) == (f"{own}/bin/native",)
    assert loaded(["bash", "-c", "ls"], [own, node]) == ("bash", "-c", "ls")
    assert loaded(["/bin/sh"], [own, node]) == ("/bin/sh",)


@pytest.mark.parametrize(("said", "version"), [("glibc 2.36", "2.36"), ("glibc 2.31", ""), ("musl 1.2", "")])
def test_an_old_loader_is_not_used(said: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: said)
    assert libraries.libraries_version() == version
