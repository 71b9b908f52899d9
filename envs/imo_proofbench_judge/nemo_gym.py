"""Comparison of two answers by the rules of NeMo Gym's `imo_proofbench_judge`, with `conform="nemo"`, for workers.

Source of the rules: `math_equal` of https://github.com/NVIDIA-NeMo/Gym, 0.7.0, which follows NeMo Skills; written anew.
"""

from __future__ import annotations

import re
from typing import Any

from latex2sympy2_extended import NormalizationConfig, normalize_latex
from math_verify import LatexExtractionConfig, StringExtractionConfig, parse, verify

import gym_llm.envs.math_verify.grading  # noqa: F401 # sets up the library: what it remembers, and that it is silent

_PERCENTAGE = re.compile(r"(\d+\.?\d*)\\?%")
_WORDS = re.compile("[a-zA-Z ,]+")
_LATEX = re.compile(r"\$.*\$|\\\(.*\\\)|\\\[.*\\\]|\\boxed\{", re.DOTALL)
_LETTERS = "ABCDEFGHIJ"


def math_equal(expected_and_answer: tuple[str, str]) -> bool:
    r"""Return whether an expected answer and the content of a box are equal.

    >>> math_equal(("$g(x)=5x$", r"g(x) = 5x.")), math_equal((r"\frac{1}{2}", "0.5"))
    (True, True)
    """
    expected, answer = expected_and_answer
    if not answer:
        return False
    try:
        return _equal_letters(expected, answer) or _equal(_trimmed(expected), _trimmed(answer))
    except Exception:  # what the library cannot read is not equal
        return False


def _equal_letters(expected: str, answer: str) -> bool:
    if len(expected.strip()) != 1 or expected.strip() not in _LETTERS:
        return False
    config = [StringExtractionConfig(strings=tuple(_LETTERS))]
    return bool(verify(*(parse(text, config, parsing_timeout=0) for text in (expected, answer)), timeout_seconds=0))


def _equal(expected: str, answer: str) -> bool:
    normal = [normalize_latex(text, NormalizationConfig).replace(" ", "") for text in (expected, answer)]
    if normal[0] == normal[1]:
        return True
    if all(map(_WORDS.fullmatch, normal)):
        return False
    return bool(verify(*map(_parsed, (expected, answer)), timeout_seconds=0))


def _parsed(text: str) -> list[Any]:
    latex = text if _LATEX.search(text) else f"${text}$"
    return parse(latex, [LatexExtractionConfig()], parsing_timeout=0)


def _trimmed(text: str) -> str:
    match = _PERCENTAGE.fullmatch(text)
    return (match[1] if match else text).rstrip(".\\")
