r"""The one rule for all readers of verdicts: what is read must be the judge's last word.

A judge changes its mind, and may write the new verdict in a form that no reader knows. The verdict before it is not its
last word then. So a reader finds the last verdict that it can read, and calls `is_last_word`. If anything behind that
verdict looks like another one, the judge's text is unreadable, and the episode is masked.

All readers see the text as `plain` shows it. The time is linear in the length of the text.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable

AFTER_NOUN = (
    r"[*_`\"'”’)\]]{0,6}\s{0,3}(?:\([^()\n]{0,30}\)\s{0,2})?[*_`]{0,3}"
    r"(?:[:=>|→⇒]{1,3}|[-=]>|\s-\s|\s?[–—]\s?|(?:\s{1,2}|(?<=\s))(?:is|was|remains|becomes|changes\sto|(?:must|should|would)\s(?:be|have\sbeen))\b"
    r"(?:\s(?:now|therefore|thus))?\s?:?)"
)
"""What stands between "Grade" and its value: a colon, a table's cell, a tag's end, "is"."""
BEFORE_VALUE = (
    r"(?:[\s*_`\"'“”‘’(\[{|$:\\]{0,12}(?:\\(?:boxed|text\w{0,2}|math\w{2})\s?\{){0,2}"
    r"[*_`\"'“(\[{]{0,4})"
)
"""What stands between that and the value: bold, quotes, brackets, a sign, LaTeX."""
ADJECTIVES = r"(?i:(?:my|the|final|new|revised|corrected|updated|overall|last)[\s_]){0,3}"
_VERDICT_NOUN = (
    r"verdict|grade|grading|judge?ment|(?:final|my|new)\s(?:decision|answer|conclusion|label|result)|decision"
)
_SCORE_NOUN = r"score|rating|(?:final|total|my|new)\s(?:points|mark|grade|result)|points"
_SHORT = r"[*_`\"'“(\[]{0,4}[\w-]{1,20}(?:\s[\w-]{1,20})?[*_`\"'”)\]]{0,4}(?=\s*(?:[.!;,\n]|\Z))"
_RETRACTED = re.compile(
    r"(?:^|[.!?:;…—–-]\s{1,2}|\b(?:but|oh|hmm|no),?\s)[\s*_(]{0,4}"
    r"(?:(?:no,?\s)?wait\b|hmm\b|hold\son\b|scratch\sthat|never\s?mind|correction\b\s?:|actually,|sorry,|oops"
    r"|(?:on|upon)\s(?:reflection|second\sthoughts?|closer)|I\s(?:retract|withdraw|revise|take\s(?:it|that|this)\sback"
    r"|change\s(?:it|this|my)|was\s(?:wrong|mistaken)|made\s(?:a|an)\s(?:mistake|error)|misread)\b"
    r"|I\s(?:need|have|must)\s(?:to\s)?(?:change|revise|correct)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_UNSEEN = frozenset((0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10)))
"""Fillers and variation selectors, which are letters and marks to Unicode."""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_FOLDED = ("Lu", "Ll", "Nd", "Sm", "So", "Po", "Ps", "Pe", "Pd", "Pc")
_MOST_KEPT = 20_000


class _Plain(dict[int, str]):
    def __missing__(self, code: int) -> str:
        character = shown = chr(code)
        category = unicodedata.category(character)
        if category == "Cf" or code in _UNSEEN:
            shown = ""
        elif category == "Zs":
            shown = " "
        elif category in ("So", "Sm") and "ARROW" in unicodedata.name(character, ""):
            shown = "→"
        elif category in _FOLDED and (folded := unicodedata.normalize("NFKC", character)).isascii():
            shown = folded
        elif category == "So":  # a tick, a face
            shown = " "
        if len(self) < _MOST_KEPT:
            self[code] = shown
        return shown


_PLAIN = _Plain()


def plain(text: str) -> str:
    r"""Return a text without invisible characters, and with full-width letters and the like as ASCII.

    >>> plain("Ｇrade\u200b:\u00a0𝐀")
    'Grade: A'
    """
    if not text.isascii():
        text = text.translate(_PLAIN)
    return _CONTROL.sub("", text) if _CONTROL.search(text) else text


@functools.lru_cache
def noun_of(marker: str) -> str:
    r"""Return the pattern of a marker's words, however they are spelt and separated.

    >>> bool(re.fullmatch(noun_of("Final judgement:"), "final_JUDGMENT"))
    True
    """
    words = "[\\s_-]{1,3}".join(map(re.escape, re.findall(r"[^\W_]+", marker)))
    return rf"(?i:{re.sub('(?i)judge?ment', 'judge?ment', words)})"


@functools.lru_cache
def form_of(nouns: str) -> re.Pattern[str]:
    """Return what looks like a verdict under one of these nouns: a colon behind it, or a heading of it."""
    noun = rf"(?<![^\W_])(?<!/)(?:{nouns})s?(?![^\W_]|['’-])"
    colon = r"[*_`\"'”’)\]]{0,6}\s{0,3}(?:\([^()\n]{0,30}\)\s{0,2})?[*_`]{0,3}(?:[:=|>→⇒]|[-=]>|\s-\s|[–—])"
    headed = rf"(?:(?<=\n)|\A)[#*\s]{{1,6}}{noun}[*\s:]{{0,6}}\n\s{{0,4}}\S"
    return re.compile(rf"{noun}{colon}|{headed}", re.IGNORECASE)


_IS = r"\s{1,2}(?:is|was|remains|becomes|(?:must|should)\sbe)\s(?:now\s)?"
_SAID = rf"\b(?:verdict|grade|judge?ment|decision){_IS}{_SHORT}"
VERDICTS = re.compile(f"{form_of(_VERDICT_NOUN).pattern}|{_SAID}", re.IGNORECASE)
SCORES = form_of(_SCORE_NOUN)


def is_last_word(text: str, end: int, *forms: re.Pattern[str] | Callable[[str, int], object]) -> bool:
    """Whether nothing behind a place looks like a verdict.

    Args:
        text: The judge's text.
        end: The place behind the last verdict that was read.
        *forms: What looks like a verdict; patterns, or functions that search in the text from a place.

    >>> is_last_word("Grade: B. It fits.", 8, VERDICTS), is_last_word("Grade: B. My verdict: fine", 8, VERDICTS)
    (True, False)
    """
    searches = [each.search if isinstance(each, re.Pattern) else each for each in forms]
    return _RETRACTED.search(text, end) is None and not any(search(text, end) for search in searches)
