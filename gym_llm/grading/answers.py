r"""Finding the answer a model put in a LaTeX box."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

from gym_llm.grading.denials import is_given

_SIMPLE_BOX = re.compile(r"\\boxed\s*\{([^{}\\]*)\}")
# `\{` and `\}` print a brace and `\\` breaks a line: none of them opens or closes a group. `\\boxed{` (a backslash
# doubled by some JSON layer) still counts as a box, so a doubled backslash in front of `boxed` is not such a pair.
# The pattern begins with a set of characters, so that what lies between is passed over quickly.
_BRACES = re.compile(r"[{}\\](?:(?<=\\)(?:(boxed\s*\{)|[{}]|\\(?!boxed)))?")
_DELIMITERS = (("\\(", "\\)"), ("$$", "$$"), ("$", "$"))
_MOST_BRACES = 50_000
"""Braces and backslashes that are looked at, some 20 ms; no answer has more."""


_NEAR_BOX, _MOST_BOXES = 200, 16
_LONGEST_MENTION = 80
_TOO_LONG = _LONGEST_MENTION + 1
_BLANK = (
    r"[\s{}.…⋯·⋅_~]|\\(?:[lcdv]?dots|cdot|square|q?quad|[,;:!_ ]|text(?:[a-z]{2})?|math[a-z]{2}|underline"
    r"|(?:h?phantom|hspace)\*?\{[^{}]*\})"
)
_BLANKS = re.compile(rf"(?:{_BLANK})*")
_USUAL = re.compile(r"-?[0-9]|[A-Z](?![A-Za-z ])")
_NOT_LETTERS = re.compile(rf"{_BLANK}|[][()<>*`'\"$-]")
_NOUN = "(?:answer|solution|result|response|number|integer|value|expression|letter|option|choice|content|placeholder)"
_TEMPLATE = re.compile(
    rf"(?:insert|put|write|enter)?(?:the|your|my)?(?:final|correct|numerical)?{_NOUN}(?:here)?"
    "|你?的?(?:最终)?答案|答え?|(?:ваш)?ответ|(?:ihre|deine)?antwort|(?:votre|la)?réponse|(?:tu|su|la)?respuesta|정?답"
)


def is_blank(content: str) -> bool:
    r"""Whether a box is empty or dotted, as `\boxed{}`, `\boxed{...}` and `\boxed{\text{\ldots}}` are."""
    return len(content) <= _LONGEST_MENTION and _BLANKS.fullmatch(content) is not None


def is_mention(content: str) -> bool:
    r"""Whether a box only shows where an answer would go: it is empty, dotted, or repeats the words of a template.

    `{}`, `{...}`, `{answer}` and `{\text{your number here}}` are mentions. `{?}`, `{\{\}}` and `{X}` are answers,
    though perhaps not readable ones.

    >>> [is_mention(content) for content in ("", r"\ldots", "<your answer>", "?", r"\{\}")]
    [True, True, True, False, False]
    """
    if _USUAL.match(content) or len(content) > _LONGEST_MENTION:
        return False
    return is_blank(content) or _TEMPLATE.fullmatch(_NOT_LETTERS.sub("", content).lower()) is not None


def last_boxed(text: str, *, mentions: bool = False) -> str | None:
    r"""Return the content of the last `\boxed{…}` that holds an answer and whose braces balance, or None.

    The last box is the one that opens last, so of nested boxes it is the inner one. A box that is never closed does not
    count, as in a generation that was cut off. Nor does a box with thousands of braces in it or after it. A box that is
    empty or dotted does not count either, and one with a template's words (`is_mention`) only where no other does. One
    that the text denies or only asks about (`denials.is_given`) does not count. The time is linear in the length of any
    text. The usual answer near the end of a long text costs about a microsecond.

    Args:
        text: What the model wrote.
        mentions: Whether every box counts, as in NeMo Gym.

    Returns:
        The text between the braces, unchanged (spaces too), or None without such a box.

    >>> last_boxed(r"First \boxed{1}, no: \boxed{\frac{1}{2}}. That was my \boxed{}.")
    '\\frac{1}{2}'
    >>> last_boxed(r"\boxed{B} because \boxed{A"), last_boxed(r"\boxed{B}, not \boxed{C}. Is it \boxed{D}?")
    ('B', 'B')
    """
    span = last_box(text, mentions=mentions)
    return None if span is None else text[span[0] : span[1]]


def last_box(text: str, *, mentions: bool = False) -> tuple[int, int] | None:
    """Return where the content that `last_boxed` returns begins and ends in the text."""
    if mentions:
        return _last_box(text, None)
    box = _last_box(text, is_mention)
    return _last_box(text, is_blank) if box is None and "\\boxed" in text else box


def _last_box(text: str, is_skipped: Callable[[str], bool] | None) -> tuple[int, int] | None:
    end = len(text)
    denied = set()
    while (start := text.rfind("\\boxed", 0, end)) >= 0 and (box := _SIMPLE_BOX.match(text, start)) is not None:
        if is_skipped is None or not (is_skipped(box[1]) or box[1] in denied or not is_given(text, *box.span())):
            return box.span(1)
        denied.add(box[1])
        end = start
    if start < 0:
        return None
    # The last box alone nearly always decides; only when it is not closed is the whole text worth reading.
    span = _last_closed_box(text, start, is_skipped)
    if span is not None or start == 0:
        return span
    start = 0
    while text.count("{", start) + text.count("}", start) + text.count("\\", start) > _MOST_BRACES:
        start += (len(text) - start) // 2
    return _last_closed_box(text, start, is_skipped)


def _last_closed_box(text: str, start: int, is_skipped: Callable[[str], bool] | None) -> tuple[int, int] | None:
    """The closed box that opens last at or after `start`, in one pass with a stack of the open braces."""
    open_braces: list[int] = []  # where a box's content starts, or -1 for a brace that is not a box's
    best = (-1, -1)
    for match in islice(_BRACES.finditer(text, start), _MOST_BRACES):
        if match[1] is not None:
            open_braces.append(match.end())
        elif (brace := match[0]) == "{":
            open_braces.append(-1)
        elif brace == "}" and open_braces:
            content, end = open_braces.pop(), match.start()
            if content <= best[0]:
                continue
            if is_skipped and (
                is_skipped(text[content : min(end, content + _TOO_LONG)])
                or not is_given(text, text.rfind("\\boxed", 0, content), end + 1)
            ):
                continue
            best = content, end
            if not open_braces and start > 0:
                break
    return best if best[0] >= 0 else None


_BETWEEN = re.compile(
    r"(?:\s|\$|\\[()\[\],;:! ]|,|;|\*|and|or|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|\\q?quad|&|\\\\"
    r"|[a-zA-Z](?:_\{?\w\}?)?\s*=)*"
)
_BARE_BOX = re.compile(r"\\boxed[ \t]*(-?\d[\d.,]*\d|-?\d)")
_PERCENT = re.compile(
    r"[\s$]*(?:\\[)\]]\s*)?(?:\\?%|percent\b|per cent\b|\\text\s*\{\s*(?:percent|\\?%)\s*\})", re.IGNORECASE
)


def boxed_answer(text: str) -> str | None:
    r"""Return the content of the last box, or None without a box.

    Of boxes that "and" or commas join, it is the content of all. A percent sign right behind the box belongs to it.

    >>> boxed_answer(r"Roots: $\boxed{-2}$ and $\boxed{1}$."), boxed_answer(r"\boxed{4}. So \boxed{10}$ percent")
    ('-2, 1', '10\\%')
    """
    span = last_box(text)
    if span is None and (text != (text := _BARE_BOX.sub(r"\\boxed{\1}", text.replace("\\fbox", "\\boxed")))):
        span = last_box(text)
    if span is None:
        return None
    contents = [text[span[0] : span[1]]]
    if _PERCENT.match(text, span[1] + 1, span[1] + 1 + _NEAR_BOX):
        contents[0] += "\\%"
    while len(contents) < _MOST_BOXES:
        start = text.rfind("\\boxed", 0, span[0])
        near = max(0, start - _NEAR_BOX)
        before = last_box(text[near:start]) if text.rfind("\\boxed", near, start) >= 0 else None
        if before is None or not _joins(text[near + before[1] + 1 : start]):
            break
        span = near + before[0], near + before[1]
        if text[span[0] : span[1]] not in contents:
            contents.append(text[span[0] : span[1]])
    return ", ".join(reversed(contents))


def _joins(between: str) -> bool:
    return bool(re.search(r",|;|and|or|&", between)) and _BETWEEN.fullmatch(between) is not None


def strip_delimiters(answer: str) -> str:
    r"""Return an answer without one pair of math delimiters around all of it, and without space around it.

    >>> strip_delimiters(r" \(\frac{1}{2}\) "), strip_delimiters("$$x$$"), strip_delimiters("$5 or $6")
    ('\\frac{1}{2}', 'x', '$5 or $6')
    """
    answer = answer.strip()
    for opening, closing in _DELIMITERS:
        if len(answer) >= len(opening) + len(closing) and answer.startswith(opening) and answer.endswith(closing):
            return answer[len(opening) : -len(closing)].strip()
    return answer
