"""Comparison of a coding agent's call with the expert's, level by level: pure functions that a worker can run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from gym_llm.envs.swe_pivot.tool_kinds import tool_kind
from gym_llm.grading.call_matching import NOT_JSON, parse_arguments
from gym_llm.grading.text_metrics import ratio

Arguments: TypeAlias = Mapping[str, Any]

_COMPARED = 2_000  # characters at a text's beginning, and at its end
_LEAST_BASH_SIMILARITY = 0.3
_LEAST_VIEW_OVERLAP = 0.8
_TO_THE_END = 1_000_000_000  # what a view range's -1 stands for
_LARGE_EDIT = 500  # characters that cost the whole penalty
_PATH_NAMES = ("path", "file", "file_path", "filename", "file_name")
_COMMAND_NAMES = ("command", "cmd")
_LOOKED_FOR = {"edit": (), "bash": _COMMAND_NAMES, "search": _PATH_NAMES, "read": _PATH_NAMES}
_PATH = re.compile(r"(?<![^\s='\"(])(?:\.{0,2}/|[\w.-]+/)[\w./-]+")


class Settings(NamedTuple):
    """Which levels there are, and what they are worth."""

    reward_mode: str
    enable_target_match: bool
    enable_argument_similarity: bool
    similarity_threshold: float
    similarity_full_credit: float
    enable_diff_size_shaping: bool
    diff_size_alpha: float
    as_nemo_gym: bool


class Grade(NamedTuple):
    """The reward of a call, and how far it came."""

    reward: float
    failure: str
    name_matches: bool = False
    target_matches: bool | None = None
    similarity: float | None = None
    penalty: float | None = None
    model_output: str = ""


def read_object(arguments: Any, *, as_python: bool = False) -> dict[str, Any]:
    """A call's arguments, written as JSON or not; anything else than an object is an empty one."""
    value = parse_arguments(arguments, as_python=as_python) if isinstance(arguments, str) else arguments
    return value if isinstance(value, dict) else {}


def grade(argument: tuple[tuple[str, Any], tuple[str, str], Settings]) -> Grade:
    """Grade a call: (the expected name and arguments, the model's, the settings)."""
    (name, wanted), (actual_name, written), settings = argument
    try:
        arguments = read_object(written, as_python=settings.as_nemo_gym)
        graded = _grade((name, read_object(wanted)), (actual_name, arguments), settings)
        if settings.as_nemo_gym and graded.name_matches and _fails_in_nemo_gym(actual_name, written):
            graded = Grade(0.0, "unknown_error", True)
        return graded._replace(model_output=f"{actual_name}({json.dumps(arguments)[:500]})")
    except OverflowError:  # a view of infinite lines, for NeMo Gym
        return Grade(0.0, "unknown_error", True, model_output=f"{actual_name}({written[:500]})")
    except RecursionError:  # no editor's or shell's call nests so deeply
        return Grade(0.0, "unknown_error", model_output=f"{actual_name}({written[:500]})")


def _fails_in_nemo_gym(name: str, written: str) -> bool:
    """Whether NeMo Gym looks for names in these arguments, which are JSON but not an object, and fails."""
    value, kind = parse_arguments(written, as_python=True), tool_kind(name)
    if value is NOT_JSON or isinstance(value, dict) or kind not in _LOOKED_FOR:
        return False
    return not isinstance(value, str | list) or kind == "edit" or any(each in value for each in _LOOKED_FOR[kind])


def _grade(expected: tuple[str, Arguments], actual: tuple[str, Arguments], settings: Settings) -> Grade:
    kinds = tool_kind(expected[0]), tool_kind(actual[0])
    same_kind = kinds[0] is not None and kinds[0] == kinds[1]
    if expected[0].lower() != actual[0].lower() and not same_kind:
        return Grade(0.0, "tool_name_mismatch")
    target = None
    if settings.enable_target_match:
        target = _has_target(kinds, expected[1], actual[1], settings.as_nemo_gym)
        if not target:
            return Grade(0.0, "target_mismatch", True, False)
    reward, similarity = 1.0, None
    if settings.enable_argument_similarity:
        similarity = _similarity(kinds[0] if same_kind else None, expected[1], actual[1], settings.as_nemo_gym)
        reward = _credit(similarity, settings)
        if not reward:
            return Grade(0.0, "similarity_below_threshold", True, target, similarity)
    penalty = None
    if settings.enable_diff_size_shaping and settings.reward_mode == "continuous":
        size = len(_edit_text(actual[1])) if kinds[1] == "edit" else 0
        penalty = settings.diff_size_alpha * min(size / _LARGE_EDIT, 1.0)
        reward *= 1.0 - penalty
    return Grade(reward, "none", True, target, similarity, penalty)


def _credit(similarity: float, settings: Settings) -> float:
    least, full = settings.similarity_threshold, settings.similarity_full_credit
    if similarity >= full:
        return 1.0
    if settings.reward_mode == "binary" or similarity < least:
        return 0.0
    return 0.5 + 0.5 * (similarity - least) / (full - least)


def _has_target(
    kinds: tuple[str | None, str | None], expected: Arguments, actual: Arguments, as_nemo_gym: bool
) -> bool:
    """Whether a call is about the same file, command or place."""
    if kinds == ("edit", "edit"):
        return _edits_same_place(expected, actual, as_nemo_gym)
    if kinds == ("bash", "bash"):
        return _runs_same_command(_command(expected), _command(actual), as_nemo_gym)
    if {*kinds} <= {"search", "read"}:
        if not as_nemo_gym and expected and not any(isinstance(value, str) and value for value in actual.values()):
            return False  # nothing is looked for
        paths = _path(expected), _path(actual)
        return not all(paths) or _end(paths[0], 3) == _end(paths[1], 3)
    return True


def _edits_same_place(expected: Arguments, actual: Arguments, as_nemo_gym: bool) -> bool:
    commands = str(expected.get("command", "")), str(actual.get("command", ""))
    if commands[0] != commands[1]:
        return False
    paths = _path(expected), _path(actual)
    if all(paths) and _end(paths[0], 2) != _end(paths[1], 2):
        return False
    if paths[0] and not paths[1] and not as_nemo_gym and not actual.keys() & {"patch", "diff"}:
        return False
    if commands != ("view", "view"):
        return True
    wanted, seen = (_view_range(each.get("view_range"), as_nemo_gym) for each in (expected, actual))
    if wanted is None or seen is None:
        return True
    if not as_nemo_gym:
        wanted, seen = _to_the_end(wanted), _to_the_end(seen)
        if wanted == seen:
            return True
    overlap = max(0, min(wanted[1], seen[1]) - max(wanted[0], seen[0]))
    return overlap / max(1, wanted[1] - wanted[0]) >= _LEAST_VIEW_OVERLAP


def _runs_same_command(expected: str, actual: str, as_nemo_gym: bool) -> bool:
    if not expected or not actual:
        return expected == actual
    if _verb(expected) != _verb(actual):
        return False
    places = [{_end(path, 3) for path in _PATH.findall(command) if _is_path(path)} for command in (expected, actual)]
    if all(places) and not places[0] & places[1]:
        return False
    return _alike(expected, actual, as_nemo_gym) >= _LEAST_BASH_SIMILARITY


def _similarity(kind: str | None, expected: Arguments, actual: Arguments, as_nemo_gym: bool) -> float:
    if kind == "bash":
        commands = _command(expected), _command(actual)
        return _alike(*commands, as_nemo_gym)
    if kind != "edit":
        return 1.0
    wanted = [str(expected.get(name, "")) for name in ("old_str", "new_str")]
    written = [str(actual.get(name, "")) for name in ("old_str", "new_str")]
    if any(wanted) and any(written):
        return min(_alike(*pair, as_nemo_gym) for pair in zip(wanted, written, strict=True))
    return _alike(_edit_text(expected), _edit_text(actual), as_nemo_gym)


def _alike(expected: str, actual: str, as_nemo_gym: bool) -> float:
    """Difflib's ratio of the texts' beginnings, and of their ends if they are long; 0 if only one is empty."""
    if expected == actual:
        return 1.0
    if not expected or not actual:
        return 0.0
    beginning = _ratio(actual[:_COMPARED], expected[:_COMPARED])
    if as_nemo_gym or max(len(expected), len(actual)) <= _COMPARED:
        return beginning
    return min(beginning, _ratio(actual[-_COMPARED:], expected[-_COMPARED:]))


@lru_cache(maxsize=16)
def _ratio(actual: str, expected: str) -> float:
    """For one call it is asked twice: for the target, and for the similarity."""
    return ratio((actual, expected))


def _edit_text(arguments: Arguments) -> str:
    """What an edit writes, in any of the forms that editors have."""
    if "new_str" in arguments:
        return f"{arguments.get('old_str', '')}\n{arguments['new_str']}"
    for name in ("patch", "diff", "content", "file_text"):
        if name in arguments:
            return str(arguments[name])
    return ""


def _path(arguments: Arguments) -> str:
    return next((str(arguments[name]).strip() for name in _PATH_NAMES if name in arguments), "")


def _command(arguments: Arguments) -> str:
    return next((str(arguments[name]).strip() for name in _COMMAND_NAMES if name in arguments), "")


def _verb(command: str) -> str:
    return command.split(None, 1)[0].rpartition("/")[2]


def _is_path(path: str) -> bool:
    return not path.startswith("--") and len(path) > 2 and bool(path.strip("/"))


def _end(path: str, parts: int) -> str:
    return "/".join(path.strip("/").rsplit("/", parts)[-parts:])


def _view_range(value: Any, as_nemo_gym: bool) -> tuple[int, int] | None:
    value = parse_arguments(value, as_python=as_nemo_gym) if isinstance(value, str) else value
    if not isinstance(value, list) or len(value) != 2:
        return None
    try:
        return int(value[0]), int(value[1])
    except (TypeError, ValueError):
        return None
    except OverflowError:
        if as_nemo_gym:
            raise
        return None


def _to_the_end(lines: tuple[int, int]) -> tuple[int, int]:
    return (lines[0], _TO_THE_END) if lines[1] == -1 else lines
