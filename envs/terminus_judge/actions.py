"""The action of a terminal agent: one JSON object, in one of two forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym_llm.utils.json_codec import loads

_TEXT, _NUMBER, _BOOLEAN = (str,), (int, float), (bool,)
_SCHEMAS: dict[
    str, tuple[dict[str, tuple[type, ...]], dict[str, tuple[type, ...]], dict[str, tuple[type, ...]], str]
] = {
    "terminus_1": (
        {"state_analysis": _TEXT, "explanation": _TEXT, "commands": (list,), "is_task_complete": _BOOLEAN},
        {},
        {"keystrokes": _TEXT, "is_blocking": _BOOLEAN, "timeout_sec": _NUMBER},
        "is_blocking timeout_sec",
    ),
    "terminus_2": (
        {"analysis": _TEXT, "plan": _TEXT, "commands": (list,)},
        {"task_complete": _BOOLEAN},
        {"keystrokes": _TEXT, "duration": _NUMBER},
        "",
    ),
}
"""By harness: the required fields, the optional ones, a command's, and which of a command's are required beside the
keystrokes. There are no others."""


def read_action(text: str) -> dict[str, Any] | None:
    """Parse the text after all reasoning as a JSON object; None if it is not one."""
    try:
        value = loads(text.rpartition("</think>")[2].strip().encode("utf-8", "replace"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def fits(action: Mapping[str, Any], harness: str) -> bool:
    """Whether an action has the form of its harness."""
    required, optional, command, needed = _SCHEMAS[harness]
    if not required.keys() <= action.keys() or not all(name in required or name in optional for name in action):
        return False
    kinds = {**required, **optional}
    if not all(_is(value, kinds[name]) for name, value in action.items()):
        return False
    must = {"keystrokes", *needed.split()}
    return all(
        isinstance(each, dict)
        and must <= each.keys() <= command.keys()
        and all(_is(value, command[name]) for name, value in each.items())
        for each in action["commands"]
    )


def is_complete(action: Mapping[str, Any]) -> bool:
    """Whether it says that the task is done."""
    return bool(action.get("task_complete") or action.get("is_task_complete"))


def keystrokes(action: Mapping[str, Any]) -> str:
    """All that is typed."""
    return "".join(command["keystrokes"] for command in action["commands"])


def known_harness(harness: Any) -> bool:
    """Whether there is such a harness."""
    return harness in _SCHEMAS


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)
