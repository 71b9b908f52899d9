"""Frameworks with lists of samples: each sample is a task, and is played once, in the list's order."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gym_llm.envs.theirs.peers import aviary, gem, scienceworld, tau2, toolsandbox


class Rows(list[str]):
    """A data set."""

    shuffle = None


class GemEnv:
    """Draws by the seed; without one it plays the next row, as GEM's environments do."""

    def __init__(self, rows: list[str]) -> None:
        self.dataset, self.idx = rows, 0

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        if seed is not None:
            self.idx = seed % len(self.dataset)
        self.idx += 1
        return self.dataset[self.idx - 1], {}


def put(monkeypatch: pytest.MonkeyPatch, name: str, **values: Any) -> None:
    module = ModuleType(name)
    vars(module).update(values)
    monkeypatch.setitem(sys.modules, name, module)


def test_each_row_of_a_data_set_of_gem_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, "gem", make=lambda name, **_: GemEnv(Rows("abc") if name.startswith("math") else list("abc")))
    asked = {"env_kwargs": None, "wrappers": ""}
    rows = gem.samples({"env": "math:GSM8K", "index": None, **asked})
    assert rows is not None
    assert [gem.Peer("math:GSM8K", **row).reset(7)["say"] for row in rows] == ["a", "b", "c"]
    assert gem.Peer("math:GSM8K").reset(7)["say"] == "b"
    assert gem.samples({"env": "math:GSM8K", "index": 1, **asked}) == [{}]
    assert gem.samples({"env": "game:Sudoku", "index": None, **asked}) is None


def test_each_sample_of_other_frameworks_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [SimpleNamespace(id=name) for name in ("b", "a", "c")]
    monkeypatch.setattr(tau2, "_prepare", lambda source: None)
    monkeypatch.setattr(tau2, "_tasks", lambda domain, split: tasks)
    listed = tau2.samples({"domain": "airline", "task": None, "source": "", "split": "base"})
    assert listed == [{"task": "b"}, {"task": "a"}, {"task": "c"}]

    monkeypatch.setattr(toolsandbox, "_import_from", lambda source: None)
    monkeypatch.setattr(toolsandbox, "_scenarios", lambda backend: {"y": 1, "x": 2})
    asked = {"scenario": None, "task_idx": None, "source": "", "preferred_tool_backend": "default"}
    assert toolsandbox.samples(asked) == [{"scenario": "x"}, {"scenario": "y"}]

    monkeypatch.setattr(scienceworld, "_world", lambda steps: None)
    monkeypatch.setattr(scienceworld, "_variations", lambda *_: [3, 4, 9])
    asked = {"variation": None, "max_steps": 1, "task": "boil", "split": "test", "simplification": ""}
    assert scienceworld.samples(asked) == [{"variation": 3}, {"variation": 4}, {"variation": 9}]

    class TaskDataset:
        @staticmethod
        def from_name(name: str) -> list[int]:
            return [7, 8]

    put(monkeypatch, "aviary")
    put(monkeypatch, "aviary.env", ENV_REGISTRY={"dummy": None}, TaskDataset=TaskDataset)
    monkeypatch.setattr(sys.modules["aviary"], "env", sys.modules["aviary.env"], raising=False)
    assert aviary.samples({"env": "gsm8k", "index": None, "env_kwargs": None}) == [{"index": 0}, {"index": 1}]
    assert aviary.samples({"env": "dummy", "index": None, "env_kwargs": None}) is None
