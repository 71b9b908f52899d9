"""The reasoning-gym library, in worker processes: its import takes seconds, and its scorers may hang."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
import sys
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

import reasoning_gym
from reasoning_gym.composite import CompositeConfig, CompositeDataset, DatasetSpec
from reasoning_gym.factory import CURRICULA, DATASETS, create_curriculum

Entry: TypeAlias = dict[str, Any]
Score: TypeAlias = tuple[Literal["score"], str, str, Entry, bool]
Make: TypeAlias = tuple[Literal["make"], str, dict[str, Any], int | None, int]
Pick: TypeAlias = tuple[Literal["pick"], str, int]

_GRIDS = {"arc_agi", "rearc"}
"""Their scorers compare tuples; in a row's JSON there are lists, with which no answer is right."""
_LITERALS = ("binary_matrix", "n_queens", "number_sorting", "spiral_matrix", "string_insertion")
"""Their scorers evaluate the model's text as Python."""
for _name in _LITERALS:
    sys.modules[DATASETS[_name][0].__module__].eval = ast.literal_eval  # type: ignore[attr-defined]

_FORMULAS = ("countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration")
"""Their scorers have sympy evaluate it, as Python too."""
_WORDS = frozenset(
    ["Abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "cot", "csc", "exp", "log", "sec", "sin",
     "sinh", "sqrt", "tan", "tanh"]
)  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_NO_FORMULA = re.compile(r"['\"`\[\]{}@:;\\]|\.\s*[^\W\d]")


def run(job: Score | Make | Pick) -> Any:
    """Do one of these: `score`, `make` or `pick`, with the arguments that follow in the tuple."""
    if job[0] == "pick":
        return pick(*job[1:])
    return score(*job[1:]) if job[0] == "score" else make(*job[1:])


def score(name: str, answer: str, entry: Entry, as_nemo_gym: bool) -> float:
    """Return the score of the library's scorer; 0.0 if it fails.

    Args:
        name: The dataset's name.
        answer: The answer in the model's text.
        entry: `question`, `answer`, `metadata`.
        as_nemo_gym: Whether grids stay lists.
    """
    if name in _FORMULAS and not is_formula(answer):
        answer = "("  # which is wrong in the way that what cannot be read is wrong
    if name in _GRIDS and not as_nemo_gym:
        metadata = entry["metadata"]
        entry = entry | {"metadata": metadata | {"output": _tuples(metadata.get("output"))}}
    try:
        value = float(_dataset(name).score_answer(answer=answer, entry=entry))
    except Exception:  # the model's text, or the scorer's mistake in reading it
        return 0.0
    return value if math.isfinite(value) else 0.0


def make(name: str, config: dict[str, Any], level: int | None, seed: int) -> Entry:
    """Return an entry, as it would be in a file.

    Args:
        name: The dataset's name.
        config: Its settings.
        level: The level of the dataset's curriculum, if it has one; None for the defaults.
        seed: The same seed gives the same entry.
    """
    dataset, config_class = DATASETS[name]
    if level is None or name not in CURRICULA:
        settings = config_class(seed=seed, size=1, **config)
    else:
        curriculum = create_curriculum(name)
        curriculum.set_global_level(level)
        settings = dataclasses.replace(curriculum.generate_configuration({"seed": seed, "size": 1}), **config)
    if hasattr(settings, "validate"):
        settings.validate()
    return _as_json(dataset(config=settings)[0])


def pick(composite: str, index: int) -> Entry:
    """Return an entry of a composite, as it would be in a file.

    Args:
        composite: The fields of the library's `CompositeConfig`, as JSON.
        index: Which entry.
    """
    return _as_json(_composite(composite)[index])


@lru_cache(maxsize=8)
def _composite(text: str) -> CompositeDataset:
    fields = json.loads(text)
    specs = [DatasetSpec(**spec) for spec in fields.pop("datasets")]
    config = CompositeConfig(datasets=specs, **fields)
    config.validate()
    return CompositeDataset(config)


def is_formula(text: str) -> bool:
    """Whether there are only numbers, signs, variables of one or two letters and mathematical functions.

    >>> is_formula("2*x**2 + log(x) + C"), is_formula("().__class__"), is_formula("lambdify(x, 1)")
    (True, False, False)
    """
    words = (match[0] for match in _WORD.finditer(text))
    return not _NO_FORMULA.search(text) and all(len(word) <= 2 or word in _WORDS for word in words)


@cache
def _dataset(name: str) -> Any:
    return reasoning_gym.get_score_answer_fn(name).__self__  # type: ignore[attr-defined]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _as_json(entry: Entry) -> Entry:
    plain: Entry = json.loads(json.dumps(entry, default=_plain))
    return plain


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
