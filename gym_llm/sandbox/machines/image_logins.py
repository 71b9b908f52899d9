"""The user's logins for registries of images, as `docker login` and `podman login` keep them."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gym_llm.errors import SandboxError
from gym_llm.sandbox.machines.container import run_program
from gym_llm.sandbox.machines.image_names import DOCKER_HUB
from gym_llm.utils.secrets import add_secrets, redacted_logger

_DOCKER_HUB_LOGIN = "https://index.docker.io/v1/"
_HELPER = re.compile(r"[A-Za-z0-9_-]+")
_HELPER_SECONDS, _HELPER_BYTES = 10.0, 1 << 16
_IDENTITY_TOKEN = "<token>"  # of a kind of login that is unknown here

logger = redacted_logger(__name__)


async def find_login(registry: str) -> str | None:
    """Return the header with the user's login; None if it is missing.

    A file has logins (`auths`), or names the program that keeps them (`credHelpers`, `credsStore`).
    """
    names = [registry, f"https://{registry}", *([_DOCKER_HUB_LOGIN] if registry == DOCKER_HUB else [])]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    podman = [os.environ.get("REGISTRY_AUTH_FILE"), f"{runtime}/containers/auth.json" if runtime else None]
    for path in filter(None, (*podman, f"{folder}/config.json")):
        try:
            config = json.loads(Path(path).read_text("utf-8"))
            login = await _ask_helper(config, names) or _find_kept(config, names)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if login is not None:
            user, password = login
            text = base64.b64encode(f"{user}:{password}".encode()).decode()
            add_secrets({password, text})
            return f"Basic {text}"
    return None


def _find_kept(config: dict[str, Any], names: Sequence[str]) -> tuple[str, str] | None:
    logins = config.get("auths") or {}
    for name in names:
        if login := (logins.get(name) or {}).get("auth"):
            user, _, password = base64.b64decode(login, validate=True).decode().partition(":")
            return user, password
    return None


async def _ask_helper(config: dict[str, Any], names: Sequence[str]) -> tuple[str, str] | None:
    """Return the login that a program keeps (https://github.com/docker/docker-credential-helpers)."""
    helpers = config.get("credHelpers") or {}
    helper = next((helpers[name] for name in names if name in helpers), config.get("credsStore"))
    if not helper:
        return None
    if not _HELPER.fullmatch(helper):
        logger.warning("The name of a credential helper is invalid: %r.", helper)
        return None
    server = names[-1] if _DOCKER_HUB_LOGIN in names else names[0]
    command = [f"docker-credential-{helper}", "get"]
    try:
        code, output, _ = await run_program(command, server.encode(), _HELPER_SECONDS, _HELPER_BYTES)
    except SandboxError:
        logger.warning("%s is missing or did not end: %s is asked without its login.", command[0], names[0])
        return None
    answer = json.loads(output) if code == 0 else {}  # the program has no login for it
    if not answer.get("Secret") or answer["Username"] == _IDENTITY_TOKEN:
        return None
    return str(answer["Username"]), str(answer["Secret"])
