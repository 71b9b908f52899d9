"""What commands are tested with: a server on loopback, an empty folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from model_server import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.close()


@pytest.fixture
def in_an_empty_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
