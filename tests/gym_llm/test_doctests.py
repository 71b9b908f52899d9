"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import gym_llm


def modules() -> list[str]:
    names = [module.name for module in pkgutil.walk_packages(gym_llm.__path__, "gym_llm.")]
    return ["gym_llm", *sorted(name for name in names if not name.endswith(".__main__"))]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("gym_llm"):
            raise
        pytest.skip(f"{name} needs {error.name}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("doctest"))
        assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


def test_the_walk_finds_modules_of_every_folder() -> None:
    names = set(modules())
    assert {
        "gym_llm.core.verifier_env",
        "gym_llm.engines.engine",
        "gym_llm.envs.counter.env",
        "gym_llm.data.files.jsonl",
    } <= names
