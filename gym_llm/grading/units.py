"""Units of measurement behind a number: their usual symbols, the factors they stand for, and which of them agree."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

_UNITS = {
    "%": "% percent percentage pct",
    "deg": "deg degree degrees °",
    "°C": "°c celsius",
    "°F": "°f fahrenheit",
    "$": "$ usd dollar dollars buck bucks",
    "¢": "cent cents ¢",
    "€": "€ eur euro euros",
    "£": "£ gbp pound pounds lb lbs",
    "¥": "¥ yen yuan 元 円",
    "₹": "₹ rs rupee rupees inr",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "m": "m meter meters metre metres",
    "km": "km kilometer kilometers kilometre kilometres",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "mg": "mg milligram milligrams",
    "g": "g gm gram grams",
    "kg": "kg kilogram kilograms",
    "t": "ton tons tonne tonnes",
    "oz": "oz ounce ounces",
    "ml": "ml milliliter milliliters millilitre millilitres",
    "l": "l L liter liters litre litres",
    "gal": "gal gallon gallons",
    "cup": "cup cups",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks wk",
    "month": "month months",
    "yr": "yr year years",
    "acre": "acre acres",
    "am": "am a.m",
    "pm": "pm p.m",
    "N": "N newton newtons",
    "J": "J joule joules",
    "W": "W watt watts",
    "V": "V volt volts",
    "A": "A amp amps ampere amperes",
    "Pa": "pa pascal pascals",
    "Hz": "hz hertz",
    "K": "K kelvin kelvins",
    "mol": "mol mole moles",
    "rad": "rad radian radians",
    "mi/h": "mph",
    "km/h": "kmh kmph kph",
    "mb": "mb megabyte megabytes",
    "gb": "gb gigabyte gigabytes",
    "cm3": "cc",
    "nm": "nm nanometer nanometers nanometre nanometres",
    "μm": "μm µm um micrometer micrometers micron microns",
    "ms": "ms millisecond milliseconds",
    "kPa": "kpa kilopascal kilopascals",
    "MPa": "mpa megapascal megapascals",
    "kJ": "kj kilojoule kilojoules",
    "kW": "kw kilowatt kilowatts",
    "MW": "mw megawatt megawatts",
    "kWh": "kwh",
    "mV": "mv millivolt millivolts",
    "kV": "kv kilovolt kilovolts",
    "mA": "ma milliampere milliamperes",
    "kHz": "khz kilohertz",
    "MHz": "mhz megahertz",
    "cal": "cal calorie calories",
    "kcal": "kcal kilocalorie kilocalories",
    "Ω": "Ω ohm ohms",
    "fl": "fl fluid",
}
_SYMBOLS = {alias: symbol for symbol, aliases in _UNITS.items() for alias in aliases.split()}
_SCALES = {
    **{"%": Fraction(1, 100), "dozen": Fraction(12), "dozens": Fraction(12), "hundred": Fraction(100)},
    **{"thousand": Fraction(10**3)},
    **dict.fromkeys(("million", "millions"), Fraction(10**6)),
    **dict.fromkeys(("billion", "billions"), Fraction(10**9)),
    **{"trillion": Fraction(10**12), "万": Fraction(10**4), "億": Fraction(10**8), "亿": Fraction(10**8)},
}
_OTHER_WORDS = (
    "if and or when where is are not no but to from plus minus through otherwise else for with then than so "
    "because since as mod pi sin cos tan log ln exp sqrt frac max gcd lcm odd even positive negative more less least "
    "most at e i undefined none infinity answer answers"
)
_NOT_UNITS = frozenset(_OTHER_WORDS.split())
_VARIABLES = re.compile(r"^(?:[a-cx-z]{3,4}|[pqrs]{3}|[mnk]{3})$|[\u0370-\u03ff\u2070-\u214f\U0001d400-\U0001d7ff]")
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{1,3}")
_WORDS = re.compile(r"[A-Za-z ]{0,40}")
_MOST_PARTS = 6
_UNIT = re.compile(
    r"\s*(?:(?P<ratio>/|(?:per|an?|each|every)\b)|(?P<product>[*·⋅]|\\cdot)|-)?\s*"
    r"(?:(?P<area>square|sq|cubic|cu)\.?\s+)?(?P<word>°\s*[CF]\b|[^\W\d_]+(?:\.m)?|[%°$€£¥₹¢])\.?"
    r"(?:\s*\^?\s*(?:\{(?P<power>-?[1-3])\}|(?P<digit>[23²³])))?"
)
_POWERS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3", "²": "2", "³": "3"}


def parse_unit(text: str, start: int = 0, before: str = "") -> tuple[str, Fraction] | None:
    """Return the unit from a place to the end of a text, and its factor; None if something else is there.

    Args:
        text: A number and what follows it, without LaTeX commands.
        start: The place behind the number.
        before: A currency that stands before the number.

    >>> parse_unit("5 miles per hour", 1), parse_unit("20%", 2), parse_unit("7 if odd", 1)
    (('mi/h', Fraction(1, 1)), ('%', Fraction(1, 100)), None)
    """
    end = len(text.rstrip(" ."))
    parts = [_currency(before)] if before else []
    scale, is_attached = Fraction(1), not text[start : start + 1].isspace()
    while start < end:
        match = _UNIT.match(text, start)
        symbol = None if match is None or len(parts) > _MOST_PARTS else _symbol(match["word"], is_attached)
        if match is not None and match["word"] == "of" and parts and _WORDS.fullmatch(text, match.end(), end):
            break  # "liters of water"
        if match is None or symbol is None or (match["product"] and not parts):
            return None
        if not parts:
            scale = _SCALES.get(symbol, scale)
        power = match["area"] or match["power"] or match["digit"] or ""
        power = _POWERS.get(power, power)
        joint = "" if not parts else "/" if match["ratio"] or power.startswith("-") else " "
        power = power.lstrip("-").replace("1", "")
        if symbol in ("°C", "°F") and parts == ["deg"]:
            parts, joint = [], ""
        if symbol != "per":
            parts.append(joint + symbol + power)
        start, is_attached = match.end(), False
    return "".join(parts), scale


def _symbol(word: str, is_attached: bool) -> str | None:
    """The symbol of a unit, or the word itself if it may be one; None for others, such as the x of 5x."""
    if len(word) > 1:
        word = re.sub(r"\s", "", word.lower())
    elif is_attached and word.isascii() and word.isalpha():
        return None
    if word in _NOT_UNITS:
        return None
    if word in _SYMBOLS or word in _SCALES:
        return _SYMBOLS.get(word, word)
    if _VARIABLES.search(word) or (is_attached and not _CJK.fullmatch(word)):
        return None
    return word if len(word) >= 3 or not word.isascii() else None


def _currency(sign: str) -> str:
    name = sign.lower().rstrip(".")
    return _SYMBOLS.get(name) or _SYMBOLS.get(name[-1:], name)


def have_same_unit(unit: str, other: str) -> bool:
    """Whether two units may stand for the same: one is missing, or those parts that are known are the same.

    >>> have_same_unit("m/s", "km/h"), have_same_unit("", "km"), have_same_unit("apples", "fruits")
    (False, True, True)
    """
    if not unit or not other or unit == other:
        return True
    if unit.startswith("base") or other.startswith("base"):
        return False
    pairs = list(itertools.zip_longest(*(re.split("[/ ]", each) for each in (unit, other)), fillvalue=""))
    if all(not part or _is_known(part) for pair in pairs for part in pair):
        return False
    return not any(a != b and _is_known(a) and _is_known(b) for a, b in pairs)


def _is_known(part: str) -> bool:
    return part.rstrip("23") in _UNITS
