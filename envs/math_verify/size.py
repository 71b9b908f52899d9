r"""Refusing expressions by size before they cost seconds: `9^{9^{9^9}}`, `(10^9)!`, `\binom{10^9}{5\cdot 10^8}`."""

from __future__ import annotations

import math
import re
from typing import Any

from sympy import Add, Basic, Float, MatrixBase, Mul, Pow, Product, Rational, Sum, binomial, degree, exp
from sympy.core.function import Function

_MOST_DIGITS = 50_000.0
_MOST_TERMS = 2_000
_NAMES = (
    "sin cos tan cot sec csc asin acos atan acot asec acsc sinh cosh tanh coth log sign Abs re im arg conjugate floor "
    "ceiling Max Min"
)
_ANALYTIC = frozenset(_NAMES.split())
"""Functions whose value takes no longer for a large argument; of others, such as `factorial`, it has as many digits."""


class TooLarge(ValueError):
    """Raised if evaluating an expression would make a number of more than 50,000 digits, or too many terms."""


_TOWER = re.compile(r"(\d+)((?:\s*\^\s*[{(]*\s*\d+)*)[\s})]*(!?)")
_LARGEST_FACTORIAL = 15_000.0


def check_text(latex: str) -> None:
    r"""Check the powers and factorials of numbers in LaTeX, before a parser that may evaluate some.

    Raises:
        TooLarge: If one has too many digits.

    >>> check_text(r"\gcd(2^{10}, 100!)")
    """
    for match in _TOWER.finditer(latex):
        value = 1.0
        for number in reversed(re.findall(r"\d+", match[1] + match[2])):
            digits = value * _logarithm(int(number[:400]) or 1)
            if digits > _MOST_DIGITS:
                raise TooLarge("the power must have fewer digits")
            value = 10.0 ** min(digits, 300.0)
        if match[3] and value > _LARGEST_FACTORIAL:
            raise TooLarge("the factorial must have fewer digits")


def check_size(expression: Any) -> None:
    """Check that an expression, as it was parsed, can be evaluated soon.

    Raises:
        TooLarge: If it cannot.
    """
    try:
        _digits(expression)
    except RecursionError:
        raise TooLarge("the expression must be less deeply nested") from None


def _digits(expression: Any) -> float:
    """An upper bound of the decimal logarithm of a value; 1 for what has symbols."""
    digits = 1.0
    if isinstance(expression, MatrixBase):
        digits = max(map(_digits, expression.flat()), default=0.0)
    elif isinstance(expression, Rational):
        digits = _logarithm(max(abs(expression.p), expression.q))
    elif isinstance(expression, Float):
        digits = abs(float(math.log10(abs(expression) or 1)))
    elif isinstance(expression, (Pow, exp)):
        digits = _digits_of_power(*expression.as_base_exp())
    elif isinstance(expression, (Sum, Product)):
        digits = _digits_of_series(expression)
    elif isinstance(expression, binomial):
        above, below = map(_digits, expression.args)
        digits = min(10**above if above < 300 else math.inf, 10 ** min(below, 300.0) * above)
        digits = 1.0 if expression.free_symbols else digits
    elif isinstance(expression, Basic):
        sizes = [_digits(argument) for argument in expression.args]
        digits = max(sizes, default=1.0)
        if isinstance(expression, (Mul, Add)):
            digits = sum(sizes) if isinstance(expression, Mul) else digits + math.log10(len(sizes) + 1)
        elif (
            isinstance(expression, Function)
            and not expression.free_symbols
            and type(expression).__name__ not in _ANALYTIC
        ):
            digits = math.inf if digits > 10 else 10**digits * max(digits, 1)
    if digits > _MOST_DIGITS:
        raise TooLarge(f"the value must have at most {_MOST_DIGITS:.0f} digits")
    return digits


def _logarithm(number: int) -> float:
    return math.log10(number) if number < 10**15 else number.bit_length() * math.log10(2)


def _digits_of_power(base: Any, exponent: Any) -> float:
    below, above = _digits(base), _digits(exponent)
    if exponent.free_symbols:
        return 1.0
    size = math.inf if above > 300 else abs(float(exponent)) if isinstance(exponent, Rational) else 10**above
    if base.free_symbols:
        if isinstance(base, Add) and _terms_of_power(len(base.args), size) > _MOST_TERMS:
            raise TooLarge(f"the power must have at most {_MOST_TERMS} terms")
        return 1.0
    return below * size if below else 0.0


def _terms_of_power(terms: int, exponent: float) -> float:
    return math.comb(int(exponent) + terms - 1, terms - 1) if exponent < 10_000 else math.inf


def _digits_of_series(series: Any) -> float:
    digits, terms = _digits(series.function), 1.0
    for variable, first, last in series.limits:
        if isinstance(first, Rational) and isinstance(last, Rational):
            terms *= max(1.0, float(last - first))
        elif not (first.free_symbols or last.free_symbols or last.is_infinite or first.is_infinite):
            terms *= 10 ** min(300.0, max(_digits(first), _digits(last)))
        is_symbolic = bool(first.free_symbols or last.free_symbols) and isinstance(series, Product)
        power = _degree(series.function, variable)
        if (terms > _MOST_TERMS or is_symbolic) and (power is None or (isinstance(series, Product) and power > 1)):
            raise TooLarge(f"the series must have at most {_MOST_TERMS} terms")
        if terms > _MOST_TERMS and isinstance(series, Product):
            raise TooLarge(f"the product must have at most {_MOST_TERMS} factors")
    return digits + math.log10(terms) if isinstance(series, Sum) else digits * terms


def _degree(function: Any, variable: Any) -> int | None:
    return int(degree(function, variable)) if function.is_polynomial(variable) else None
