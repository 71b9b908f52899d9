r"""NeMo Gym's own comparison of two answers, for `conform="nemo"`. All forms take linear time.

Source of the rules: `resources_servers/string_match` of https://github.com/NVIDIA-NeMo/Gym. `and`, `or` and units are
also removed within words. All units are equal, infinity is a number, and `1,234,567` loses only its first comma.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import cached_property

from gym_llm.envs.string_match.states import POSTAL_CODES

_WRAPPERS = "boxed|text|textbf|textit|texttt|mathrm|mathbf|mathit|mathsf|mathbb|mathcal|emph|url"
_RAW_BRACES = re.compile(rf"(?:\\(?:{_WRAPPERS}))?\{{|\}}")
_MATH_MARKS = re.compile(r"\\[()\[\]]|\$")
_EVERY_OTHER_COMMA = re.compile(r"(\d),(\d+)")
_JOINERS_ANYWHERE = re.compile(r"[,;]|and|or")
_STATES_ANYWHERE = re.compile("|".join(sorted(POSTAL_CODES, key=len, reverse=True)))
_SYMBOLS = str.maketrans(
    {"°": "^\\circ", "²": "^2", "³": "^3", "√": "\\sqrt", "π": "\\pi", "：": ":", "﹣": "-", "﹢": "+",
     "﹦": "=", "﹤": "<", "﹥": ">"}
    | {power: f"^{digit}" for digit, power in enumerate("⁴⁵⁶⁷⁸⁹", 4)}
)  # fmt: skip
_CURRENCY = str.maketrans("", "", "$£€%,")
_UNIT_ANYWHERE = re.compile(r"\^\{?\\circ\}?|\\circ|cm|mm|km|m|kg")
_CLOSE = 0.98


class NemoReading:
    """An answer, which computes each of its forms on demand.

    Args:
        text: The answer.
    """

    def __init__(self, text: str) -> None:
        text = unicodedata.normalize("NFKC", text)
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        text = text.lower()
        self.plain = text.rstrip(".!?") or text

    @cached_property
    def number(self) -> str:
        """The text of a float, if the answer is a number apart from percent and dollar signs."""
        value = _float(self.plain.replace("\\%", "").replace("\\$", "").replace("$", ""))
        return self.plain if value is None else str(value)

    @cached_property
    def joined_digits(self) -> str:
        """Without every other comma in numbers."""
        return _EVERY_OTHER_COMMA.sub(r"\1\2", self.plain).replace("\\%", "%")

    @cached_property
    def unwrapped(self) -> str:
        r"""Without `\\text{}` and the like, and without marks of mathematics."""
        return " ".join(_MATH_MARKS.sub("", _without_wrappers(self.plain)).split())

    @cached_property
    def listed(self) -> str:
        """Without what stands between the items of a list."""
        return _listed(self.plain)

    @cached_property
    def postal(self) -> str:
        """That form with the states of the USA as postal codes, in capitals, so that Oregon's stays."""
        text = _STATES_ANYWHERE.sub(lambda match: POSTAL_CODES[match[0]].upper(), self.plain)
        return _listed(text).lower()

    @cached_property
    def measure(self) -> float | None:
        """A number, if it is one but for currencies and a unit."""
        return _float(_without_units(self.plain.translate(_CURRENCY)))

    @cached_property
    def symbols(self) -> str:
        """`unwrapped` with ASCII for symbols and without units."""
        return _without_units(self.unwrapped)

    @cached_property
    def unwrapped_measure(self) -> float | None:
        """`measure` of `unwrapped`."""
        return _float(_without_units(self.unwrapped.translate(_CURRENCY)))


def nemo_similarity(answer: NemoReading, expected: NemoReading) -> float:
    """1.0 for the same answer in one of the forms, 0.98 for nearly the same number, else 0.0.

    >>> nemo_similarity(NemoReading("10 m"), NemoReading("10 kg"))
    0.98
    """
    if (
        answer.plain == expected.plain
        or answer.number == expected.number
        or answer.joined_digits == expected.joined_digits
        or answer.unwrapped == expected.unwrapped
        or answer.listed == expected.listed
        or answer.postal == expected.postal
    ):
        return 1.0
    if _near(answer.measure, expected.measure):
        return _CLOSE
    if answer.symbols == expected.symbols:
        return 1.0
    return _CLOSE if _near(answer.unwrapped_measure, expected.unwrapped_measure) else 0.0


def _listed(text: str) -> str:
    spaced = _JOINERS_ANYWHERE.sub(" ", text)
    return text if len(spaced) < 0.9 * len(text) else " ".join(spaced.split())


def _without_units(text: str) -> str:
    return _UNIT_ANYWHERE.sub("", text.translate(_SYMBOLS)).strip()


def _near(answer: float | None, expected: float | None) -> bool:
    if answer is None or expected is None or not (math.isfinite(answer) and math.isfinite(expected)):
        return False
    error = abs(answer - expected) / max(abs(expected), 1e-9)
    return max(0.0, 1 - error) ** 2 > _CLOSE


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _without_wrappers(text: str) -> str:
    r"""Without `\text{` and the like, also where they are not closed, and without their closing braces."""
    if "{" not in text:
        return text
    dropped: list[tuple[int, int]] = []
    opened: list[tuple[int, int] | None] = []
    for match in _RAW_BRACES.finditer(text):
        if match[0] != "}":
            opened.append(match.span() if len(match[0]) > 1 else None)
        elif opened and (wrapper := opened.pop()) is not None:
            dropped += [wrapper, match.span()]
    dropped += filter(None, opened)
    kept, position = [], 0
    for start, end in sorted(dropped):
        kept.append(text[position:start])
        position = end
    return "".join(kept) + text[position:]
