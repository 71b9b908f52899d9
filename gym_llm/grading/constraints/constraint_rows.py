"""Constraints as rows name them: two lists, of ids and of arguments."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym_llm.grading.constraints.catalogue_of_constraints import Check, Registry

GradingMode: TypeAlias = Literal["binary", "fraction"]
"""What is paid: 1.0 for all constraints and else nothing, or the share of those that are followed."""


class Instructions(BaseModel):  # type: ignore[no-redef]  # for the plugin, the field named kwargs is `**kwargs`
    """What a text has to follow, in the order of its `instruction_id_list`. Subclasses name the registry."""

    model_config = ConfigDict(extra="allow", frozen=True)
    registry: ClassVar[Registry]

    instruction_id_list: Annotated[list[str], Field(min_length=1)]
    kwargs: list[dict[str, Any] | None] = []
    """One for each constraint; an argument that is None is absent. None at all where no constraint takes any."""

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The constraints with their arguments."""
        names = self.instruction_id_list
        return self.registry.read_all(names, self.kwargs or [None] * len(names))

    @model_validator(mode="after")
    def _readable(self) -> Self:
        _ = self.checks
        return self


def graded(followed: list[bool], mode: GradingMode) -> float:
    """The reward for what was followed.

    >>> graded([True, False], "binary"), graded([True, False], "fraction")
    (0.0, 0.5)
    """
    return float(all(followed)) if mode == "binary" else sum(followed) / len(followed)
