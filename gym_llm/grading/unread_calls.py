"""Calls that a model wrote as text in a form that no parser of the run has read."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from functools import cache
from typing import Any

import gymnasium as gym

from gym_llm.grading.extraction import fences, json_values
from gym_llm.types import Episode

_PARSERS = {
    "[TOOL_CALLS]": "mistral",
    "<|python_tag|>": "llama3_json",
    "<arg_key>": "glm45",
    "<function=": "qwen3_coder",
    "<invoke ": "minimax_m2",
    "<tool_call>": "hermes",
    "tool▁call": "deepseek_v3",
    "<|tool_calls_section_begin|>": "kimi_k2",
    "<|tool_call_begin|>": "kimi_k2",
    "<|tool_call|>": "granite",
    "<|channel|>commentary": "openai",
    "<|START_ACTION|>": "cohere",
    "<|tool_call_start|>": "lfm2",
    "<|python_start|>": "llama4_pythonic",
    "<｜DSML｜": "deepseek_v32",
    "functools[": "phi4_mini_json",
    "✿FUNCTION✿": "",
    "<functioncall>": "",
}
"""The parser of vLLM by what begins a call."""
_JSON, _PYTHON, _NO_PARSER = "llama3_json", "pythonic", ""
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name", "api")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input", "tool_arguments")
_LONGEST = 20_000  # characters that may be Python


def tool_names(episode: Episode) -> set[str]:
    """Return the names of the functions that an episode's request offers."""
    return {str(tool["name"]) for tool in episode.request.get("tools") or () if tool.get("name")}


def has_unread_call(text: str, functions: Collection[str]) -> bool:
    """Whether a text without calls has call-like text; the first time it warns, and names the parser to choose."""
    parser = parser_for(text, functions) if text.strip() else None
    if parser is not None:
        _warn(parser)
    return parser is not None


@cache
def _warn(parser: str) -> None:
    gym.logger.warn(
        "An answer has a call that no parser has read (unread_calls counts them): "
        f"choose --tool-call-parser {parser or 'for this form'}."
    )


def parser_for(text: str, functions: Collection[str]) -> str | None:
    """Return the vLLM parser that reads the calls in a text; "" if none is known, None without call-like text.

    A function that is only named, as in "`f(x)` does not fit", is not called.

    Args:
        text: What the model said.
        functions: The names of the functions, and of their tools.

    >>> parser_for("[f(x=1)]", ["f"]), parser_for("I cannot: f(x) adds.", ["f"]), parser_for("Action: f", ["f"])
    ('pythonic', None, '')
    """
    for mark, parser in _PARSERS.items():
        if mark in text:
            return parser
    if any(_is_json_call(value, functions) for value in [*json_values(text), *_python_values(text)]):
        return _JSON
    if _is_python_call(text) or any(_is_python_call(fence.body, functions) for fence in fences(text)):
        return _PYTHON
    if "to=functions." not in text and not any(name in text for name in functions):
        return None
    names = "|".join(re.escape(name) for name in functions)
    begins = (
        rf"(?:^\W{{0,9}}(?:<\w{{1,20}}>)?|:\s{{1,3}}[`\[]?)(?:\w+ = )?(?:await )?"
        rf"(?:functions\.|default_api\.)?(?:{names})"
    )
    call = rf"{begins}\s?\((?:\)|[^\n]*[=:\d\"'][^\n]*\))\W{{0,9}}(?:</\w{{1,20}}>)?$"
    if names and re.search(call, text, re.MULTILINE):
        return _PYTHON
    named = (
        rf"^\W{{0,9}}Action\W{{0,9}}(?:{names})\b|\bto=functions\.|^\s*(?:{names})\s?:?\s*\{{"
        rf"|<(?:\w{{1,20}}(?:>| name=\"))?(?:{names})[<>\"]"
        rf"|\bname: (?:{names})\s+(?:arguments|parameters|args):"
        rf"|^\W{{0,9}}(?:Tool|Function)\W{{1,9}}(?:{names})\W{{0,3}}\n"
    )
    return _NO_PARSER if names and re.search(named, text, re.MULTILINE) else None


def _is_json_call(value: Any, functions: Collection[str]) -> bool:
    if isinstance(value, list):
        return any(_is_json_call(each, functions) for each in value[:100] if isinstance(each, dict))
    if isinstance(inner := value.get("function") or value.get("tool_calls"), dict | list):
        return _is_json_call(inner, functions)
    if any(isinstance(value.get(key), dict) for key in functions):
        return True
    key, name = next(((key, value[key]) for key in _NAMES if isinstance(value.get(key), str)), ("", ""))
    has_arguments = any(each in value for each in _ARGUMENTS) or (key != "name" and name in functions)
    return key != "" and (name in functions or "arguments" in value) and has_arguments


def _python_values(text: str) -> list[Any]:
    """Return a text that is one object or list as Python writes it."""
    text = text.strip()
    if len(text) > _LONGEST or not (text.startswith(("{", "[{")) and text.endswith(("}", "]"))):
        return []
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []
    return [value] if isinstance(value, dict | list) else []


def _is_python_call(text: str, functions: Collection[str] | None = None) -> bool:
    """Whether a text is a call, or a list of calls, of these functions or of any, and nothing else."""
    text = text.strip()
    if not text.endswith((")", "]")) or len(text) > _LONGEST:
        return False
    try:
        value = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = [_called_name(each) for each in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]
    return bool(names) and all(name and (functions is None or name in functions) for name in names)


def _called_name(value: ast.expr) -> str | None:
    """Return the dotted name of the called function, perhaps within a `print`; None for what is not a call."""
    if not isinstance(value, ast.Call):
        return None
    if isinstance(value.func, ast.Name) and value.func.id == "print":
        return _called_name(value.args[0]) if len(value.args) == 1 else None
    parts, function = [], value.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join(reversed([*parts, function.id])) if isinstance(function, ast.Name) else None
