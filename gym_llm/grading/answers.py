r"""Finding the answer a model put in a LaTeX box."""

from __future__ import annotations

import re
from itertools import islice

_SIMPLE_BOX = re.compile(r"\\boxed\s*\{([^{}\\]*)\}")
# `\{` and `\}` print a brace and `\\` breaks a line: none of them opens or closes a group. `\\boxed{` (a backslash
# doubled by some JSON layer) still counts as a box, so a doubled backslash in front of `boxed` is not such a pair.
# The pattern begins with a set of characters, so that what lies between is passed over quickly.
_BRACES = re.compile(r"[{}\\](?:(?<=\\)(?:(boxed\s*\{)|[{}]|\\(?!boxed)))?")
_DELIMITERS = (("\\(", "\\)"), ("$$", "$$"), ("$", "$"))
_MOST_BRACES = 50_000
"""Braces and backslashes that are looked at, some 20 ms; no answer has more."""


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` whose braces balance, or None.

    The last box is the one that opens last, so of nested boxes it is the inner one. A box that is never closed does not
    count, as in a generation that was cut off. Nor does a box with thousands of braces in it or after it. The time is
    linear in the length of any text. The usual answer near the end of a long text costs less than a microsecond.

    Args:
        text: What the model wrote.

    Returns:
        The text between the braces, unchanged (spaces too), or None without a closed box.

    >>> last_boxed(r"First \boxed{1}, no: \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    >>> last_boxed(r"\boxed{B} because \boxed{A")
    'B'
    """
    start = text.rfind("\\boxed")
    if start < 0:
        return None
    simple = _SIMPLE_BOX.match(text, start)
    if simple is not None:
        return simple[1]
    # The last box alone nearly always decides; only when it is not closed is the whole text worth reading.
    box = _last_closed_box(text, start)
    if box is not None or start == 0:
        return box
    start = 0
    while text.count("{", start) + text.count("}", start) + text.count("\\", start) > _MOST_BRACES:
        start += (len(text) - start) // 2
    return _last_closed_box(text, start)


def _last_closed_box(text: str, start: int) -> str | None:
    """The closed box that opens last at or after `start`, in one pass with a stack of the open braces."""
    open_braces: list[int] = []  # where a box's content starts, or -1 for a brace that is not a box's
    best_start = best_end = -1
    for match in islice(_BRACES.finditer(text, start), _MOST_BRACES):
        if match[1] is not None:
            open_braces.append(match.end())
        elif (brace := match[0]) == "{":
            open_braces.append(-1)
        elif brace == "}" and open_braces:
            content = open_braces.pop()
            if content > best_start:
                best_start, best_end = content, match.start()
                if not open_braces and start > 0:
                    break
    return text[best_start:best_end] if best_start >= 0 else None


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
