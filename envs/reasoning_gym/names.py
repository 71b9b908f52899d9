"""The names of reasoning-gym's datasets, without the seconds that its import takes."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

from gymnasium.error import DependencyNotInstalled

from gym_llm.utils.extras import install

_NAME = re.compile(r"""^DATASET_NAME\w* = ["'](\w+)["']|register_dataset\(\s*["'](\w+)["']""", re.MULTILINE)
_NOT_OF_TASKS = {"composite"}  # a mixture of others


@cache
def dataset_names() -> frozenset[str]:
    """The datasets of the installed version, as its files name them.

    Raises:
        DependencyNotInstalled: If it is not installed.
    """
    spec = importlib.util.find_spec("reasoning_gym")
    if spec is None or spec.origin is None:
        raise DependencyNotInstalled(
            f"ReasoningGym needs the reasoning-gym library, which is not installed: {install('reasoning')}"
        )
    texts = (path.read_text("utf-8") for path in Path(spec.origin).parent.rglob("*.py"))
    return frozenset(first or second for text in texts for first, second in _NAME.findall(text)) - _NOT_OF_TASKS
