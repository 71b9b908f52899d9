r"""Verification with the math-verify library. It runs in worker processes, the only place where SymPy is imported.

As in NeMo Gym's `math_with_judge`, the expected answer is parsed as LaTeX in a `\boxed{}`, and the model's text as
plain expressions and LaTeX. Source of the rules: https://github.com/NVIDIA-NeMo/Gym
"""

from __future__ import annotations

import functools
import logging
import os
import re
import time
from types import ModuleType
from typing import Any

# SymPy remembers 1,000 results of each function, fewer than one long comparison makes: with more, one that took 8 s of
# CPU time takes 4. It reads this when it is imported.
os.environ.setdefault("SYMPY_CACHE_SIZE", "100000")

import math_verify.parser
from latex2sympy2_extended.latex2sympy2 import NormalizationConfig
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Basic, Integer, Number, Rational, UnevaluatedExpr
from sympy.core import random
from sympy.core.cache import clear_cache

from gym_llm.concurrency.worker_process import leave_note
from gym_llm.envs.math_verify.comparison import is_equal, private_copy
from gym_llm.grading.denials import is_given
from gym_llm.grading.markup import without_emphasis
from gym_llm.grading.math_answers import compare_without_algebra, read_answer, verdict_without_algebra
from gym_llm.grading.quantities import plain_symbols

_GOLD = (LatexExtractionConfig(),)
_LONGEST_TEXT = 1 << 18  # characters at the end of a text without a box; math-verify reads a megabyte in a second
_LONG_SECONDS = 1.0
_PREDICTION = (ExprExtractionConfig(), LatexExtractionConfig())

# The library parses a percentage as its number times this.
_PERCENT = UnevaluatedExpr(Rational(1, 100))
_VERSION = re.compile(r"(?<![\w.])\d+(?:\.\d+){2,}")
_SCIENTIFIC = re.compile(r"(?<![\w.\\{])(\d{1,30}(?:\.\d{1,30})?)[eE]([+-]?\d{1,6})(?!\.?\w)")
_NO_ANSWER_AT_END = re.compile(
    r"\d[\d.,/$]{0,40}\s{1,4}(?:or|maybe|perhaps)\s{1,4}[$\\(]{0,3}-?\d[\d.,/]{0,40}\W{0,6}\Z", re.IGNORECASE
)
_BEFORE = re.compile(
    r"\b(?:also be|exceeds?|one of|(?:more|less|greater|fewer|larger|smaller|higher|lower|other) than"
    r"|between(?: \S{1,20} and)?|(?:is|are|was|be) (?:over|under|above|below|at least|at most|up to))[\s$*(\\]*\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\W{0,8}(?:otherwise|(?:or|but) (?:it |this )?(?:could|might|may|also|more|less|fewer)|at (?:most|least))\b",
    re.IGNORECASE,
)
_LABELS = re.compile(
    r"(?:\b(?:step|case|part|lemma|theorem|figure|fig\.|equation|eq\.|chapter|section|table|page|problem)[ $*(]{1,4}"
    r"|^ {0,3}(?=\d{1,2}[.)] [^\W\d]))\d{1,3}(?![.,/]?\d)",
    re.IGNORECASE | re.MULTILINE,
)
_NEGATIVE = re.compile(r"(?<!\d )\b(?:negative|minus) (?=\d)", re.IGNORECASE)
_DISPLAYED = (("\\[", "\\]"), ("\\begin{", "\\end{"))
_LONGEST_END = 200  # characters of it
_NEAR = 60
_MENTION = re.compile(r"\\boxed\s*\{[^{}\\]*\}")
_AS_WRITTEN = NormalizationConfig(basic_latex=True, boxed="none")
_CJK = r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]"
_BESIDE_DIGITS = re.compile(rf"(?<={_CJK})(?=[\d$])|(?<=\d)(?={_CJK})")
_SHOWN = {0x2060: None, 0x2024: "."}

# The library reports every text it cannot read.
logging.getLogger("math_verify").setLevel(logging.CRITICAL)


def parse_number(latex: str) -> Rational | None:
    r"""The number that an integer or a `\frac` of two is, exactly as the library parses it; None for everything else.

    >>> parse_number(r"\frac{2}{4}")
    1/2
    """
    match = _NUMBER.fullmatch(latex)
    if match is None:
        return None
    return Integer(match[0]) if match[1] is None else Rational(int(match[1]), int(match[2]))


_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}|\\frac\{(0|[1-9][0-9]{0,14})\}\{([1-9][0-9]{0,14})\}")
_library_parse = math_verify.parser.parse_latex_cached.__wrapped__


@functools.lru_cache(maxsize=20_000)
def _parse_latex(latex: str) -> Any:
    number = parse_number(latex)
    return _library_parse(latex) if number is None else number


# Parsing LaTeX is nearly all of the time (0.35 ms for an integer, 10 ms for a pair), and the answers to one task
# repeat. The library remembers the last 20; the function is pure, so remembering more changes nothing but the time.
math_verify.parser.parse_latex_cached = _parse_latex


def grade(expected_and_text: tuple[str, str]) -> tuple[bool, str | None]:
    """Compare a model's text with the expected answer.

    What is in the last box is the answer; without a box, a number that the text says is its answer, else what
    math-verify finds. An answer that cannot be read whole is wrong, whatever stands elsewhere.

    The library's own timeouts are off, because they do not stop a big-integer power; the worker's deadline does. They
    are 0, because math-verify 0.7 sets an alarm for None.

    Args:
        expected_and_text: The expected answer without math delimiters, and the whole text of the model.

    Returns:
        Whether they are equal, and the answer in the text, or None. The answer is also left as a note, in case
        comparing takes too long.

    Raises:
        ValueError: If the expected answer cannot be read.
    """
    expected, text = expected_and_text
    gold = read_answer(expected)
    if gold is None:
        raise ValueError(f"the expected answer {expected!r} cannot be read")
    correct, answer, found = verdict_without_algebra(gold, text)
    if correct is not None:
        return correct, answer
    if found is None:
        answer = _extracted(text)
        found = None if answer is None else read_answer(answer)
        correct = found is not None and compare_without_algebra(gold, found)
    if answer is not None:
        leave_note(answer)
    if found is None or correct is not None:
        return bool(correct), answer
    random.seed(0)  # SymPy tries random numbers: the verdict is not to depend on what was compared before
    started = time.process_time()
    correct = is_equal(gold, found)
    if time.process_time() - started > _LONG_SECONDS:
        clear_cache()  # what it remembers of a long comparison is large
    return correct, answer


def _extracted(text: str) -> str | None:
    """Return the answer that math-verify finds in a text without a box: the last of those that stand out most.

    "1 or 2", "more than 1", "Step 1:", a formula without its end and the number of "It is not 3." are none. The library
    would take the 1 of `1e-40` for it.
    """
    is_cut_off = text.count("$$") % 2 or any(text.rfind(opening) > text.rfind(end) for opening, end in _DISPLAYED)
    if is_cut_off or _NO_ANSWER_AT_END.search(text[-_LONGEST_END:]):
        return None
    text = _SCIENTIFIC.sub(r"$\1\\times 10^{\2}$", text) if len(text) <= _LONGEST_TEXT else text
    text = _MENTION.sub("", _VERSION.sub(_hide_version, plain_symbols(without_emphasis(text[-_LONGEST_TEXT:]))))
    text = _NEGATIVE.sub("-", _LABELS.sub(" ", _BESIDE_DIGITS.sub(" ", text)))
    module = _extraction()
    config = module.ExprExtractionConfig(), module.LatexExtractionConfig(normalization_config=_AS_WRITTEN)
    matches = module.parse(text, config, parsing_timeout=0, extraction_mode="first_match")
    if not matches or not isinstance(matches[-1], str):
        return None
    place = text.rfind(matches[-1])
    if place >= 0:
        end = place + len(matches[-1])
        if (
            _BEFORE.search(text, max(0, place - _NEAR), place)
            or _AFTER.match(text, end)
            or not is_given(text, place, end)
        ):
            return None
    percent = "\\%" if _has_percent(matches) and "%" not in matches[-1] else ""
    return matches[-1].translate(_SHOWN) + percent


@functools.cache
def _extraction() -> ModuleType:
    """A copy of math-verify's extraction that parses nothing: what it finds is read by `read_answer`."""
    module = private_copy("math_verify.parser")
    module.parse_latex_cached = lambda latex: Integer(1)  # type: ignore[attr-defined]
    return module


def _equal(gold: list[Any], prediction: list[Any]) -> bool:
    if not (prediction and isinstance(gold[0], Number) and isinstance(prediction[0], Number)):
        random.seed(0)  # SymPy tries random numbers: the verdict is not to depend on what was compared before
    started = time.process_time()
    correct = bool(verify(gold, prediction, timeout_seconds=0))
    if time.process_time() - started > _LONG_SECONDS:
        clear_cache()  # what it remembers of a long comparison is large
    return correct


def _has_percent(parsed: list[Any]) -> bool:
    return bool(parsed) and isinstance(parsed[0], Basic) and parsed[0].has(_PERCENT)


def _by_value(parsed: list[Any]) -> list[Any]:
    """The parsed answers with each percentage as the number that it stands for."""
    return [each.xreplace({_PERCENT: Rational(1, 100)}) if isinstance(each, Basic) else each for each in parsed]


def _hide_version(match: re.Match[str]) -> str:
    """Characters in place of the dots, and in front, that the library does not read as a number or as LaTeX."""
    return "\u2060" + match[0].replace(".", "\u2024")


def grade_as_nemo_gym(expected_and_text: tuple[str, str]) -> tuple[bool, str | None]:
    r"""Grade as NeMo Gym does with math-verify 0.8.0: percentages count by value, and 3.5.0 is read as 3.5.

    The answer returned is the one that NeMo Gym reports: the first match, or the first, in SymPy's form.

    >>> grade_as_nemo_gym(("0.5", r"\boxed{\frac{2}{4}}"))
    (True, '1/2')
    """
    expected, text = expected_and_text
    gold = _parse_gold(expected)
    if not gold:
        raise ValueError(f"math-verify cannot read the expected answer {expected!r}")
    parsed = parse(text, _PREDICTION, parsing_timeout=0)
    answer = parsed[-1] if parsed and isinstance(parsed[-1], str) else None
    if answer is not None:
        leave_note(answer)
    correct = _equal(_by_value(gold), _by_value(parsed))
    predictions, golds = [str(each) for each in parsed], [str(each) for each in gold]
    for each in predictions:
        if any(verify(gold, each, timeout_seconds=0) for gold in golds):
            return correct, each
    return correct, predictions[0] if predictions else answer


@functools.lru_cache(maxsize=20_000)
def _parse_gold(expected: str) -> list[Any]:
    return parse(f"\\boxed{{{expected}}}", _GOLD, parsing_timeout=0)
