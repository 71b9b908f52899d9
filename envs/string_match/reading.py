r"""The forms in which `string_match` compares two answers, from strict to generous. All take linear time."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from gym_llm.envs.string_match.states import POSTAL_CODES
from gym_llm.grading.choices import ANY_LETTER, read_choice
from gym_llm.grading.markup import without_emphasis, without_fonts

_MATH_MARKS = re.compile(r"\\[()\[\]]|\$")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_JOINERS = re.compile(r"[,;]|\band\b")
_STATES = re.compile(rf"\b(?:{'|'.join(sorted(POSTAL_CODES, key=len, reverse=True))})\b")
_SYMBOLS = str.maketrans(
    {"°": "^\\circ", "²": "^2", "³": "^3", "√": "\\sqrt", "π": "\\pi", "−": "-", "：": ":", "﹣": "-", "﹢": "+",
     "﹦": "=", "﹤": "<", "﹥": ">"}
    | {power: f"^{digit}" for digit, power in enumerate("⁴⁵⁶⁷⁸⁹", 4)}
)  # fmt: skip
_UNIT = re.compile(r"\^\{?\\circ\}?|(?<=\d)\s*(?:[ck]?m(?:\^?2)?|mm|kg)(?=[\s.,;)]|$)")
_NUMBER = re.compile(
    r"([-+]?)\s?([$£€¥]?)\s?([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:e[-+]?\d{1,4})?)\s?([$£€¥%]?)", re.ASCII
)
_LETTER = re.compile(r"\(?([A-Za-z])\)?\.?")
_CLOSE = 0.98
_NEAR = Decimal("0.01")
_MANY = 3
"""Significant digits of an expected decimal to which a longer answer is rounded: 3.1416 is 3.14, 2.48 is not 2.5."""


class Number(NamedTuple):
    """A number with what stands beside it."""

    value: Decimal
    sign: str
    """A currency or percent sign, or ""."""
    unit: str
    decimals: int
    """Digits behind the point; -1 for a whole number, or one with an exponent."""


class Reading:
    """An answer, which computes each of its forms on demand.

    Args:
        text: The answer.
    """

    def __init__(self, text: str) -> None:
        text = without_emphasis(unicodedata.normalize("NFKC", text).strip()).replace("\\%", "%").replace("\\$", "$")
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        self.text = text
        text = text.lower()
        self.plain = text.rstrip(".!?") or text

    @cached_property
    def letter(self) -> str | None:
        """The letter of a choice, if the answer is one and nothing else."""
        match = _LETTER.fullmatch(self.text)
        return match and match[1].upper()

    @cached_property
    def joined_digits(self) -> str:
        """Without commas between thousands."""
        return _THOUSANDS.sub(lambda number: number[0].replace(",", ""), self.plain)

    @cached_property
    def unwrapped(self) -> str:
        r"""Without `\\text{}` and the like, and without marks of mathematics."""
        return " ".join(_MATH_MARKS.sub("", without_fonts(self.plain)).split())

    @cached_property
    def listed(self) -> str:
        """Without what stands between the items of a list."""
        return _listed(self.plain)

    @cached_property
    def postal(self) -> str:
        """That form with the states of the USA as postal codes."""
        return _listed(_STATES.sub(lambda match: POSTAL_CODES[match[0]], self.plain))

    @cached_property
    def symbols(self) -> tuple[str, str]:
        """`unwrapped` with ASCII for symbols and without units, and the unit."""
        return _without_units(self.unwrapped)

    @cached_property
    def number(self) -> Number | None:
        """The number, if the answer is one but for a currency, a percent sign and a unit."""
        text, unit = _without_units(" ".join(without_fonts(self.plain).strip("\\()[] ").split()))
        match = _NUMBER.fullmatch(text)
        if match is None or (match[2] and match[4]) or not any(map(str.isdigit, match[3])):
            return None
        digits = match[1] + match[3] if match[1] else match[3]
        try:
            value = Decimal(digits.replace(",", ""))
        except ArithmeticError:  # two signs, nothing before the exponent
            return None
        point = digits.find(".")
        is_whole = point < 0 or "e" in digits or value == value.to_integral_value()
        return Number(value, match[2] or match[4], unit, -1 if is_whole else len(digits) - point - 1)


def similarity(answer: Reading, expected: Reading) -> float:
    """1.0 for the same answer in one of the forms, 0.98 for a decimal with fewer digits, else 0.0.

    >>> similarity(Reading("1,000."), Reading("1000")), similarity(Reading("3.14"), Reading("3.1416"))
    (1.0, 0.98)
    """
    if answer.plain == expected.plain:
        return 1.0
    if answer.number is not None and expected.number is not None:
        return _same_number(answer.number, expected.number)
    if expected.letter is not None and read_choice(answer.text, ANY_LETTER, texts=False) == expected.letter:
        return 1.0
    blank = ""  # what is equal and yet no answer
    is_same = (
        answer.joined_digits == expected.joined_digits
        or (answer.unwrapped == expected.unwrapped != blank)
        or (answer.listed == expected.listed != blank)
        or (answer.postal == expected.postal != blank)
        or (answer.symbols[0] == expected.symbols[0] != blank and _same_unit(answer.symbols[1], expected.symbols[1]))
    )
    return float(is_same)


def _same_number(answer: Number, expected: Number) -> float:
    """Whole numbers, currencies and percentages are equal or not; a decimal may be rounded to fewer digits."""
    if not (_same_sign(answer.sign, expected.sign) and _same_unit(answer.unit, expected.unit)):
        return 0.0
    if answer.value == expected.value:
        return 1.0
    digits = min(answer.decimals, expected.decimals)
    if answer.sign or expected.sign or digits < 1 or answer.decimals == expected.decimals:
        return 0.0
    if expected.decimals == digits and len(expected.value.as_tuple().digits) < _MANY:
        return 0.0
    error = abs(answer.value - expected.value)
    return _CLOSE if error * 2 <= Decimal(10) ** -digits and error <= _NEAR * abs(expected.value) else 0.0


def _listed(text: str) -> str:
    return " ".join(_JOINERS.sub(" ", text).split())


def _without_units(text: str) -> tuple[str, str]:
    text = text.translate(_SYMBOLS)
    unit = " ".join(found.strip().replace("^", "") for found in _UNIT.findall(text))
    return " ".join(_UNIT.sub("", text).split()), unit


def _same_sign(one: str, other: str) -> bool:
    """A currency may be left out; a percent sign may not."""
    return one == other or ("" in (one, other) and "%" not in (one, other))


def _same_unit(one: str, other: str) -> bool:
    return not one or not other or one == other
