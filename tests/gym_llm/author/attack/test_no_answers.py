"""A small run of benchmarks/no_answers.py: what is paid is in the table of docs/how-to/attack.md, with the reason."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from gym_llm.author.scaffold import find_verifier, missing_package
from gym_llm.core.registry.ids import env_ids

_ROOT = Path(__file__).parents[4]
_ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
_KINDS = {"empty", "refusal", "hedge", "cut off", "question", "prompt echo", "all options", "option list", "constant"}
_KINDS |= {"denied", "asked", "withdrawn", "thought"}


def accepted() -> dict[str, set[str]]:
    text = (_ROOT / "docs/how-to/attack.md").read_text(encoding="utf-8").partition("## Answers that say nothing")[2]
    rows = _ROW.findall(text.partition("\n## ")[0])
    return {name: _KINDS if kinds == "every kind" else set(kinds.split(", ")) for name, kinds in rows}


def no_answers() -> Any:
    spec = importlib.util.spec_from_file_location("no_answers", _ROOT / "benchmarks/no_answers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_names_verifiers_and_kinds() -> None:
    table = accepted()
    assert len(table) > 10 and {f"gym_llm/{name}-v0" for name in table} <= set(env_ids())
    assert set().union(*table.values()) <= _KINDS


@pytest.mark.slow
@pytest.mark.parametrize("env_id", env_ids())
def test_no_answer_earns_a_reward_that_is_not_listed(env_id: str) -> None:
    if missing := missing_package(find_verifier(env_id)):
        pytest.skip(missing)
    paid = no_answers().play(env_id, tasks=2, seconds=1.0, every=13)["paid"]
    allowed = accepted().get(env_id.removeprefix("gym_llm/").removesuffix("-v0"), set())
    assert {text for text in paid if text.partition(":")[0] not in allowed} == set()
