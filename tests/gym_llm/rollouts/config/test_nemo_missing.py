"""What NeMo Gym 0.7.0 has is one table of the docs: what it is here, or why it is not."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest
from testing import ROOT

from gym_llm.data.recipes.catalogue import is_benchmark
from gym_llm.rollouts.config.nemo_gym import env_of_server

PAGE = (ROOT / "docs" / "reference" / "nemo-gym.md").read_text("utf-8")
_ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)


def rows(title: str) -> dict[str, str]:
    return dict(_ROW.findall(PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]))


@pytest.mark.parametrize(
    ("title", "count"), [("Servers", 145), ("Agents", 56), ("Benchmarks", 120), ("Configurations", 819)]
)
def test_every_name_has_a_line(title: str, count: int) -> None:
    lines = rows(title)
    assert len(lines) == count and all(len(line) > 4 for line in lines.values() if line != "works")
    works = sum(line.startswith("works") for line in lines.values())
    assert f"## {title}\n\n{works:,} of {count:,} work here." in PAGE


def test_servers_are_the_environments_that_configurations_become() -> None:
    for name, line in rows("Servers").items():
        env_id = env_of_server(name)
        assert (f"`{env_id}`" in line) if env_id else not line.startswith("works: `gym_llm") or "checkout" in line


def test_what_works_is_here() -> None:
    for lines in map(rows, ("Servers", "Agents")):
        assert {env for line in lines.values() for env in re.findall(r"`(gym_llm/[\w-]+)`", line)} <= set(gym.registry)
    for line in rows("Benchmarks").values():
        assert all(is_benchmark(name) for name in re.findall(r"^works: `(\w+)`$", line))
