"""`gym-llm drift` on planted faults and on sound runs: the causes that it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
from planted_drift import FAULTS, MORE_FAULTS, SOUND, Case
from testing import often

from gym_llm.evaluation.drift.causes import CAUSES
from gym_llm.evaluation.drift.drift import drift_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("drift")]  # one process, where rollouts and models are kept
ALL_FAULTS = {**FAULTS, **MORE_FAULTS}
EVERY_DAY = often(0, 1)
QUICK_FAULTS = (
    *("mask one to the right", "tool output sampled", "temperature 0.7 not recorded", "top-p 0.9 renormalised"),
    *("one update old", "retokenised", "special tokens dropped", "base 2"),
    *("calls without spaces", "other rope", "weights that are not named"),
)
QUICK = ("few episodes", "temperature 0.7", "conversations", "an adapter on both sides", "noise of 1e-5")


def cause(case: Case, folder: Path) -> str | None:
    options = {} if case.engine == "pocket" else {"threads": 1}
    found: str | None = drift_of(case.write(folder / "a.jsonl"), case.engine, options=options, **case.options).summary[
        "cause"
    ]
    return found


def test_there_are_twenty_faults_with_known_causes_and_twenty_sound_runs() -> None:
    assert len(FAULTS) == len(SOUND) == 20
    assert {name for name, _ in ALL_FAULTS.values()} == set(CAUSES)


@pytest.mark.parametrize("name", ALL_FAULTS if EVERY_DAY else QUICK_FAULTS)
def test_a_planted_fault_is_named(name: str, tmp_path: Path) -> None:
    wanted, make = ALL_FAULTS[name]
    assert cause(make(), tmp_path) == wanted


@pytest.mark.parametrize("name", SOUND if EVERY_DAY else QUICK)
def test_a_sound_run_has_no_drift(name: str, tmp_path: Path) -> None:
    make: Callable[[], Case] = SOUND[name]
    assert cause(make(), tmp_path) is None
