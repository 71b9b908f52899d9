"""Laws: the 108 laws of NewtonBench (Zheng et al., 2025, https://arxiv.org/abs/2510.07172) as formulas.

A domain has three laws of each difficulty. Formulas are Python expressions of the law's parameters, of the domain's
constants, and of `math` and `np`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

Difficulty = Literal["easy", "medium", "hard"]
Version = Literal["v0", "v1", "v2"]
Law = Callable[..., Any]


@dataclass(frozen=True)
class Domain:
    """The laws of a domain.

    Attributes:
        parameters: Of the law, each with the range in which it is graded.
        formulas: By difficulty, those of v0, v1 and v2.
        constants: By name.
        uniform: Parameters that are drawn uniformly; the others are drawn log-uniformly.
        guard: A condition under which the law is 0.
        domain_error: Errors that make the law NaN; others fail the experiment.
        is_checked: Whether an overflow or an infinite value makes the law NaN.
        is_positive: Whether a value of 0 or less makes the law NaN, too.
    """

    parameters: dict[str, tuple[float, float]]
    formulas: dict[str, tuple[str, str, str]]
    constants: dict[str, float]
    uniform: tuple[str, ...] = ()
    guard: str = "False"
    domain_error: tuple[type[Exception], ...] = ()
    is_checked: bool = False
    is_positive: bool = False


_SIN, _COS, _TAN = (f"math.{name}(math.radians(angle1))" for name in ("sin", "cos", "tan"))
_E = "np.exp(1)"
_NO_DIVISION = (ValueError, ZeroDivisionError)

DOMAINS: dict[str, Domain] = {
    "m0_gravity": Domain(
        {"mass1": (1, 1e3), "mass2": (1, 1e3), "distance": (1, 1e1)},
        {
            "easy": (
                "C * mass1 * mass2 / distance ** 1.5",
                "C * mass1 / distance ** 2",
                "C * (mass1 ** 2 * mass2 ** 2) / distance ** 2",
            ),
            "medium": (
                "C * (mass1 * mass2) ** 2 / distance ** 1.5",
                "C * mass1 / distance ** 2.6",
                "C * (mass1 ** 2 * mass2 ** 2) * distance ** 2",
            ),
            "hard": (
                "C * (mass1 + mass2) ** 2 / distance ** 1.5",
                "C * mass1 ** 1.3 / distance ** 2.6",
                "C * (mass1 ** 2 + mass2 ** 2) * distance ** 2",
            ),
        },
        {"C": 6.674e-05},
        guard="distance <= 0 or mass1 <= 0 or mass2 <= 0",
    ),
    "m1_coulomb_force": Domain(
        {"q1": (0.1, 10.0), "q2": (0.1, 10.0), "distance": (0.1, 10.0)},
        {
            "easy": (
                "C * q1 * q2 / distance ** 3",
                "C * (q1 * q2) ** 3 / distance ** 2",
                "C * q1 ** 3 * q2 / distance ** 2",
            ),
            "medium": (
                "C * (q1 * q2) * (q1 + q2) / distance ** 2",
                "C * (q1 + q2) ** 3 / distance ** 2",
                "C * q1 ** 3 * q2 ** 2 / distance ** 2.5",
            ),
            "hard": (
                f"C * (q1 * q2) * (q1 + q2) / distance ** {_E}",
                "C * q2 ** 2 * (q1 + q2) ** 3 / distance ** 2",
                f"C * q1 ** 3 * q2 ** 2 / distance ** {_E}",
            ),
        },
        {"C": 2.0},
        guard="distance <= 0 or q1 == 0 or q2 == 0",
    ),
    "m2_magnetic_force": Domain(
        {"current1": (1e-3, 0.1), "current2": (1e-3, 0.1), "distance": (1e-3, 0.1)},
        {
            "easy": (
                "C * current1 * current2 / distance ** 3",
                "C * (current1 * current2) ** 2 / distance",
                "C * current2 / distance",
            ),
            "medium": (
                "C * (current1 * current2) ** 1.5 / distance ** 3",
                "C * (current1 * current2) ** 2 * distance",
                "C * current2 / distance ** 3.8",
            ),
            "hard": (
                "C * (current1 + current2) ** 1.5 / distance ** 3",
                "C * (current1 - current2) ** 2 * distance",
                "C * current2 ** 0.9 / distance ** 3.8",
            ),
        },
        {"C": 0.0478},
        guard="distance <= 0 or current1 == 0 or current2 == 0",
    ),
    "m3_fourier_law": Domain(
        {"k": (0.1, 10.0), "A": (1e-4, 1e-2), "delta_T": (10.0, 1e3), "d": (0.01, 1.0)},
        {
            "easy": ("k * A * delta_T / d ** 2", "k * A ** 0.5 * delta_T / d", "k * A * delta_T ** 2 / d"),
            "medium": (
                "k * A ** 0.5 * delta_T / d ** 2",
                "k * A ** 0.5 * delta_T ** 2.7 / d",
                "k * delta_T ** 2 / (d * A ** 3.4)",
            ),
            "hard": (
                "k * A ** 0.5 * delta_T ** 1.3 / d ** 2",
                "k * A ** 0.5 * delta_T ** 2.7 / d ** (3 / 7)",
                "k * delta_T ** 2 / (np.sqrt(d) * A ** 3.4)",
            ),
        },
        {},
        guard="d <= 0 or delta_T <= 0",
        domain_error=_NO_DIVISION,
    ),
    "m4_snell_law": Domain(
        {"n1": (1.0, 1.5), "n2": (1.0, 1.5), "angle1": (0.0, 90.0)},
        {
            "easy": (
                f"math.degrees(math.acos(n1 * {_SIN} / n2))",
                f"math.degrees(math.asin(n2 * {_SIN} / n1))",
                f"math.degrees(math.atan(n1 * {_SIN} / n2))",
            ),
            "medium": (
                f"math.degrees(math.acos(n1 * {_COS} / n2))",
                f"math.degrees(math.acos(n2 * {_SIN} / n1))",
                f"math.degrees(math.atan(n1 * {_TAN} / n2))",
            ),
            "hard": (
                f"math.degrees(math.acos(n1 ** 2 * {_COS} / n2))",
                f"math.degrees(math.acos(n2 * {_SIN} / n1 ** 2.5))",
                f"math.degrees(math.atan((n1 / n2) ** 2 * {_TAN}))",
            ),
        },
        {},
        uniform=("n1", "n2", "angle1"),
        domain_error=(ValueError,),
    ),
    "m5_radioactive_decay": Domain(
        {"N0": (1.0, 100.0), "lambda_constant": (1e-3, 0.1), "t": (0.01, 10.0)},
        {
            "easy": (
                "N0 * np.exp(-lambda_constant * t ** 1.5)",
                "N0 * np.exp(-lambda_constant ** 1.5 * t)",
                "N0 * np.exp(-(lambda_constant * t) ** 1.5)",
            ),
            "medium": (
                "N0 ** 1.2 * np.exp(-lambda_constant * t ** 1.5)",
                "N0 ** 1.4 * np.exp(-lambda_constant ** 1.5 * t)",
                "N0 ** 1.8 * np.exp(-(lambda_constant * t) ** 1.5)",
            ),
            "hard": (
                f"N0 ** 1.2 * np.exp(-lambda_constant ** {_E} * t ** 1.5)",
                f"N0 ** 1.4 * np.exp(-lambda_constant ** 1.5 * t ** {_E})",
                f"N0 ** 1.8 * np.exp(-(lambda_constant * t) ** ({_E} + 1.5))",
            ),
        },
        {},
        domain_error=(FloatingPointError,),
        is_checked=True,
    ),
    "m6_underdamped_harmonic": Domain(
        {"k": (100.0, 1e4), "m": (0.1, 10.0), "b": (0.01, 1.0)},
        {
            "easy": (
                "math.sqrt(k / m - b / (2 * m))",
                "(k / m - (b / (2 * m)) ** 2) ** 2",
                "k / m - (b / (2 * m)) ** 2",
            ),
            "medium": (
                "math.sqrt(k / m - b / (2 * m ** 2))",
                "(k / m ** 2 - (b / (2 * m)) ** 2) ** 2",
                "k / m ** 1.3 - (b / (2 * m)) ** 2",
            ),
            "hard": (
                "(k / m - b / (2 * m ** 2)) ** 1.5 if k / m - b / (2 * m ** 2) >= 0 else math.nan",
                "(k * m ** 2 - (b / (2 * m)) ** 2) ** 2",
                "k / m ** 1.3 - (b / (2 * m)) ** 0.7",
            ),
        },
        {},
        domain_error=(ValueError,),
    ),
    "m7_malus_law": Domain(
        {"I_0": (100.0, 2e3), "theta": (1e-6, math.pi / 2)},
        {
            "easy": (
                "I_0 * (np.sin(theta) + np.cos(theta)) ** 2",
                "I_0 * (np.sin(theta) / np.cos(theta)) ** 2",
                "I_0 * (np.cos(theta) / np.sin(theta)) ** 2",
            ),
            "medium": (
                "I_0 * (2 * np.sin(theta) + np.cos(theta)) ** 2",
                "I_0 * np.sin(theta) ** 2 / np.cos(theta) ** 3",
                f"I_0 * (np.cos(theta) / np.sin(theta)) ** {_E}",
            ),
            "hard": (
                "I_0 * (2 * np.sin(theta) + 1.5 * np.cos(theta)) ** 2",
                f"I_0 * (np.sin(theta) ** 2 / np.cos(theta) ** 3) ** {_E}",
                f"I_0 * (np.sin(theta) ** 2 / np.cos(theta)) ** {_E}",
            ),
        },
        {},
        uniform=("theta",),
        domain_error=(FloatingPointError,),
        is_checked=True,
    ),
    "m8_sound_speed": Domain(
        {"gamma": (1.3, 1.7), "T": (10.0, 1e3), "M": (1e-3, 0.1)},
        {
            "easy": ("math.sqrt(gamma * C * T ** 2 / M)", "gamma * C * T / M", "math.sqrt(C * T / M)"),
            "medium": (
                "math.sqrt(gamma * C * T ** 2 / M ** 1.5)",
                "gamma * T * C / M ** (1 / 3)",
                "math.sqrt(C * T * M ** 1.5)",
            ),
            "hard": (
                "math.sqrt(math.exp(gamma) * C * T ** 2 / M ** 1.5)",
                "math.log(gamma) * T * C / M ** (1 / 3)",
                "(C * T * M ** 1.5) ** (-2.8)",
            ),
        },
        {"C": 351.6},
        uniform=("gamma",),
        domain_error=_NO_DIVISION,
    ),
    "m9_hooke_law": Domain(
        {"x": (1e-3, 1.0)},
        {
            "easy": ("2 * C1 * x ** 2", "2 * C1 * x ** 0.5", "2 * C1 * x ** 3.4"),
            "medium": (
                "2 * C1 * x ** 2 + C2 * x",
                "2 * C1 * x ** 0.5 + C2 * x ** 3",
                "2 * C1 * x ** 3.4 + C2 * x ** 0.5",
            ),
            "hard": (
                "2 * C1 * x ** 2 + C2 * x + C3 / np.sqrt(x)",
                "2 * C1 * x ** 0.5 + C2 * x ** 3 + C3 / x ** 0.3",
                "2 * C1 * x ** 3.4 + C2 * x ** 0.5 + C3 / x ** (10 / 3)",
            ),
        },
        {"C1": 231.141, "C2": 1241.9012, "C3": 12.578},
        domain_error=_NO_DIVISION,
    ),
    "m10_be_distribution": Domain(
        {"omega": (1e8, 1e10), "T": (10.0, 1e3)},
        {
            "easy": (
                "1 / (np.exp(C * omega / T) + 1)",
                "1 / (np.exp(C * omega ** 0.5 / T) - 1)",
                "1 / (np.exp(C * omega / T ** 3) - 1)",
            ),
            "medium": (
                "1 / (np.exp(C * omega ** 1.5 / T) + 1)",
                "1 / (np.exp(C * omega ** 0.5 * T) - 1)",
                "1 / (np.exp(C * omega ** 1.5 / T ** 3) - 1)",
            ),
            "hard": (
                "1 / (np.exp(C * omega ** 1.5 / T ** 2) + 1)",
                "1 / (np.exp(C * (omega ** 0.5 * T ** 2.3)) - 1)",
                "1 / (-np.log(C * omega ** 1.5 / T ** 3) - 1)",
            ),
        },
        {"C": 1.0513e-14},
        domain_error=(ValueError, ArithmeticError),
        is_checked=True,
        is_positive=True,
    ),
    "m11_heat_transfer": Domain(
        {"m": (1e-3, 1e3), "c": (100.0, 1e4), "delta_T": (10.0, 1e3)},
        {
            "easy": ("m * c * delta_T ** 2.5", "m ** 2.5 * c * delta_T", "(m * delta_T) ** 2.5 * c"),
            "medium": (
                "c / (m * delta_T ** 2.5)",
                "c / (m ** 2.5 * delta_T)",
                "c / (m ** 2.5 * delta_T ** 2.5)",
            ),
            "hard": (
                f"c / (m ** ({_E} + 1) * delta_T ** 2.5)",
                f"c / (m ** 2.5 * delta_T ** ({_E} + 1))",
                f"c / (m * delta_T) ** ({_E} + 1)",
            ),
        },
        {},
        guard="m <= 0 or c <= 0 or delta_T <= 0",
        domain_error=(FloatingPointError,),
        is_checked=True,
    ),
}


def formula_of(module: str, difficulty: str, version: str) -> str:
    """Return a law's formula.

    >>> formula_of("m6_underdamped_harmonic", "easy", "v2")
    'k / m - (b / (2 * m)) ** 2'
    """
    return DOMAINS[module].formulas[difficulty][int(version[1])]


@cache
def law_of(module: str, difficulty: str, version: str) -> Law:
    """Return a law as a function of its parameters, by position. It may return NaN.

    >>> round(law_of("m0_gravity", "easy", "v1")(1e6, 1.0, 2.0), 3)
    16.685
    """
    domain = DOMAINS[module]
    known = {"np": np, "math": math, **domain.constants}
    names = ", ".join(domain.parameters)
    body = f"0.0 if {domain.guard} else {formula_of(module, difficulty, version)}"
    plain = eval(compile(f"lambda {names}: {body}", "<law>", "eval"), known)  # noqa: S307 - a formula of the table
    is_hooke = module == "m9_hooke_law"

    def law(*values: float) -> Any:
        if is_hooke and values[0] < 0:
            return math.nan
        try:
            if not domain.is_checked:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    return plain(*values)
            with np.errstate(over="raise", divide="raise", invalid="raise", under="ignore"):
                value = plain(*values)
        except domain.domain_error:
            return math.nan
        return value if np.isfinite(value) and (value > 0 or not domain.is_positive) else math.nan

    return law


def points_of(module: str, rng: np.random.Generator, number: int) -> np.ndarray:
    """Return points at which a law is graded, of shape (number, parameters) and type float64."""
    domain = DOMAINS[module]
    columns = []
    for name, (low, high) in domain.parameters.items():
        if name in domain.uniform:
            columns.append(rng.uniform(low, high, number))
        else:
            columns.append(np.exp(rng.uniform(math.log(low), math.log(high), number)))
    return np.stack(columns, axis=1)


def code_of(module: str, difficulty: str, version: str) -> str:
    """Return a law as the function that a model should submit."""
    domain = DOMAINS[module]
    constants = "".join(f"    {name} = {value!r}\n" for name, value in domain.constants.items())
    signature = f"def discovered_law({', '.join(domain.parameters)}):"
    formula = formula_of(module, difficulty, version)
    return f"{signature}\n    import math\n    import numpy as np\n{constants}    return {formula}"
