"""Parsers by name: ours, and those that other packages add through the entry-point group `gym_llm.parsers`."""

from __future__ import annotations

import functools
import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gym_llm.tokens.parsers.parser import Parser
from gym_llm.utils.text import did_you_mean

ENTRY_POINT_GROUP = "gym_llm.parsers"
_BUILT_IN = {
    "harmony": "gym_llm.tokens.parsers.harmony:Harmony",
    "reasoning": "gym_llm.tokens.parsers.reasoning:Reasoning",
    "tool_calls": "gym_llm.tokens.parsers.tool_calls:ToolCalls",
    "vllm": "gym_llm.tokens.parsers.vllm_parsers:VLLM",
}


def parser_names() -> list[str]:
    """The names of all parsers, sorted; nothing is imported for them."""
    return list(_entry_points())


def make_parser(name: str, **options: Any) -> Parser:
    """Import and make the parser of a name.

    Args:
        name: One of `parser_names()`. Another package's is an entry point of the group `gym_llm.parsers`: a class or
            function that makes a `Parser`.
        **options: Its arguments; JSON values, so that wrappers can be made again from them.

    Raises:
        ValueError: If the name is unknown, or an option's value is invalid.
        TypeError: If an option is unknown or missing.
        gymnasium.error.DependencyNotInstalled: If a package that it needs is not installed.

    >>> make_parser("reasonin", start="[THINK]", end="[/THINK]")
    Traceback (most recent call last):
    ValueError: There is no parser 'reasonin'. Did you mean reasoning? There are harmony, reasoning, ...
    """
    points = _entry_points()
    if name not in points:
        raise ValueError(f"There is no parser {name!r}.{did_you_mean(name, points)} There are {', '.join(points)}.")
    make = points[name].load()
    parameters = inspect.signature(make).parameters
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
        for option in options.keys() - parameters.keys():
            hint = did_you_mean(option, parameters)
            names = ", ".join(parameters) or "none"
            raise TypeError(f"The parser {name} has no option {option!r}.{hint} Its options: {names}.")
    parser: Parser = make(**options)
    return parser


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    """All parsers, in the order of their names; ours win."""
    ours = [EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in _BUILT_IN.items()]
    points = {point.name: point for point in [*entry_points(group=ENTRY_POINT_GROUP), *ours]}
    return {name: points[name] for name in sorted(points)}
