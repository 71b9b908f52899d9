"""The user's logins for registries: in the files of docker and podman, and from programs that keep them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from image_files import PASSWORD, Registry, layer, member, running
from testing import in_loop

from gym_llm.sandbox.machines import image_logins
from gym_llm.sandbox.machines.image_logins import find_login
from gym_llm.sandbox.machines.registry import pull
from gym_llm.sandbox.machines.rootfs import ImageCache
from gym_llm.utils.secrets import redact

LOGIN = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
HUB = "https://index.docker.io/v1/"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "docker").mkdir()
    (tmp_path / "run" / "containers").mkdir(parents=True)


def configure(tmp_path: Path, **config: Any) -> None:
    (tmp_path / "docker" / "config.json").write_text(json.dumps(config))


def helper(tmp_path: Path, script: str, name: str = "own") -> None:
    """Make a program that keeps logins, which notes what it is asked for."""
    program = tmp_path / f"docker-credential-{name}"
    program.write_text(f'#!/bin/bash\nread -r server; echo "$1 $server" >> {tmp_path}/asked\n{script}\n')
    program.chmod(0o755)


def answer(user: str = "me", password: str = PASSWORD) -> str:
    return f"echo '{json.dumps({'ServerURL': 'x', 'Username': user, 'Secret': password})}'"


@pytest.mark.parametrize("place", ["credsStore", "credHelpers", "podman"])
@in_loop
async def test_a_kept_login_gives_access(place: str, tmp_path: Path) -> None:
    async with running(Registry([layer(member("a", b"1"))], auth="basic")) as own:
        host = own.name.partition("/")[0]
        if place == "podman":
            kept = json.dumps({"auths": {host: {"auth": LOGIN}}})
            (tmp_path / "run" / "containers" / "auth.json").write_text(kept)
        else:
            helper(tmp_path, answer())
            configure(tmp_path, auths={host: {}}, **{place: "own" if place == "credsStore" else {host: "own"}})
        image = await pull(f"{own.name}:1", ImageCache(str(tmp_path / "cache")))
    assert Path(image.folder, "a").read_bytes() == b"1"
    assert place == "podman" or (tmp_path / "asked").read_text() == f"get {host}\n"


@in_loop
async def test_a_registrys_own_helper_comes_first_and_docker_hub_has_its_old_name(tmp_path: Path) -> None:
    helper(tmp_path, answer("all"), "all")
    helper(tmp_path, answer("me"), "own")
    configure(tmp_path, credsStore="all", credHelpers={HUB: "own"})
    assert await find_login("docker.io") == f"Basic {LOGIN}"
    assert await find_login("ghcr.io") == f"Basic {base64.b64encode(f'all:{PASSWORD}'.encode()).decode()}"
    assert (tmp_path / "asked").read_text() == f"get {HUB}\nget ghcr.io\n"
    assert PASSWORD not in redact(f"{PASSWORD} {LOGIN}") and LOGIN not in redact(LOGIN)


@pytest.mark.parametrize(
    "script",
    [
        "echo credentials not found in native keychain; exit 1",
        "echo no JSON",
        "echo '[]'",
        "echo '{}'",
        answer("<token>"),
        "yes",
        "sleep 30",
        "sleep 30 & wait",
        "sleep 30 & exit",
        "setsid sleep 6 & wait",
        "setsid sleep 6 & exit",
    ],
)
@in_loop
async def test_a_helper_that_has_no_login_or_is_broken_delays_nothing(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_logins, "_HELPER_SECONDS", 0.5)
    helper(tmp_path, script)
    configure(tmp_path, credsStore="own")
    assert await asyncio.wait_for(find_login("ghcr.io"), 5) is None


@pytest.mark.parametrize("name", ["../own", "own;x", "missing", 5, ["own"], "", "-/own"])
@in_loop
async def test_a_helper_without_a_program_leaves_the_logins_of_the_file(name: Any, tmp_path: Path) -> None:
    helper(tmp_path, answer("another"))
    configure(tmp_path, credsStore=name, auths={"ghcr.io": {"auth": LOGIN}})
    assert await find_login("ghcr.io") == f"Basic {LOGIN}" or not isinstance(name, str)
    assert not (tmp_path / "asked").exists()
