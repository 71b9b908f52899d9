"""EnvConfig: the arguments of an environment, checked when it is made."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gym_llm.core.checks import check_pattern
from gym_llm.utils.text import did_you_mean

Seconds = Annotated[float, Field(gt=0, lt=86_400, allow_inf_nan=False)]
"""Seconds above 0, less than a day."""
Count = Annotated[int, Field(ge=1)]
"""A whole number, 1 or more."""
Reward = Annotated[float, Field(allow_inf_nan=False)]
"""A finite number."""
Pattern = Annotated[str, AfterValidator(check_pattern)]
"""A regular expression."""


def _local(path: str) -> str:
    from gym_llm.data.recipes.prepared import local_path

    return local_path(path)


LocalPath = Annotated[str, AfterValidator(_local)]
"""A file or folder of this machine, or `benchmark:NAME/ARGUMENT`, which is fetched with the benchmark's tasks."""

WRITTEN = "written"
"""Marks an argument that may name a file which episodes write: `Annotated[str | None, WRITTEN]`. The content of other
files that arguments name is part of what a run is compared by when it is resumed."""

C = TypeVar("C", bound="EnvConfig")


class EnvConfig(BaseModel):
    """Arguments of an environment as the fields of a pydantic model, with their defaults.

    Types are strict: `True` is not an int, `"3"` is not a number. Every value is a JSON value, so that a spec can be
    written to a file.

    >>> from gym_llm import VerifierEnv
    >>> class Guess(VerifierEnv):
    ...     class Config(VerifierEnv.Config):
    ...         digits: Count = 2
    ...     config: Config
    ...     def verify(self, task, episode):
    ...         return 0.0
    >>> Guess(digits=3).config.digits
    3
    >>> Guess(digits=0)
    Traceback (most recent call last):
    ValueError: Guess: digits: Input should be greater than or equal to 1; got 0.
    """

    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


def read_config(owner: str, schema: type[C], arguments: dict[str, Any]) -> C:
    """Check the arguments of an environment.

    Args:
        owner: The name of the environment's class, for messages.
        schema: Its `Config`.
        arguments: The keyword arguments that it was given.

    Raises:
        TypeError: If an argument is unknown.
        ValueError: If a value is invalid.
    """
    unknown = next((name for name in arguments if name not in schema.model_fields), None)
    if unknown is not None:
        known = ", ".join(schema.model_fields)
        hint = did_you_mean(unknown, schema.model_fields)
        raise TypeError(f"{owner} has no argument {unknown!r}.{hint}" + (f" It takes {known}." if known else ""))
    try:
        return schema.model_validate(arguments)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    where = f"{owner}: {place}: " if place else f"{owner}: "
    choices = problem.get("ctx", {}).get("expected")
    hint = ""
    if problem["type"] == "literal_error" and isinstance(problem["input"], str) and choices:
        hint = did_you_mean(
            problem["input"], [choice.strip(" '") for choice in choices.replace(" or ", ",").split(",")]
        )
    raise ValueError(f"{where}{message}; got {problem['input']!r:.80}.{hint}")


def constructor_signature(cls: Any, base: Any) -> inspect.Signature:
    """Return the constructor's signature with the fields of `Config` in place of `**kwargs`.

    Args:
        cls: A class with a `Config`.
        base: The class whose arguments it has, too.
    """
    parameters = dict(inspect.signature(base.__init__).parameters) | dict(inspect.signature(cls.__init__).parameters)
    named = [p for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD and name != "self"]
    positional = [p for p in named if p.kind is p.POSITIONAL_OR_KEYWORD]
    fields = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True),
            annotation=field.annotation,
        )
        for name, field in cls.Config.model_fields.items()
        if name not in parameters
    ]
    return inspect.Signature([*positional, *(p for p in named if p.kind is p.KEYWORD_ONLY), *fields])
