"""Constraints, the texts that follow them and the texts that do not: what each registry's tests go through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from gym_llm.grading.constraints.constraint import Registry

Cases: TypeAlias = dict[str, list[tuple[dict[str, Any], list[str], list[str]]]]
"""By the constraint's name: its arguments, texts that follow it, texts that do not."""


def every_case(cases: Cases) -> pytest.MarkDecorator:
    """Parametrize a test by `name`, `given`, `text` and `followed`."""
    return pytest.mark.parametrize(
        ("name", "given", "text", "followed"),
        [
            (name, given, text, followed)
            for name, examples in cases.items()
            for given, *texts in examples
            for followed, some in zip((True, False), texts, strict=True)
            for text in some
        ],
    )


def has_cases_of_all(registry: Registry, cases: Cases) -> bool:
    """Whether each constraint is followed by a text and not followed by another, whatever its arguments are."""
    named = set(cases) == {one.name for one in registry}
    return named and all(follow and do_not for examples in cases.values() for _, follow, do_not in examples)
