"""Names of images."""

from __future__ import annotations

import re
from typing import NamedTuple

from gym_llm.errors import UsageError

REGISTRIES = ("docker.io", "ghcr.io", "quay.io", "public.ecr.aws", "mcr.microsoft.com", "gcr.io", "nvcr.io")
"""Where images are pulled from, unless a user names others: rows of a dataset name images, and are not trusted."""
DOCKER_HUB, _DOCKER_HUB_HOST, _OLD_DOCKER_HUB = "docker.io", "registry-1.docker.io", "index.docker.io"
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
        host = _DOCKER_HUB_HOST if self.registry == DOCKER_HUB else self.registry
        return f"{'http' if is_loopback(host) else 'https'}://{host}/v2/{self.repository}"


def parse_reference(name: str) -> Reference:
    """Read an image's name as Docker does: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`.

    Raises:
        UsageError: If it is not the name of an image.
    """
    rest, _, digest = name.partition("@")
    first, slash, path = rest.partition("/")
    registry = first if slash and ("." in first or ":" in first or first == "localhost") else DOCKER_HUB
    repository, colon, tag = (path if registry == first else rest).rpartition(":")
    registry = DOCKER_HUB if registry.lower() == _OLD_DOCKER_HUB else registry.lower()
    if not colon:
        repository, tag = tag, "latest"
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    version = digest or tag
    is_valid = DIGEST.fullmatch(version) if digest else _TAG.fullmatch(version)
    if not is_valid or not _REPOSITORY.fullmatch(repository) or not re.fullmatch(r"[\w.\[\]:-]+", registry):
        raise UsageError(f"{name!r} is not the name of an image, such as python:3.12 or ghcr.io/owner/name@sha256:….")
    return Reference(registry, repository, version)


def is_loopback(host: str) -> bool:
    """Return whether a host, perhaps with a port, is this machine's loopback."""
    return host.rpartition(":")[0] in _LOOPBACK or host in _LOOPBACK
