"""A cache of images, and registries that are asked again at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_llm.sandbox.machines import registry
from gym_llm.sandbox.machines.rootfs import ImageCache


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return ImageCache(str(tmp_path / "cache"))


@pytest.fixture
def quick_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pause between two tries for a moment only, and without the user's own logins."""
    monkeypatch.setattr(registry, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
