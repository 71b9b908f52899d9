"""`gym-llm drift` on the files of a blind test: what it named when they were first tried.

Five of ten causes were named: the test holds those, and that no sound file has a cause. The others may be named later.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
from blind_drift import BLIND_FAULTS, BLIND_SOUND
from planted_drift import Case

from gym_llm.evaluation.drift.drift import drift_of

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.xdist_group("drift")]
AT_LEAST = 5


def cause(case: Case, folder: Path) -> str | None:
    found: str | None = drift_of(case.write(folder / "a.jsonl"), case.engine, options={"threads": 1}).summary["cause"]
    return found


def test_half_of_the_blind_faults_are_named_and_every_one_is_noticed(tmp_path: Path) -> None:
    named = {name: (wanted, cause(make(), tmp_path)) for name, (wanted, make) in BLIND_FAULTS.items()}
    assert all(found is not None for _, found in named.values()), named
    assert sum(wanted == found for wanted, found in named.values()) >= AT_LEAST, named


@pytest.mark.parametrize("name", BLIND_SOUND)
def test_a_blind_sound_file_has_no_drift(name: str, tmp_path: Path) -> None:
    assert cause(BLIND_SOUND[name](), tmp_path) is None
