"""Taking the answer out of a text with a row's own pattern; runs in a worker process, because any pattern may hang."""

from __future__ import annotations

import re


def extract_last(pattern_and_text: tuple[str, str]) -> str | None:
    r"""The first group that is not empty of a pattern's last match, or all of that match.

    Args:
        pattern_and_text: The pattern, of which `^` and `$` are at lines and `.` is any character; and the text.

    Returns:
        What was found, stripped; None without a match, or if the pattern is none.

    >>> extract_last((r"Answer: (\w+)", "Answer: B, no, Answer: C"))
    'C'
    """
    pattern, text = pattern_and_text
    last = None
    try:
        for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
            last = match
    except re.error:
        return None
    if last is None:
        return None
    return next((group for group in last.groups() if group and group.strip()), last[0]).strip()
