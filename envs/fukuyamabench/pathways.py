"""Reading a mechanism's steps, and comparing their products by rdkit, in worker processes.

The rules are those of the benchmark's scorer (HaCTang/ReactionMechanismReasoning, `eval/eval_infer_pathway.py`).
As in NeMo Gym, products with dots are split on both sides, and an invalid product makes its step wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from gym_llm.grading.extraction import fences, json_values
from gym_llm.grading.molecules import canonical, limit_memory, molecule

_ATOM_MAP = re.compile(r":\d+")
_HEADER = re.compile(r"##[ \t]*Result[ \t]*\n")
_PRODUCTS = ("product_smiles", "products")
_MAIN = 4
"""Heavy atoms that a product which stands alone for a step has at least, if the step has one so large."""

Species = dict[str, int]
"""Canonical SMILES, with the number of heavy atoms."""


class Question(NamedTuple):
    """A predicted mechanism, and the expected products of each checkpoint, one list for each step that counts.

    `subsets` says which part of a step's products is enough: "none", "main" for one with a product that is not small,
    or "any".
    """

    steps: list[Any]
    checkpoints: list[list[list[str]]]
    subsets: str


def pathway_in(text: str) -> list[Any] | None:
    r"""Return the steps that an answer predicts; None without any.

    They are the last fenced JSON list of steps, else the first list after the line `## Result`, else single steps.

    >>> pathway_in('## Result\n[{"step_id": 1, "product_smiles": "CCO"}]')
    [{'step_id': 1, 'product_smiles': 'CCO'}]
    """
    header = _HEADER.search(text)
    after = text[header.end() :] if header else text
    for steps in (*reversed(list(_fenced_lists(text))), *json_values(after, list)):
        if any(isinstance(step, dict) and not step.keys().isdisjoint(_PRODUCTS) for step in steps):
            return steps
    steps = [step for step in json_values(text, dict) if "step_id" in step and not step.keys().isdisjoint(_PRODUCTS)]
    return steps or None


def matches_in_worker(question: Question) -> list[int | None] | None:
    """Return the predicted step, from 1, that meets each checkpoint; None if an expected product cannot be read."""
    limit_memory()
    expected = [[species for smiles in steps if (species := _species(smiles)[0])] for steps in question.checkpoints]
    if not all(expected):
        return None
    matches: list[int | None] = []
    position = 0
    for choices in expected:
        match = None
        while position < len(question.steps) and match is None:
            predicted = _predicted(question.steps[position])
            position += 1
            if predicted and any(_is_met(predicted, choice, question.subsets) for choice in choices):
                match = position
        matches.append(match)
    return matches


def _is_met(predicted: Species, expected: Species, subsets: str) -> bool:
    if predicted == expected:
        return True
    if subsets == "none" or not predicted.keys() <= expected.keys():
        return False
    return subsets == "any" or max(predicted.values()) >= min(_MAIN, max(expected.values()))


def _predicted(step: Any) -> Species | None:
    """Return the products of a predicted step; None if one of them is invalid."""
    if not isinstance(step, dict):
        return None
    name = next((name for name in _PRODUCTS if name in step), "")
    products = step.get(name)
    products = [products] if name == "product_smiles" and isinstance(products, str) else products
    if not isinstance(products, list):
        return None
    texts = [each.get("smiles") if name == "products" and isinstance(each, dict) else each for each in products]
    smiles = [_ATOM_MAP.sub("", text) for text in texts if isinstance(text, str)]
    species, whole = _species(smiles)
    return species if whole and len(smiles) == len(texts) else None


def _species(products: list[str]) -> tuple[Species, bool]:
    """Return the species of a list of SMILES, and whether all of them could be read."""
    texts = [text for smiles in products for part in smiles.split(".") if (text := part.strip())]
    species = dict(filter(None, map(_read, texts)))
    return species, all(map(_read, texts))


@lru_cache(10_000)
def _read(smiles: str) -> tuple[str, int] | None:
    try:
        text = canonical(smiles, any_valence=True)
        return None if text is None else (text, molecule(smiles, any_valence=True).GetNumHeavyAtoms())
    except (MemoryError, RuntimeError, ValueError):  # rdkit's own errors about a molecule are among them
        return None


def _fenced_lists(text: str) -> Iterator[list[Any]]:
    for fence in fences(text):
        if fence.closed and fence.language in ("", "json"):
            try:
                steps = json.loads(fence.body)
            except (ValueError, RecursionError):
                continue
            if isinstance(steps, list):
                yield steps
