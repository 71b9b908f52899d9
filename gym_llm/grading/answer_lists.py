"""The list that an answer ends with, `Final Answer: [a, b]`, as the prompts of GraphWalks ask for it."""

from __future__ import annotations

import json
import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from gym_llm.grading.extraction import last_line

_EXACT = re.compile(r"Final Answer:\s*\[")
_LENIENT = re.compile(r"final answer[*_` ]*:[*_` ]*\[", re.IGNORECASE)
_MOST_ITEMS = 20_000
_QUOTES = "\"'`“”‘’ "


def final_answer_list(text: str, *, quotes: bool = False, lenient: bool = False) -> list[str] | None:
    r"""Return the items of the list in the last line that is not blank, in order; None without such a list.

    It reaches to the line's last bracket. An item is the stripped text between commas; blank ones are dropped. A
    list of tens of thousands of items does not count.

    Args:
        text: What the model wrote.
        quotes: Whether quotes around an item are left out.
        lenient: The same, and `final answer` counts in any case and in Markdown.

    >>> final_answer_list("So:\n**Final Answer: [n1, n2,]**"), final_answer_list("Final Answer: []")
    (['n1', 'n2'], [])
    >>> final_answer_list("**final answer:** ['n1']", lenient=True)
    ['n1']
    """
    line = last_line(text)
    end = line.rfind("]")
    match = (_LENIENT if lenient else _EXACT).search(line, 0, max(end, 0))
    if match is None:
        return None
    items = line[match.end() : end].split(",", _MOST_ITEMS)
    if len(items) > _MOST_ITEMS:
        return None
    left_out = _QUOTES if quotes or lenient else None
    return [item for item in (item.strip().strip(left_out) for item in items) if item]


def expected_list(answer: str) -> list[str]:
    """The items of an expected answer: a JSON list in a string.

    Raises:
        ValueError: If it is something else.

    >>> expected_list('["n1", "n2"]')
    ['n1', 'n2']
    """
    try:
        items = json.loads(answer)
    except (ValueError, RecursionError):
        items = None
    if not isinstance(items, list) or not all(isinstance(item, (str, int, float)) for item in items):
        raise ValueError(f"expected_answer is a JSON list of texts in a string; got {answer[:80]!r}")
    return [str(item) for item in items]


def _checked(answer: str) -> str:
    expected_list(answer)
    return answer


ExpectedList: TypeAlias = Annotated[str, AfterValidator(_checked)]
"""A row's expected answer that is such a list."""
