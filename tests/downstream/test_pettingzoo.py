"""Our environments as PettingZoo's: its own test, its loop, and environments with several seats."""

from __future__ import annotations

import importlib.util

import pytest
from gymnasium.error import DependencyNotInstalled
from peers import in_peer

import gym_llm.wrappers


@pytest.mark.slow
def test_pettingzoos_own_test_passes() -> None:
    assert in_peer("pettingzoo", "pettingzoo_aec.py")["passed"] == 4


@pytest.mark.skipif(importlib.util.find_spec("pettingzoo") is not None, reason="pettingzoo is installed")
def test_a_missing_package_is_named() -> None:
    with pytest.raises(DependencyNotInstalled, match="pip install"):
        _ = gym_llm.wrappers.PettingZooEnv
