r"""Reading numbers with units, percent, currencies and separators: `1\,234\,567`, `20\%`, `\$25,000/year`, `−½`.

Everything here is plain Python, exact, and bounded in time.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

from gym_llm.grading.units import have_same_unit, parse_unit

_LONGEST = 400
_LARGEST_EXPONENT = 400
_PLACES = Fraction(5, 10**7)
_RELATIVE, _LEAST_RELATIVE = Fraction(1, 10**6), Fraction(1, 10**5)
_FLOAT_NOISE = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as it is written.

    Attributes:
        value: The number, without the factor that its unit stands for.
        unit: The unit in its usual symbol ("m/s", "%", "$", "apples"), or "".
        scale: The factor of the unit: 1/100 for a percentage, 12 for a dozen, a million for "million".
        step: The value of the last decimal place that is written; None for whole numbers and fractions.
    """

    value: Fraction
    unit: str = ""
    scale: Fraction = Fraction(1)
    step: Fraction | None = None

    def answers(self, expected: Quantity) -> bool:
        """Whether an answer is this expected quantity.

        The units may differ only where one is missing or unknown. A percentage or "million" on one side counts
        by its number and by its value. A decimal equals a number that it rounds to six digits, never to fewer than are
        expected; whole numbers and fractions are equal exactly.
        """
        if not have_same_unit(expected.unit, self.unit):
            return False
        factors = {self.scale / expected.scale} | ({Fraction(1)} if 1 in (self.scale, expected.scale) else set())
        return any(self._is_close_to(expected, factor) for factor in factors)

    def is_same(self, other: Quantity | None) -> bool:
        """Whether another quantity has exactly the same value, and the same unit."""
        return other is not None and (self.value * self.scale, self.unit) == (other.value * other.scale, other.unit)

    def _is_close_to(self, expected: Quantity, factor: Fraction) -> bool:
        difference = abs(expected.value - self.value * factor)
        if not difference:
            return True
        size = abs(expected.value)
        if expected.step is not None:
            has_six_digits = expected.step <= size * _LEAST_RELATIVE
            return difference <= (expected.step / 2 if has_six_digits else min(expected.step / 2, _tolerance(size)))
        if self.step is None or (self.step >= 1 and expected.value.denominator == 1):
            return False
        places = min(self.step * factor / 2, _tolerance(size)) if expected.value.denominator > 1 else 0
        return difference <= max(places, size * _FLOAT_NOISE)


def _tolerance(size: Fraction) -> Fraction:
    """Six significant digits, or six decimal places where those are at least five significant digits."""
    return max(size * _RELATIVE, min(_PLACES, size * _LEAST_RELATIVE))


_DIGITS = r"(?:\d{1,3}(?:(?P<mark>[, '])\d{3})(?:(?P=mark)\d{3})*|\d{1,3}(?:\.\d{3}){2,}(?![.\d])|\d+)"
_CURRENCY = r"(?:(?:US|A|C) ?)?[$€£¥₹]|Rs\.?|USD|EUR|GBP"
_NUMBER = re.compile(
    rf"(?P<sign>[-+]?)\s*(?P<before>{_CURRENCY})?\s*(?P<sign2>[-+]?)\s*(?:"
    r"(?P<whole>\d+(?: ?(?=\\)| (?=\d+ ?/)))?"
    r"(?:\\frac\s*(?:\{\s*(?P<above>-?\d+)\s*\}|(?P<above1>\d))\s*(?:\{\s*(?P<below>\d+)\s*\}|(?P<below1>\d))"
    r"|(?P<above2>\d+) ?/ ?(?P<below2>\d+)(?![\d.,]))"
    rf"|(?P<integer>{_DIGITS})?(?:\.(?P<decimals>\d*)"
    r"(?:\\overline\s*\{(?P<repeat>\d+)\}|\\dot\s*\{?(?P<dot>\d)\}?(?:(?P<dots>\d*)\\dot\s*\{?(?P<dot2>\d)\}?)?)?)?"
    r"(?:\s*(?:\\times|\\cdot|[×·*x])\s*10\s*\^\s*(?:\{\s*([-+]?\d+)\s*\}|([-+]?\d+))|[eE]([-+]?\d+))?"
    r"(?:_\{?(?P<base>\d+)\}?)?)(?![.\d])"
)
_FONT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|normal)?|mathrm|mathbf|mathit|mathsf|mbox|boldsymbol|bm|underline)\s*\{((?:[^{}]|\^\{-?\d\})*)\}"
)
DECORATION = (
    r"\\(?:text)?color\s*\{\w*\}|\\tag\*?\{[^{}]*\}"
    r"|\\(?:checkmark|bf|rm|it|[lL]arge|LARGE|[hH]uge|small|tiny|normalsize)(?![a-zA-Z])"
)
"""LaTeX that changes how an answer looks, and not what it says."""
_SPACES = re.compile(r"(?<!\\)\\[,;:! ]|\\q?quad|\\thinspace|[~\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_NOTHING = re.compile(
    r"\\!|\\(?:left|right|displaystyle)(?![a-zA-Z])|[\u200b-\u200f\u2060\ufeff]|\\phantom\{[^{}]*\}|" + DECORATION
)
_COMMA = re.compile(r"\{\s*,\s*\}|(?<=\d)\\,(?=\d{3})")
_DEGREE = re.compile(r"\s*\^\s*\{?\s*\\circ\s*\}?|\\degree|°")
_MICRO = re.compile(r"\\mu\s*(?=m\b)")
_WRAPPED = re.compile(
    r"\\?\((.*)\\?\)|\$(.*)\$|\*\*(.*)\*\*|__(.*)__|[\"'`](.*)[\"'`]|\{(.*)\}|\\?\[(.*)\\?\]|\*(.*)\*", re.DOTALL
)
_ORDINAL = re.compile(r"(?<=\d)\s*\^?\s*\{?\s*(?:st|nd|rd|th)\s*\}?$")
_ABOUT = re.compile(
    r"(?:(?:the )?(?:final )?answer(?: is|(?=\s*[:=]))\s*[:=]?|\\approx|\\sim|≈"
    r"|approximately|approx\.|about|exactly|only|a total of|=)\s*",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"\A(?:negative|minus) +(?=\w)", re.IGNORECASE)
_SIGNS = dict(zip("−–﹣－＋．，％٪＄٫٬⁄’", "----+.,%%$.,/'", strict=True)) | {"℃": "°C", "℉": "°F"}
_ENDLESS = re.compile(r"(?<=\d)\s*(?:\\[lc]?dots|\.{3}|…)")
_PERIOD = re.compile(r"(\.\d*?)(\d{1,6})\2{2,}\Z")
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
_SMALL, _TENS = _WORDS.split()[:20], _WORDS.split()[20:]
NUMBER_WORDS = {word: number for number, word in enumerate(_SMALL)} | {
    f"{tens}{between}{ones}": 10 * number + _SMALL.index(ones or "zero")
    for number, tens in enumerate(_TENS, 2)
    for ones in ("", *_SMALL[1:10])
    for between in (("-", " ") if ones else ("",))
}
"""Number words below a hundred."""

_POWERS = {ord(power): str(digit) for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {ord("⁻"): "-", ord("ⁿ"): "n"}
_POWER = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ]+")


def plain_symbols(text: str) -> str:
    r"""Return a text with ASCII digits, signs and fractions for those of other scripts and of typography.

    >>> plain_symbols("−７３"), plain_symbols("١٢٫٥"), plain_symbols("2½"), plain_symbols("２０％")
    ('-73', '12.5', '2\\frac{1}{2}', '20%')
    """
    if text.isascii():
        return text
    text = _POWER.sub(lambda match: f"^{{{match[0].translate(_POWERS)}}}", text)
    return "".join(character if character.isascii() else _plain_symbol(character) for character in text)


def _plain_symbol(character: str) -> str:
    if (sign := _SIGNS.get(character)) is not None:
        return sign
    if (digit := unicodedata.decimal(character, None)) is not None:
        return str(digit)
    parts = unicodedata.normalize("NFKC", character) if unicodedata.category(character) == "No" else ""
    above, slash, below = parts.partition("⁄")
    return f"\\frac{{{above}}}{{{below}}}" if slash and above and below else character


def read_quantity(text: str) -> Quantity | None:
    r"""Read a text that is one number, perhaps with a unit, a percent sign or a currency; None for every other text.

    Nothing is left out: "7 if n is odd", "12 and 13" and "3 or so" are not quantities, and neither is 3.5.0.

    Args:
        text: Plain text or LaTeX, with or without delimiters, Markdown and a full stop around it.

    >>> read_quantity(r"1\,234\,567").value, read_quantity(r"\$25,000/year"), read_quantity("7 if n is odd")
    (Fraction(1234567, 1), Quantity(value=Fraction(25000, 1), unit='$/yr', scale=Fraction(1, 1), step=None), None)
    >>> read_quantity(r"12.5\,\text{m/s}").unit, read_quantity("−½"), read_quantity("20 percent").scale
    ('m/s', Quantity(value=Fraction(-1, 2), unit='', scale=Fraction(1, 1), step=None), Fraction(1, 100))
    """
    if len(text) > _LONGEST:
        return None
    if text.isascii() and text.isdigit():
        return Quantity(Fraction(int(text)))
    text = _without_layout(text)
    if (named := NUMBER_WORDS.get(text.lower().removeprefix("-"))) is not None:
        return Quantity(Fraction(-named if text[0] == "-" else named))
    if (endless := _ENDLESS.search(text)) is not None:
        text = _PERIOD.sub(r"\1\\overline{\2}", text[: endless.start()]) + text[endless.end() :]
        if "overline" not in text:
            return None
    match = _NUMBER.match(text)
    if match is None or (value := _value(match)) is None or (match["sign"] and match["sign2"]):
        return None
    unit = parse_unit(text, match.end(), match["before"] or "")
    if unit is None:
        return None
    number, step = value
    sign = -1 if "-" in match["sign"] + match["sign2"] else 1
    return Quantity(sign * number, f"base {match['base']}" if match["base"] else unit[0], unit[1], step)


def _without_layout(text: str) -> str:
    text = plain_symbols(text)
    if "\\" in text or "{" in text or not text.isascii():
        text = _COMMA.sub(",", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
        text = text.replace("\\pounds", "£").replace("\\euro", "€").replace("\\Omega", "Ω")
        text = _SPACES.sub(" ", _NOTHING.sub("", text)).replace("\\%", "%").replace("\\$", "$")
        text = _MICRO.sub("μ", _DEGREE.sub(" °", _FONT.sub(r" \1 ", _FONT.sub(r" \1 ", text))))
    for _ in range(4):
        text = text.strip().rstrip("\\").rstrip()
        if text[:1] == "\\" and text[:2] in ("\\(", "\\["):
            text = text.removeprefix(text[:2]).removesuffix("\\)").removesuffix("\\]")
        elif match := _WRAPPED.fullmatch(text):
            text = match[match.lastindex or 0]
        else:
            break
    if match := _ABOUT.match(text):
        text = text[match.end() :]
    return _ORDINAL.sub("", _NEGATIVE.sub("-", text.strip()))


def _value(match: re.Match[str]) -> tuple[Fraction, Fraction | None] | None:
    """The number of a match without its sign, and the step of its last decimal place."""
    if (below := match["below"] or match["below1"] or match["below2"]) is not None:
        above = int(match["above"] or match["above1"] or match["above2"])
        if not int(below) or (match["whole"] and above < 0):
            return None
        return int(match["whole"] or 0) + Fraction(above, int(below)), None
    decimals, integer = match["decimals"] or "", re.sub(r"\D", "", match["integer"] or "")
    if not integer and not decimals and not match["repeat"] and not match["dot"]:
        return None
    number = Fraction(int(integer + decimals or "0"), 10 ** len(decimals))
    step = Fraction(1, 10 ** len(decimals)) if decimals else None
    period = match["repeat"] or (match["dot"] or "") + (match["dots"] or "") + (match["dot2"] or "")
    if period:
        number, step = number + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(decimals)), None
    exponent = int(next((group for group in match.groups()[-4:-1] if group), "0"))
    if abs(exponent) > _LARGEST_EXPONENT:
        return None
    factor = Fraction(10) ** exponent
    return number * factor, None if step is None else step * factor


def read_unit(text: str) -> tuple[str, Fraction] | None:
    r"""Read a unit that stands alone, in plain text or LaTeX, and its factor; None for other words.

    >>> read_unit(r"\text{ miles per hour}"), read_unit(r"\%"), read_unit("if")
    (('mi/h', Fraction(1, 1)), ('%', Fraction(1, 100)), None)
    """
    text = "" if len(text) > _LONGEST else _without_layout(text)
    return parse_unit(f" {text}") if text.strip(" .") else None
