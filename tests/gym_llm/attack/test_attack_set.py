"""How much an attack finds of the set of planted holes, and how much it finds where there is nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from testing import ROOT

from gym_llm.attack import Report, attack

SET = ROOT / "tests" / "importable"


@pytest.mark.slow
def test_nine_of_ten_holes_are_found_and_hardly_a_sound_verifier_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{SET}")
    monkeypatch.syspath_prepend(str(SET))
    from attack_set.holes import HOLES

    def pair(hole: object) -> tuple[Report, Report]:
        return attack(hole.holed), attack(hole.sound)  # type: ignore[attr-defined]

    with ThreadPoolExecutor(2) as pool:
        reports = dict(zip((hole.id for hole in HOLES), pool.map(pair, HOLES), strict=True))
    missed = [name for name, (holed, _) in reports.items() if not holed.open_findings]
    accused = [name for name, (_, sound) in reports.items() if sound.open_findings]
    assert len(reports) == 40
    assert len(missed) <= 4, missed
    assert len(accused) <= 2, accused
