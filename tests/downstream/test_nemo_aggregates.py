"""NeMo Gym's own figures of many verdicts are those that our servers answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from peers import in_peer

from gym_llm.serve.nemo.aggregates import aggregate


def verdicts(masks: bool) -> list[dict[str, Any]]:
    """Of twelve tasks, four times each; some lack a figure, and some are masked."""
    draw = random.Random(0)
    found = []
    for task in range(12):
        for repeat in range(4):
            verdict = {"_ng_task_index": task, "_ng_rollout_index": repeat, "reward": draw.choice([0.0, 0.5, 1.0])}
            verdict |= {"truncated": draw.random() < 0.2, "turn": draw.randint(1, 5), "word": "x"}
            verdict["response"] = {"usage": {"input_tokens": draw.randint(1, 99), "output_tokens": 7}}
            verdict["mask_sample"] = masks and (task == 3 or draw.random() < 0.1)
            found.append(verdict)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("masks", [False, True])
def test_all_figures_that_nemo_gym_has_are_ours(masks: bool, tmp_path: Path) -> None:
    file = tmp_path / "verdicts.json"
    file.write_text(json.dumps(verdicts(masks)), "utf-8")
    theirs = in_peer("nemo_gym_7", "nemo_aggregates.py", str(file))
    ours = aggregate({"verify_responses": verdicts(masks)}, "test/Any-v0", {})
    assert_same(ours["agent_metrics"], theirs["agent_metrics"])
    assert_same(ours["key_metrics"], theirs["key_metrics"])
    for name, key in (("group_level_metrics", "_ng_task_index"), ("repeat_level_metrics", "_ng_rollout_index")):
        assert [row[key] for row in ours[name]] == [row[key] for row in theirs[name]]
        for mine, their in zip(ours[name], theirs[name], strict=True):
            assert_same(mine, their)
    assert theirs["repeat_level_metrics"] and len(theirs["agent_metrics"]) > 40


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """All numbers that they have are here, and are the same."""
    numbers = {name: value for name, value in theirs.items() if isinstance(value, (int, float))}
    assert {name: ours.get(name) for name in numbers} == pytest.approx(numbers, rel=1e-9)
