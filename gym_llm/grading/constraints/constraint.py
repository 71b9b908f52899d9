"""Constraints by name: pure functions of a text and typed arguments, checked when a task is read."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_validator

from gym_llm.utils.extras import install
from gym_llm.utils.text import did_you_mean

F = TypeVar("F", bound=Callable[..., bool])


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint: its name, its check and the arguments of the check."""

    name: str
    """The name in rows: `keywords:existence`."""
    function: Callable[..., bool]
    """Takes the text and the arguments, and returns whether the text follows it."""
    arguments: type[BaseModel]
    """The function's own parameters, without the text."""
    package: str | None
    """The package that it needs, which is too slow for the event loop; the extra `instructions` brings it."""
    official: Callable[..., bool] | None = None
    """The check as the official grader has it, where ours differs."""

    @property
    def summary(self) -> str:
        """The first sentence of its documentation."""
        return inspect.getdoc(self.function).partition("\n")[0] if self.function.__doc__ else ""  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class Check:
    """A constraint with the arguments that a row gives it. It pickles, for a worker process."""

    function: Callable[..., bool]
    arguments: dict[str, Any]
    slow: bool = False
    official: Callable[..., bool] | None = None

    def __call__(self, text: str, *, conform: bool = False) -> bool:
        """Whether the text follows it; with `conform` by the official grader's rules."""
        function = self.official if conform and self.official else self.function
        return function(text, **self.arguments)


class Registry:
    """Constraints by name, and the decorator that puts one there.

    Args:
        name: What errors call the set: `IFEval`.
        *bases: Registries of which the constraints belong to this one too.

    >>> constraint = Registry("example")
    >>> @constraint("length:at_most")
    ... def at_most(text: str, characters: int) -> bool:
    ...     return len(text) <= characters
    >>> constraint.read("length:at_most", {"characters": 3, "unused": None})("four")
    False
    """

    def __init__(self, name: str, *bases: Registry) -> None:
        self.name = name
        self._constraints: dict[str, Constraint] = {}
        for base in bases:
            self._constraints |= base._constraints

    def __call__(
        self, name: str, *, package: str | None = None, official: Callable[..., bool] | None = None
    ) -> Callable[[F], F]:
        """Register the decorated function; `package` is what it needs installed, `official` replaces it to conform."""

        def register(function: F) -> F:
            if name in self._constraints:
                raise ValueError(f"{self.name} has a constraint {name} already.")
            self._constraints[name] = Constraint(name, function, _arguments_of(function), package, official)
            return function

        return register

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self._constraints.values())

    def __contains__(self, name: object) -> bool:
        return name in self._constraints

    def __len__(self) -> int:
        return len(self._constraints)

    def __getitem__(self, name: str) -> Constraint:
        return self._constraints[name]

    def read(self, name: str, arguments: dict[str, Any] | None = None) -> Check:
        """Return the check that a row asks for. Arguments that are None are absent: rows may share columns.

        Raises:
            ValueError: If the constraint is unknown, an argument is missing, unknown or of a wrong type, or a
                package is not installed.
        """
        constraint = self._constraints.get(name)
        if constraint is None:
            hint = did_you_mean(name, self._constraints)
            raise ValueError(f"{self.name} has no constraint {name!r}.{hint}")
        if constraint.package and importlib.util.find_spec(constraint.package) is None:
            raise ValueError(f"{name} needs {constraint.package}, which is not installed: {install('instructions')}")
        given = {key: value for key, value in (arguments or {}).items() if value is not None}
        try:
            values = constraint.arguments.model_validate(given)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            said = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
            raise ValueError(f"{name}: {said}") from None
        return Check(constraint.function, dict(values), constraint.package is not None, constraint.official)

    def read_all(self, names: Iterable[str], arguments: Iterable[dict[str, Any] | None]) -> tuple[Check, ...]:
        """Return the checks of a row's two lists, which have the same length.

        Raises:
            ValueError: If `read` raises it, or the lengths differ.
        """
        pairs = list(zip(names := list(names), arguments := list(arguments), strict=False))
        if len(names) != len(arguments):
            raise ValueError(f"{len(names)} constraints are named, and arguments given for {len(arguments)}")
        return tuple(self.read(name, values) for name, values in pairs)


def _arguments_of(function: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    fields: dict[str, Any] = {
        parameter.name: (hints[parameter.name], ... if parameter.default is parameter.empty else parameter.default)
        for parameter in parameters
    }
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


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
    """Count the occurrences of a phrase in a text, in upper or lower case.

    >>> count_of("ana", "Banana")
    1
    """
    return text.lower().count(phrase.lower())


GradingMode: TypeAlias = Literal["binary", "fraction"]
"""What is paid: 1.0 for all constraints and else nothing, or the share of those that are followed."""


class Instructions(BaseModel):  # type: ignore[no-redef]  # for the plugin, the field named kwargs is `**kwargs`
    """Constraints of a row, in the order of its `instruction_id_list`. Subclasses name the registry."""

    model_config = ConfigDict(extra="allow", frozen=True)
    registry: ClassVar[Registry]

    instruction_id_list: Annotated[list[str], Field(min_length=1)]
    kwargs: list[dict[str, Any] | None] = []
    """The arguments of each constraint; one that is None is absent. Empty where no constraint takes any."""

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
