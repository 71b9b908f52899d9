"""Rules for two calls of a harness's tool, beside the names and the arguments' names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gym_llm.envs.terminal_multi_harness import categories as is_
from gym_llm.grading.text_metrics import ratio

Arguments: TypeAlias = Mapping[str, Any]
Finding: TypeAlias = tuple[str | None, float | None]
"""The category of what differs (None: nothing), and how similar the texts are, where texts are compared."""
Rule: TypeAlias = Callable[[Arguments, Arguments, float], Finding]
"""Compares the expected arguments with the model's; the number is how similar texts have to be."""

SAME: Finding = (None, None)
DIFFERENT: Finding = (is_.OTHER_VALUE, None)


def similar(name: str, missing: str, differs: str, unify: Callable[[str], str], *, blank: bool = True) -> Rule:
    """A rule that two texts are similar by difflib, after `unify` on both.

    Args:
        name: The argument's name.
        missing: The category if one of the two is not a string.
        differs: The category if they are not similar.
        unify: Normalises a text.
        blank: Whether a text may be blank.
    """

    def rule(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
        one, other = expected.get(name), actual.get(name)
        if not isinstance(one, str) or not isinstance(other, str):
            return missing, None
        if not blank and not (one.strip() and other.strip()):
            return missing, None
        return _at_least(unify(one), unify(other), threshold, differs)

    return rule


def equal(*names: str) -> Rule:
    """The arguments have to be equal; absent is null."""
    return lambda expected, actual, _: SAME if _are_equal(names, expected, actual) else DIFFERENT


def _are_equal(names: tuple[str, ...], expected: Arguments, actual: Arguments) -> bool:
    return all(expected.get(name) == actual.get(name) for name in names)


def _unified(value: str) -> str:
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def _folded(value: str) -> str:
    return value.lower().strip()


def _at_least(expected: str, actual: str, threshold: float, differs: str) -> Finding:
    similarity = 1.0 if expected == actual else ratio((expected, actual))
    return (None if similarity >= threshold else differs), similarity


def _plan(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
    plan = actual.get("plan")
    is_empty = plan is None or plan in ([], {}) or (isinstance(plan, str) and not plan.strip())
    return (is_.NO_PLAN, None) if is_empty else SAME


def _result(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
    wanted, found = (json.dumps(arguments.get("result"), sort_keys=True) for arguments in (expected, actual))
    return _at_least(wanted, found, threshold, is_.OTHER_RESULT)


def _todos(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
    wanted, written = expected.get("todos"), actual.get("todos")
    if wanted == []:
        return SAME if written == [] else DIFFERENT
    if not isinstance(wanted, list) or not isinstance(written, list):
        return is_.NO_TODOS, None
    same = len(wanted) == len(written) and all(
        isinstance(one, dict) and isinstance(other, dict) and _are_equal(("status", "priority"), one, other)
        for one, other in zip(wanted, written, strict=True)
    )
    return SAME if same else DIFFERENT


def _edit(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
    changes = actual.get("oldString") != actual.get("newString")
    return SAME if changes and _are_equal(("filePath", "replaceAll"), expected, actual) else DIFFERENT


def _page(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
    one, other = expected.get("url"), actual.get("url")
    if not isinstance(one, str) or not isinstance(other, str) or not one or not other:
        return is_.NO_URL, None
    return SAME if _folded(one) == _folded(other) else (is_.OTHER_URL, None)


def _query(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
    one, other = expected.get("query"), actual.get("query")
    if not isinstance(one, str) or not isinstance(other, str) or not one or not other:
        return is_.NO_QUERY, None
    return _at_least(_folded(one), _folded(other), threshold, is_.OTHER_QUERY)


def _finish(expected: Arguments, actual: Arguments, threshold: float) -> Finding:
    reason, said = expected.get("reason"), actual.get("reason")
    if not isinstance(reason, str) or not isinstance(said, str) or not reason or not said:
        return is_.NO_REASON, None
    paths, written = _paths(expected.get("paths")), _paths(actual.get("paths"))
    if not paths or not written:
        return is_.NO_PATHS, None
    if paths != written:
        return is_.OTHER_PATHS, None
    return _at_least(_folded(said), _folded(reason), threshold, is_.OTHER_REASON)  # difflib is not symmetric


def _paths(value: Any) -> list[str] | None:
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        return None
    return sorted(path.strip() for path in value)


_CMD = similar("cmd", is_.NO_CMD, is_.OTHER_CMD, _unified)

RULES: dict[str, dict[str, Rule]] = {
    "codex": {"exec_command": _CMD, "update_plan": _plan},
    "agent006": {
        "execute_python": similar("code", is_.OTHER_VALUE, is_.OTHER_CODE, str, blank=False),
        "return_result": _result,
    },
    "opencode": {
        "bash": similar("command", is_.NO_COMMAND, is_.OTHER_COMMAND, _unified),
        "todowrite": _todos,
        "read": equal("filePath"),
        "write": equal("filePath"),
        "edit": _edit,
        "glob": equal("pattern", "path"),
        "grep": equal("pattern", "path", "include"),
        "webfetch": equal("url", "format"),
        "skill": equal("name"),
        "task": equal("subagent_type"),
    },
    "stirrup": {"code_exec": _CMD, "web_search": _query, "fetch_web_page": _page, "finish": _finish},
}
"""By harness and tool. Calls of other tools agree in their names and the arguments' names alone."""
