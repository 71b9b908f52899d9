"""Names of images, and the logins for their registries."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from gym_llm.errors import UsageError
from gym_llm.utils.secrets import add_secrets

REGISTRIES = ("docker.io", "ghcr.io", "quay.io", "public.ecr.aws", "mcr.microsoft.com", "gcr.io", "nvcr.io")
"""Where images are pulled from, unless a user names others: rows of a dataset name images, and are not trusted."""
_DOCKER_HUB, _DOCKER_HUB_HOST, _OLD_DOCKER_HUB = "docker.io", "registry-1.docker.io", "index.docker.io"
_DOCKER_HUB_LOGIN = "https://index.docker.io/v1/"
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+|/)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


class Reference(NamedTuple):
    """An image's name, read: `version` is a tag or a digest.

    >>> parse_reference("python:3.12-slim")
    Reference(registry='docker.io', repository='library/python', version='3.12-slim')
    """

    registry: str
    repository: str
    version: str

    @property
    def url(self) -> str:
        """The repository's address; registries on this machine's loopback speak HTTP, all others HTTPS."""
        host = _DOCKER_HUB_HOST if self.registry == _DOCKER_HUB else self.registry
        return f"{'http' if is_loopback(host) else 'https'}://{host}/v2/{self.repository}"


def parse_reference(name: str) -> Reference:
    """Read an image's name as Docker does: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`.

    Raises:
        UsageError: If it is not the name of an image.
    """
    rest, _, digest = name.partition("@")
    first, slash, path = rest.partition("/")
    registry = first if slash and ("." in first or ":" in first or first == "localhost") else _DOCKER_HUB
    repository, colon, tag = (path if registry == first else rest).rpartition(":")
    registry = _DOCKER_HUB if registry.lower() == _OLD_DOCKER_HUB else registry.lower()
    if not colon:
        repository, tag = tag, "latest"
    if registry == _DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    version = digest or tag
    is_valid = DIGEST.fullmatch(version) if digest else _TAG.fullmatch(version)
    if not is_valid or not _REPOSITORY.fullmatch(repository) or not re.fullmatch(r"[\w.\[\]:-]+", registry):
        raise UsageError(f"{name!r} is not the name of an image, such as python:3.12 or ghcr.io/owner/name@sha256:….")
    return Reference(registry, repository, version)


def is_loopback(host: str) -> bool:
    """Return whether a host, perhaps with a port, is this machine's loopback."""
    return host.rpartition(":")[0] in _LOOPBACK or host in _LOOPBACK


def find_login(registry: str) -> str | None:
    """Return the header with the user's login, as `docker login` or `podman login` keeps it."""
    folder = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    for path in (os.environ.get("REGISTRY_AUTH_FILE"), Path(folder) / "config.json"):
        try:
            known = json.loads(Path(path).read_text("utf-8"))["auths"] if path else {}
            for name in (registry, f"https://{registry}", *([_DOCKER_HUB_LOGIN] if registry == _DOCKER_HUB else [])):
                if login := (known.get(name) or {}).get("auth"):
                    user, _, password = base64.b64decode(login, validate=True).decode().partition(":")
                    add_secrets({password, login})
                    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        except (OSError, ValueError, KeyError, TypeError, AttributeError, binascii.Error):
            continue
    return None
