"""Recorded episodes of NeMo Gym's servers, which a verifier has to score as they were: in a test, one line.

    vectors = vectors_of("ragtruth")

    @pytest.mark.parametrize("vector", vectors, ids=vector_id)
    def test_recorded_episodes_score_as_recorded(vector):
        agree(vector)

or, all in one, `def test_recorded_episodes_score_as_recorded(): replay_all("ragtruth")`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT

from gym_llm.author.conform import TRUSTED, replay_vector


def verifier_vectors_dir() -> Path:
    """Where they are, if they are: beside the repository, or beside the folder of its worktrees."""
    places = [parent / "shared" / "verifiers" / "vectors" for parent in (ROOT.parent, ROOT.parent.parent)]
    return Path(os.environ.get("GYM_LLM_VERIFIER_VECTORS") or next(filter(Path.is_dir, places), places[0]))


def all_vectors_of(server: str) -> list[dict[str, Any]]:
    """A server's vectors; elsewhere none, so that tests parametrised over them skip."""
    file = verifier_vectors_dir() / f"{server}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def vectors_of(server: str) -> list[dict[str, Any]]:
    """Those of a server's vectors that have to come out again."""
    return [vector for vector in all_vectors_of(server) if vector.get("check") in TRUSTED]


def vector_id(vector: dict[str, Any]) -> str:
    """Its name, for pytest."""
    return str(vector["source"])


def agree(vector: dict[str, Any], **options: Any) -> None:
    """Replay a vector: everything has to be as it was recorded. `options` are those of `replay_vector`."""
    replayed = replay_vector(vector, **options)
    if replayed.skipped is not None:
        pytest.skip(f"{replayed.source}: {replayed.skipped}")
    assert not replayed.disagreements


def replay_all(server: str, **options: Any) -> list[str]:
    """Replay a server's vectors, those without a row as far as they go; a test is skipped where there are none.

    Returns:
        The sources of those that were tried, to be counted.
    """
    replayed = [replay_vector(vector, **options) for vector in all_vectors_of(server)]
    if not replayed:
        pytest.skip(f"there are no vectors of {server} here")
    assert [difference for one in replayed for difference in one.disagreements] == []
    tried = [one.source for one in replayed if one.skipped is None]
    assert tried, replayed
    return tried
