"""How much an attack finds of the sets of planted holes, and how much it finds where there is nothing."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from testing import ROOT

from gym_llm.author.attack import Report, attack
from gym_llm.author.attack.attack_play import says
from gym_llm.author.attack.right_answers import oracle_turns

SET = ROOT / "tests" / "importable"


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "pairs"), [("attack_set", 40), ("attack_set_blind", 21)])
def test_nine_of_ten_holes_are_found_and_hardly_a_sound_verifier_is_accused(
    name: str, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{SET}")
    monkeypatch.syspath_prepend(str(SET))
    holes = importlib.import_module(f"{name}.holes").HOLES

    def pair(hole: Any) -> tuple[Report, Report]:
        return attack(hole.holed), attack(hole.sound)

    with ThreadPoolExecutor(2) as pool:
        reports = dict(zip((hole.holed for hole in holes), pool.map(pair, holes), strict=True))
    missed = [each for each, (holed, _) in reports.items() if not holed.open_findings]
    accused = [each for each, (_, sound) in reports.items() if sound.open_findings]
    assert len(reports) == pairs
    assert len(missed) <= pairs // 10, missed
    assert len(accused) <= pairs // 20, accused


def test_every_hole_of_the_blind_set_pays_what_its_sound_twin_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SET))
    monkeypatch.syspath_prepend(str(SET / "attack_set" / "installed"))
    from attack_set_blind.holes import HOLES

    for hole in HOLES:
        assert [_paid(hole, hole.holed), _paid(hole, hole.sound)] == pytest.approx([hole.pays, hole.deserves]), hole


def test_the_right_answers_of_the_blind_set_are_paid_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SET))
    monkeypatch.syspath_prepend(str(SET / "attack_set" / "installed"))
    from attack_set_blind.holes import HOLES

    for hole in HOLES:
        env = _made(hole.sound)
        for index in range(len(env.rows)):
            turns = oracle_turns(env, env.tasks[index])
            assert _last_reward(env, index, turns or []) == 1.0, (hole.sound, index)


def _paid(hole: Any, name: str) -> float:
    env = _made(name)
    return [
        _last_reward(env, play.task, [says(turn)[0] if isinstance(turn, str) else turn for turn in play.turns])
        for play in hole.plays
    ][-1]


def _made(name: str) -> Any:
    module, _, class_name = name.partition(":")
    env_class = getattr(importlib.import_module(module), class_name)
    return env_class(**env_class.dry_run_kwargs)


def _last_reward(env: Any, index: int, turns: list[Any]) -> float:
    env.reset(seed=0, options={"task_index": index})
    over, reward, turns = False, 0.0, list(turns)
    while not over:
        _, reward, terminated, truncated, _ = env.step(turns.pop(0) if len(turns) > 1 else turns[0])
        over = terminated or truncated
    return float(reward)
