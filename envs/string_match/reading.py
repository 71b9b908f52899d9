r"""The forms in which `string_match` compares two answers, from strict to generous.

Source of the rules: `resources_servers/string_match` of https://github.com/NVIDIA-NeMo/Gym. All forms take linear time.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import cached_property

from gym_llm.envs.string_match.states import POSTAL_CODES

_WRAPPERS = "boxed|text|textbf|textit|texttt|mathrm|mathbf|mathit|mathsf|mathbb|mathcal|emph|url"
_BRACES = re.compile(rf"\\(?:{_WRAPPERS})\s*\{{|\\.|[{{}}]", re.DOTALL)
_RAW_BRACES = re.compile(rf"(?:\\(?:{_WRAPPERS}))?\{{|\}}")
_MATH_MARKS = re.compile(r"\\[()\[\]]|\$")
_DIGIT_COMMA = re.compile(r"(?<=\d),(?=\d)")
_EVERY_OTHER_COMMA = re.compile(r"(\d),(\d+)")
_JOINERS = re.compile(r"[,;]|\b(?:and|or)\b")
_COMMAS = re.compile(r"[,;]|\band\b")  # where "or" may be Oregon
_JOINERS_ANYWHERE = re.compile(r"[,;]|and|or")
_STATES_ANYWHERE = re.compile("|".join(sorted(POSTAL_CODES, key=len, reverse=True)))
_STATES = re.compile(rf"\b(?:{_STATES_ANYWHERE.pattern})\b")
_SYMBOLS = str.maketrans(
    {"°": "^\\circ", "²": "^2", "³": "^3", "√": "\\sqrt", "π": "\\pi", "−": "-", "：": ":", "﹣": "-", "﹢": "+",
     "﹦": "=", "﹤": "<", "﹥": ">"}
    | {power: f"^{digit}" for digit, power in enumerate("⁴⁵⁶⁷⁸⁹", 4)}
)  # fmt: skip
_SYMBOLS_OF_NEMO_GYM = {sign: ascii for sign, ascii in _SYMBOLS.items() if sign != ord("−")}
_CURRENCY = str.maketrans("", "", "$£€%,")
_UNIT = re.compile(r"\^\{?\\circ\}?|(?<=\d)\s*(?:[ck]?m(?:\^?2)?|mm|kg)(?=[\s.,;)]|$)")
_UNIT_ANYWHERE = re.compile(r"\^\{?\\circ\}?|\\circ|cm|mm|km|m|kg")
_CLOSE = 0.98


class Reading:
    """An answer, which computes each of its forms on demand.

    Args:
        text: The answer.
        nemo: Whether to read it as NeMo Gym does. For example, `and`, `or` and units are also removed within words. All
            units are equal, infinity is a number, and `1,234,567` loses only its first comma.
    """

    def __init__(self, text: str, nemo: bool = False) -> None:
        self.nemo = nemo
        text = unicodedata.normalize("NFKC", text)
        text = text if nemo else text.strip()
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        text = text.lower()
        self.plain = text.rstrip(".!?") or text

    @cached_property
    def number(self) -> str:
        """The text of a float, if the answer is a number apart from percent and dollar signs."""
        value = _float(self.plain.replace("\\%", "").replace("\\$", "").replace("$", ""))
        return self.plain if value is None or not (self.nemo or math.isfinite(value)) else str(value)

    @cached_property
    def joined_digits(self) -> str:
        """Without commas in numbers."""
        joined = _EVERY_OTHER_COMMA.sub(r"\1\2", self.plain) if self.nemo else _DIGIT_COMMA.sub("", self.plain)
        return joined.replace("\\%", "%")

    @cached_property
    def unwrapped(self) -> str:
        r"""Without `\\text{}` and the like, and without marks of mathematics."""
        return " ".join(_MATH_MARKS.sub("", _without_wrappers(self.plain, self.nemo)).split())

    @cached_property
    def listed(self) -> str:
        """Without what stands between the items of a list."""
        return self._listed(self.plain, _JOINERS)

    @cached_property
    def postal(self) -> str:
        """That form with the states of the USA as postal codes."""
        if self.nemo:  # in capitals, so that Oregon is no "or"
            text = _STATES_ANYWHERE.sub(lambda match: POSTAL_CODES[match[0]].upper(), self.plain)
            return self._listed(text, _COMMAS).lower()
        return self._listed(_STATES.sub(lambda match: POSTAL_CODES[match[0]], self.plain), _COMMAS)

    @cached_property
    def measure(self) -> tuple[float | None, str]:
        """A number, if it is one but for currencies and a unit, and the unit."""
        return self._measure(self.plain)

    @cached_property
    def symbols(self) -> tuple[str, str]:
        """`unwrapped` with ASCII for symbols and without units, and the unit."""
        return self._without_units(self.unwrapped)

    @cached_property
    def unwrapped_measure(self) -> tuple[float | None, str]:
        """`measure` of `unwrapped`."""
        return self._measure(self.unwrapped)

    def _listed(self, text: str, joiners: re.Pattern[str]) -> str:
        spaced = (_JOINERS_ANYWHERE if self.nemo else joiners).sub(" ", text)
        if self.nemo and len(spaced) < 0.9 * len(text):
            return text
        return " ".join(spaced.split())

    def _without_units(self, text: str) -> tuple[str, str]:
        if self.nemo:
            return _UNIT_ANYWHERE.sub("", text.translate(_SYMBOLS_OF_NEMO_GYM)).strip(), ""
        text = text.translate(_SYMBOLS)
        unit = " ".join(found.strip().replace("^", "") for found in _UNIT.findall(text))
        return " ".join(_UNIT.sub("", text).split()), unit

    def _measure(self, text: str) -> tuple[float | None, str]:
        text, unit = self._without_units(text.translate(_CURRENCY))
        return _float(text), unit


def similarity(answer: Reading, expected: Reading) -> float:
    """1.0 for the same answer in one of the forms, 0.98 for nearly the same number, else 0.0.

    >>> similarity(Reading("1,000."), Reading("1000")), similarity(Reading("3.14"), Reading("3.1416"))
    (1.0, 0.98)
    """
    blank = None if expected.nemo else ""  # what is equal and yet no answer
    if (
        answer.plain == expected.plain
        or answer.number == expected.number
        or answer.joined_digits == expected.joined_digits
        or (answer.unwrapped == expected.unwrapped != blank)
        or (answer.listed == expected.listed != blank)
        or (answer.postal == expected.postal != blank)
    ):
        return 1.0
    if _near(answer.measure, expected.measure):
        return _CLOSE
    if answer.symbols[0] == expected.symbols[0] != blank and _same_unit(answer.symbols[1], expected.symbols[1]):
        return 1.0
    return _CLOSE if _near(answer.unwrapped_measure, expected.unwrapped_measure) else 0.0


def _near(answer: tuple[float | None, str], expected: tuple[float | None, str]) -> bool:
    if answer[0] is None or expected[0] is None or not _same_unit(answer[1], expected[1]):
        return False
    if not (math.isfinite(answer[0]) and math.isfinite(expected[0])):
        return False
    error = abs(answer[0] - expected[0]) / max(abs(expected[0]), 1e-9)
    return max(0.0, 1 - error) ** 2 > _CLOSE


def _same_unit(one: str, other: str) -> bool:
    return not one or not other or one == other


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _without_wrappers(text: str, nemo: bool = False) -> str:
    r"""Without `\text{` and the like where they are closed, and without their closing braces.

    NeMo Gym takes out also those that are not closed, and looks at no escapes.
    """
    if "{" not in text:
        return text
    dropped: list[tuple[int, int]] = []
    opened: list[tuple[int, int] | None] = []
    for match in (_RAW_BRACES if nemo else _BRACES).finditer(text):
        brace = match[0]
        if brace == "}":
            if opened and (wrapper := opened.pop()) is not None:
                dropped += [wrapper, match.span()]
        elif brace[-1] == "{" and brace != "\\{":
            opened.append(match.span() if len(brace) > 1 else None)
    if nemo:
        dropped += filter(None, opened)
    kept, position = [], 0
    for start, end in sorted(dropped):
        kept.append(text[position:start])
        position = end
    return "".join(kept) + text[position:]
