"""Helpers to make tasks of raw rows: lettered options, and ids made from a row's content."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable, Sequence
from hashlib import md5
from string import ascii_uppercase
from typing import Any

from gym_llm.types import Row

MATH = "Solve this mathematics problem. Put the final answer, and nothing else, inside \\boxed{{}}.\n\n{question}"
QUESTION = "{question}"
"""A prompt that is the task's `question` alone."""


def lettered(choices: Iterable[str]) -> dict[str, str]:
    """The choices by letter.

    >>> lettered(["yes", "no"])
    {'A': 'yes', 'B': 'no'}
    """
    return dict(zip(ascii_uppercase, choices, strict=False))


def options(choices: dict[str, str]) -> list[dict[str, str]]:
    """Lettered choices in the form of `MultipleChoice`: a dict for each."""
    return [{letter: text} for letter, text in choices.items()]


def listed(choices: dict[str, str], form: str = "{}) {}") -> str:
    r"""Lettered choices as text, a line each.

    >>> listed({"A": "yes", "B": "no"}, "({}) {}")
    '(A) yes\n(B) no'
    """
    return "\n".join(form.format(letter, text) for letter, text in choices.items())


def choice_task(question: str, choices: Sequence[str], answer: int | str, **more: Any) -> Row:
    """A task of `MultipleChoice`.

    Args:
        question: Without the options.
        choices: Their texts.
        answer: The right one's index or letter.
        **more: Further fields.
    """
    by_letter = lettered(choices)
    letter = ascii_uppercase[answer] if isinstance(answer, int) else answer
    return {
        "question": question,
        "problem": f"{question}\n\n{listed(by_letter)}",
        "options": options(by_letter),
        "expected_answer": letter,
        **more,
    }


def uuid_of(value: Any, *, sort_keys: bool = True, ascii_only: bool = False) -> str:
    """A name that the content gives: UUID 5 of a text, or of a value's JSON.

    >>> uuid_of("financebench/1") == uuid_of("financebench/1")
    True
    """
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=sort_keys, ensure_ascii=ascii_only)
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


def shuffled_by(question: str, choices: Sequence[str]) -> list[str]:
    """The choices in an order that the question's MD5 seeds, the same everywhere.

    >>> shuffled_by("Which?", ["a", "b", "c", "d"]) == shuffled_by("Which?", ["a", "b", "c", "d"])
    True
    """
    order = list(choices)
    random.Random(int(md5(question.encode()).hexdigest(), 16)).shuffle(order)
    return order


def messages(text: str, system: str | None = None) -> dict[str, Any]:
    """A `responses_create_params` with one message of the user."""
    first = [] if system is None else [{"role": "system", "content": system}]
    return {"input": [*first, {"role": "user", "content": text}]}
