"""Comparing two answers as algebra with SymPy; only worker processes import this."""

from __future__ import annotations

import functools
import importlib.util
import random
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

from latex2sympy2_extended.latex2sympy2 import NormalizationConfig, latex2sympy, normalize_latex
from math_verify.parser import get_last_eq
from sympy import (
    Eq,
    Expr,
    FiniteSet,
    Float,
    I,
    Intersection,
    Interval,
    MatrixBase,
    N,
    Rational,
    S,
    Set,
    Symbol,
    Tuple,
    Union,
)
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFunction

from gym_llm.envs.math_verify.size import check_size, check_text
from gym_llm.grading.math_answers import ANGLE, MathAnswer, is_complex
from gym_llm.grading.quantities import Quantity

_DIGITS = 60
_EXACT = Float("1e-45", _DIGITS)
_CLOSE = Float("5e-6")
_POINTS, _ENOUGH, _MOST_SYMBOLS, _MOST_OPERATIONS = 16, 4, 4, 200
_CONDITIONS = Relational, BooleanFunction
_NORMAL_FORM = NormalizationConfig(basic_latex=True, malformed_operators=True, boxed="none")


def is_equal(gold: MathAnswer, answer: MathAnswer) -> bool:
    """Whether two answers are equal by algebra; what is too large to evaluate, or does not parse, equals nothing."""
    expected, found = expression(gold), expression(answer)
    if expected is None or found is None or _is_set_for_tuple(gold.latex or "", answer.latex or ""):
        return False
    factors = {Fraction(1)} if gold.scale == answer.scale else {Fraction(1), answer.scale / gold.scale}
    expected, found = _in_same_form(expected, found), _in_same_form(found, expected)
    return any(_is_equal(expected, found, factor) for factor in factors)


def _in_same_form(answer: Any, other: Any) -> Any:
    """A vector as a tuple; inequalities as the set of numbers that a set or other inequalities are compared with."""
    if isinstance(answer, MatrixBase) and 1 in answer.shape and isinstance(other, (Tuple, Interval)):
        is_pair = isinstance(other, Interval) and len(answer) == 2 and other.is_open
        return Interval.open(*answer.flat()) if is_pair else Tuple(*answer.flat())
    conditions = [*answer.args] if isinstance(answer, (Tuple, FiniteSet)) else [answer]
    if not isinstance(other, (Set, *_CONDITIONS)) or not all(isinstance(each, _CONDITIONS) for each in conditions):
        return answer
    if len(set().union(*(each.free_symbols for each in conditions))) != 1 or any(each.has(Eq) for each in conditions):
        return answer
    sets = [each.as_set() for each in conditions]
    both = Intersection(*sets)
    return Union(*sets) if both is S.EmptySet else both  # who writes "x < 1, x > 2" means either


def _is_set_for_tuple(gold: str, answer: str) -> bool:
    listed, braced = sorted((gold, answer))  # "(" and "[" are before a backslash
    is_set = braced.startswith("\\{") and not braced[2:].lstrip().startswith(("(", "["))
    return is_set and listed.startswith(("(", "[")) and "\\cup" not in listed


def _is_equal(expected: Any, found: Any, factor: Fraction) -> bool:
    if factor != 1:
        found = found * Rational(factor.numerator, factor.denominator)
    return bool(_grader().verify([expected], [found], timeout_seconds=0, allow_set_relation_comp=True))


@functools.lru_cache(maxsize=20_000)
def expression(answer: MathAnswer) -> Any:
    """Return the SymPy expression, not evaluated; None if it does not parse or is too large."""
    if (number := answer.quantity) is not None:
        ratio = Rational(number.value.numerator, number.value.denominator)
        return ratio if number.step is None else Float(ratio, 17)
    if answer.latex is None:
        return None
    latex = normalize_latex(answer.latex, _NORMAL_FORM)
    for text in dict.fromkeys((latex, get_last_eq(latex), latex.rpartition("=")[2])):
        try:
            check_text(text)
            parsed = latex2sympy(
                text,
                is_real=not is_complex(text),
                convert_degrees=ANGLE.search(text) is not None,
                normalization_config=None,
            )
            check_size(parsed)
            if is_complex(text):
                parsed = parsed.xreplace({Symbol("i", real=False): I})
        except Exception:
            continue
        return parsed
    return None


def private_copy(name: str) -> ModuleType:
    """Import a module anew, for a caller that changes it: NeMo Gym's grading needs math-verify's own functions."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} must be installed: install math-verify again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _grader() -> ModuleType:
    """A copy of math-verify's comparison whose numbers are compared here."""
    module = private_copy("math_verify.grader")
    compare_in_order, compare_symbols = module.sympy_deep_compare_set_and_tuple, module.sympy_symbolic_eq

    def numeric(gold: Any, answer: Any, *_: Any) -> bool:
        return _is_same_number(module.safe_sympy_doit(gold), module.safe_sympy_doit(answer))

    def symbolic(gold: Any, answer: Any) -> bool:
        if isinstance(gold, Rational) and isinstance(answer, Rational):
            return False  # they have been compared
        return bool(compare_symbols(gold, answer)) or _is_same_function(gold, answer)

    def elements(gold: Any, answer: Any, *precision: int) -> bool:
        if isinstance(answer, Tuple) and hasattr(gold, "_unsorted_args"):
            gold = Tuple(*gold._unsorted_args)  # who writes a tuple means an order
        return bool(compare_in_order(gold, answer, *precision))

    module.sympy_numeric_eq = numeric  # type: ignore[attr-defined]
    module.sympy_symbolic_eq = symbolic  # type: ignore[attr-defined]
    module.sympy_deep_compare_set_and_tuple = elements  # type: ignore[attr-defined]
    return module


def _is_same_number(gold: Any, answer: Any) -> bool:
    """Whether two numbers are equal: exactly, or as closely as decimals among them are written."""
    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        pairs = zip(gold.flat(), answer.flat(), strict=True) if gold.shape == answer.shape else None
        return pairs is not None and all(_grader().sympy_expr_eq(a, b, 6, 15) for a, b in pairs)
    if gold == answer:
        return True
    if not isinstance(gold, Expr) or not isinstance(answer, Expr) or gold.free_symbols or answer.free_symbols:
        return False
    if isinstance(gold, Rational) and isinstance(answer, Rational):
        return False
    expected, found = N(gold, _DIGITS), N(answer, _DIGITS)
    if not (expected.is_number and found.is_number and expected.is_finite and found.is_finite):
        return False
    if not (gold.has(Float) or answer.has(Float)):
        return bool(abs(expected - found) <= _EXACT * abs(expected))
    if expected.is_real and found.is_real:
        return _written(answer, found).answers(_written(gold, expected))
    return bool(abs(expected - found) <= _CLOSE * abs(expected))


def _written(number: Any, value: Any) -> Quantity:
    """A number as a quantity: a decimal keeps the places that it was written with."""
    if isinstance(number, Rational):
        return Quantity(Fraction(number.p, number.q))
    if isinstance(number, Float):
        decimal = Decimal(repr(float(number)))
        exponent = decimal.as_tuple().exponent
        return Quantity(Fraction(decimal), step=Fraction(10) ** int(exponent))
    approximation = Fraction(str(value))
    return Quantity(approximation, step=abs(approximation) / 10**5 if number.has(Float) else None)


def _is_same_function(gold: Any, answer: Any) -> bool:
    """Whether two expressions agree wherever both are real: √(1/n) is 1/√n, but √(x²) is not x."""
    if not isinstance(gold, Expr) or not isinstance(answer, Expr):
        return False
    symbols = sorted(gold.free_symbols, key=str)
    if (
        not symbols
        or len(symbols) > _MOST_SYMBOLS
        or {str(symbol) for symbol in answer.free_symbols} != set(map(str, symbols))
    ):
        return False
    if gold.count_ops() + answer.count_ops() > _MOST_OPERATIONS:
        return False
    rng, agreed = random.Random(0), 0
    for _ in range(_POINTS):
        point = {str(symbol): Rational(rng.choice((-1, 1)) * rng.randint(1, 60), 16) for symbol in symbols}
        expected, found = (N(side.subs({s: point[str(s)] for s in side.free_symbols}), 30) for side in (gold, answer))
        if not (expected.is_number and found.is_number) or expected.is_real != found.is_real:
            return False
        if expected.is_real and expected.is_finite and found.is_finite:
            if abs(expected - found) > _CLOSE * _CLOSE * _CLOSE * abs(expected):
                return False
            agreed += 1
    return agreed >= _ENOUGH
