r"""NeMo Gym's reading of an answer, for `conform="nemo"`; the package's own is `grading.py`.

The README lists the differences. Repeats of spaces are bounded, so that a hostile text takes little time; only the last
50,000 characters are read.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator

_LONGEST_TEXT = 50_000
_MOST_WRAPPERS = 100
_SPACE = r"\s{0,200}"
_LINE = re.compile(
    rf"^\s{{0,20}}(?:(?:[-*•]|\d{{1,9}}[.)]){_SPACE})?(?:\*\*)?answer(?:\*\*)?{_SPACE}:{_SPACE}(.+?){_SPACE}$",
    re.IGNORECASE | re.MULTILINE,
)
_INLINE = re.compile(rf"(?:\*\*)?answer(?:\*\*)?{_SPACE}:{_SPACE}([^\r\n]+|.)", re.IGNORECASE | re.DOTALL)
_PHRASE = re.compile(
    r"(?:the\s{1,200}(?:correct\s{1,200})?answer\s{1,200}is|my\s{1,200}answer\s{1,200}is|i\s{1,200}(?:choose|select))"
    r"\s{1,200}([^\n]+)",
    re.IGNORECASE,
)
_TAGS = "answer|choice|response|final_answer|final-answer"
_OPENING = re.compile(rf"<{_SPACE}({_TAGS})\b[^>]{{0,2000}}>", re.IGNORECASE)
_CLOSING = re.compile(rf"<{_SPACE}/{_SPACE}({_TAGS}|choices){_SPACE}>", re.IGNORECASE)
_CHOICES = re.compile(rf"<{_SPACE}choices\b[^>]{{0,2000}}>", re.IGNORECASE)
_BOX = re.compile(rf"\\boxed{_SPACE}\{{")
_NAMED = re.compile(r"(?:option|choice)\s+([A-Z])\s*[)\].:]?", re.IGNORECASE)
_LEADING = re.compile(r"([A-Z])[)\].:](?:\s|$)", re.IGNORECASE)
_LONE = re.compile(r"[^A-Za-z]*([A-Za-z])[^A-Za-z]*")
_LATEX = re.compile(r"\\(?:text|mathrm|operatorname)\{(.*)\}", re.DOTALL)
_AROUND = " \t\r\n`*_\"'"
_SIGNS = str.maketrans("−–—‒‑×✕·∙⋅•µμ⁄∕", "-----xx....uu//")

Options = list[tuple[str, str]]
"""Letters and texts of the options, in order."""


def plain(text: str) -> str:
    """Return a text with one spelling of small digits, signs, entities and spaces."""
    text = unicodedata.normalize("NFKC", html.unescape(text)).translate(_SIGNS)
    return " ".join("".join(character for character in text if unicodedata.category(character) != "Cf").split())


def gold_letter(expected: str, options: Options) -> str:
    """Return the expected answer's letter; the answer itself if no option has its text."""
    letter = _stripped(expected).upper()
    if len(letter) == 1 and letter.isalpha():
        return letter
    return _letter(expected, [(name, plain(text)) for name, text in options], _allowed(options)) or letter


def choice(text: str, options: Options, gold: str) -> str | None:
    r"""Return the letter of the last candidate that names an option, else of the last or the first line.

    >>> options = [("A", "OH-"), ("B", "H2O")]
    >>> choice("Answer: H₂O\nAnswer: C", options, "B"), choice("<choice>A</choice> my Answer: b", options, "B")
    ('B', 'B')
    """
    text = text.strip()[-_LONGEST_TEXT:]
    allowed = _allowed(options) | ({gold} if len(gold) == 1 and gold.isalpha() else set())
    normal = [(letter, plain(said)) for letter, said in options]
    candidates = [said for _, said in sorted(_candidates(text), reverse=True)]
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    for candidate in [*candidates, *lines[-1:], *lines[:1]]:
        if (letter := _letter(candidate, normal, allowed)) is not None:
            return letter
    return None


def _allowed(options: Options) -> set[str]:
    return {letter.upper() for letter, _ in options if len(letter) == 1 and letter.isalpha()}


def _candidates(text: str) -> Iterator[tuple[int, str]]:
    closings: dict[str, list[re.Match[str]]] = {}
    for tag_end in _CLOSING.finditer(text):
        closings.setdefault(tag_end[1].lower(), []).append(tag_end)
    lists, end = [], 0
    for opening in _CHOICES.finditer(text):
        if opening.start() >= end and (closing := _first(closings.get("choices", []), opening.end())):
            end = closing.end()
            lists.append((opening.start(), end))
    end = 0
    for opening in _OPENING.finditer(text):
        tag = opening[1].lower()
        if opening.start() < end or not (closing := _first(closings.get(tag, []), opening.end())):
            continue
        end = closing.end()
        if tag != "choice" or not any(start <= opening.start() < stop for start, stop in lists):
            yield opening.start(), text[opening.end() : closing.start()].strip()
    yield from _boxes(text)
    for pattern in (_LINE, _INLINE, _PHRASE):
        yield from ((match.start(), match[1]) for match in pattern.finditer(text))


def _first(closings: list[re.Match[str]], start: int) -> re.Match[str] | None:
    place = bisect_left(closings, start, key=lambda closing: closing.start())
    return closings[place] if place < len(closings) else None


def _boxes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the boxes with their places, up to the first that is never closed. A backslash hides the next character."""
    position = 0
    while match := _BOX.search(text, position):
        depth, position = 1, match.end()
        while position < len(text) and depth:
            character = text[position]
            depth += (character == "{") - (character == "}")
            position += 2 if character == "\\" else 1
        if depth:
            return
        yield match.start(), text[match.end() : position - 1]


def _letter(candidate: str, options: Options, allowed: set[str]) -> str | None:
    for form in (candidate.strip(), _stripped(candidate.strip())):
        if form and (letter := _named(form, allowed) or _of_text(form, options, allowed)):
            return letter
    return None


def _named(form: str, allowed: set[str]) -> str | None:
    if len(form) == 1 and form.isalpha():
        return form.upper() if form.upper() in allowed else None
    for match in (_NAMED.fullmatch(form), _LEADING.match(form), _LONE.fullmatch(form)):
        if match and match[1].upper() in allowed:
            return match[1].upper()
    return None


def _of_text(form: str, options: Options, allowed: set[str]) -> str | None:
    wanted = plain(form)
    return next((name.upper() for name, text in options if name.upper() in allowed and text == wanted), None)


def _stripped(text: str) -> str:
    text = text.strip(_AROUND)
    if text.startswith("\\boxed{") and text.endswith("}"):
        text = text[len("\\boxed{") : -1].strip()
    for _ in range(_MOST_WRAPPERS):
        if (latex := _LATEX.fullmatch(text)) is None:
            break
        text = latex[1].strip()
    for _ in range(_MOST_WRAPPERS):
        if len(text) < 2 or text[0] not in "([{\"'<" or text[-1] not in ")]}\"'>":
            break
        text = text[1:-1].strip(_AROUND)
    return text.strip(f"{_AROUND}.;,")
