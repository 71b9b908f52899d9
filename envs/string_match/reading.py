r"""The forms in which `string_match` compares two answers, from strict to generous. All take linear time."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from functools import cached_property

from gym_llm.envs.string_match.states import POSTAL_CODES
from gym_llm.grading.choices import ANY_LETTER, read_choice
from gym_llm.grading.markup import without_emphasis, without_fonts
from gym_llm.grading.quantities import Quantity, read_quantity

_MATH_MARKS = re.compile(r"\\[()\[\]]|\$")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_JOINERS = re.compile(r"[,;]|\band\b")
_STATES = re.compile(rf"\b(?:{'|'.join(sorted(POSTAL_CODES, key=len, reverse=True))})\b")
_SYMBOLS = str.maketrans(
    {"°": "^\\circ", "²": "^2", "³": "^3", "√": "\\sqrt", "π": "\\pi", "−": "-", "：": ":", "﹣": "-", "﹢": "+",
     "﹦": "=", "﹤": "<", "﹥": ">"}
    | {power: f"^{digit}" for digit, power in enumerate("⁴⁵⁶⁷⁸⁹", 4)}
)  # fmt: skip
_QUOTES = str.maketrans("“”„‟«»‘’‚", '""""""\'\'\'')
_TAG = re.compile(r"</?(?:b|i|u|em|strong|code)>")
_UNIT = re.compile(r"\^\{?\\circ\}?|(?<=\d)\s*(?:[ck]?m(?:\^?2)?|mm|kg)(?=[\s.,;)]|$)")
_INEXACT = re.compile(r"\d\s*/\s*\d|frac|^\W*(?:about|approx|\\approx|\\sim)|[≈~]")
_LETTER = re.compile(r"\(?([A-Za-z])\)?\.?")
_CLOSE = 0.98
_NEAR = Fraction(1, 100)
_MANY = 100
"""Least value, in steps of its last place, of an expected decimal to which a longer answer is rounded: 3.1416 is 3.14,
2.48 is not 2.5."""
_EXACT = frozenset("%$€£¥₹")
"""Units whose numbers are not rounded."""


class Reading:
    """An answer, which computes each of its forms on demand.

    Args:
        text: The answer.
    """

    def __init__(self, text: str) -> None:
        text = unicodedata.normalize("NFKC", text).translate(_QUOTES).strip()
        text = without_emphasis(_TAG.sub("", text)).replace("\\%", "%").replace("\\$", "$")
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
    def number(self) -> Quantity | None:
        """The number with its unit, if the answer is one; not a fraction, which may be a date or a score."""
        return None if _INEXACT.search(self.text) else read_quantity(self.text)


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


def _same_number(answer: Quantity, expected: Quantity) -> float:
    """Whole numbers, currencies and percentages are equal or not; a decimal may be rounded to fewer digits."""
    units = answer.unit.rstrip("s"), expected.unit.rstrip("s")
    if ("%" in answer.unit) != ("%" in expected.unit) or (all(units) and not _is_same_unit(*units)):
        return 0.0
    values = answer.value * answer.scale, expected.value * expected.scale
    error = abs(values[0] - values[1])
    if not error:
        return 1.0
    steps = [quantity.step for quantity in (answer, expected) if quantity.step and quantity.value.denominator > 1]
    if len(steps) < 2 or steps[0] == steps[1] or not _EXACT.isdisjoint(answer.unit + expected.unit):
        return 0.0
    if steps[1] > steps[0] and expected.value / steps[1] < _MANY:
        return 0.0
    return _CLOSE if error * 2 <= max(steps) and error <= _NEAR * abs(values[1]) else 0.0


def _is_same_unit(one: str, other: str) -> bool:
    """Whether two units are the same, also where only one says for what: dollars, and dollars a year."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _listed(text: str) -> str:
    return " ".join(_JOINERS.sub(" ", text).split())


def _without_units(text: str) -> tuple[str, str]:
    text = text.translate(_SYMBOLS)
    unit = " ".join(found.strip().replace("^", "") for found in _UNIT.findall(text))
    return " ".join(_UNIT.sub("", text).split()), unit


def _same_unit(one: str, other: str) -> bool:
    return not one or not other or one == other
