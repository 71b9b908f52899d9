"""Kinds of arguments that constraints take."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

Count: TypeAlias = Annotated[int, Field(ge=0)]
Ordinal: TypeAlias = Annotated[int, Field(ge=1)]
Relation: TypeAlias = Literal["less than", "at least"]


def _first_stripped(value: Any) -> Any:
    first = value[0] if isinstance(value, list) and value else value
    return first.strip() if isinstance(first, str) else first


Text: TypeAlias = Annotated[str, Field(min_length=1)]
Word: TypeAlias = Annotated[str, BeforeValidator(_first_stripped), Field(min_length=1)]
"""A word or phrase, stripped; of a list the first, as in AI2's rows."""
Words: TypeAlias = Annotated[list[Text], Field(min_length=1)]
Letter: TypeAlias = Annotated[str, BeforeValidator(_first_stripped), Field(min_length=1, max_length=1)]


def compare(count: int, relation: Relation, expected: int) -> bool:
    """Whether `count` is less than, or at least, what is expected.

    >>> compare(3, "less than", 3), compare(3, "at least", 3)
    (False, True)
    """
    return count < expected if relation == "less than" else count >= expected


def count_of(phrase: str, text: str) -> int:
    """How often a phrase occurs in a text, in upper or lower case.

    >>> count_of("ana", "Banana")
    1
    """
    return text.lower().count(phrase.lower())
