"""Replaying episodes that NeMo Gym's servers scored, to compare rewards and details with our verifiers.

A vector is one recorded episode. Its fields are `source` ("mcqa/2"), the row (`task`), the items (`output`) and
`reward`. It may have details (`info`) and the judge's replies (`judge`). `check` is the origin of the reward.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from gym_llm.core.registry.classes import env_class, known_arguments
from gym_llm.core.registry.ids import verifier_folder
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.files.reading import read_objects
from gym_llm.data.prepare.validation import row_kind
from gym_llm.engines.replay import is_environments, recorded_turns
from gym_llm.errors import DataError, JudgeError, UsageError
from gym_llm.records.failures import reason
from gym_llm.rollouts.config.nemo_gym import env_of_server
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.sandbox.python_tool import PythonSessionEnv
from gym_llm.types import Item, Row
from gym_llm.utils.text import excerpt

TRUSTED = frozenset({"reproduced", "derived", "judge"})
"""The kinds of `check` whose rewards must come out again."""

_NEEDED = {"source", "task", "output", "reward"}
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "source": (str, "a text"),
    "task": (dict, "an object"),
    "reward": ((int, float), "a number"),
    "check": (str, "a text"),
    "info": (dict, "an object"),
    "options": (dict, "an object"),
    "judge": (list, "a list"),
    "recorded_input": (list, "a list"),
}
"""The types of a vector's fields, in Python and in words; an `output` that is not a list of items is skipped."""

_PROMPTS = frozenset({"judge_prompt", "judge_responses_create_params", "judge_response", "judge_evaluations"})
_CLOCKED = ("_time", " time", "_time_s", "_time_taken", "_seconds")
_CLOSE = 1e-9
_OF_THE_WEB = frozenset({"search", "browse", "web_search", "find_in_page", "scroll_page"})
"""Tools that ask the internet: nobody answers the same again."""
_NOT_DETAILS = frozenset({"terminated", "truncated", "info"})
"""Fields of a game's step that Gymnasium returns beside the info; a verifier does not report them."""


class Disagreement(NamedTuple):
    """A difference between a recorded and a replayed episode."""

    source: str
    field: str
    expected: Any
    got: Any


@dataclass
class Replayed:
    """The result of replaying one vector.

    Attributes:
        source: Its name.
        server: NeMo Gym's name of the verifier.
        skipped: Why it was not tried; None if it was.
        disagreements: What came out differently; none: all agreed.
        missing: Reported fields that our verifier does not report.
    """

    source: str
    server: str
    skipped: str | None = None
    disagreements: list[Disagreement] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def replay_file(path: str | os.PathLike[str], **options: Any) -> Iterator[Replayed]:
    """Replay the vectors of a file; `options` are those of `replay_vector`.

    Raises:
        DataError: If the file cannot be read, has no vectors, or has an invalid line.
        UsageError: If an environment cannot be made with its arguments.
    """
    empty = True
    for number, vector in read_objects(os.fspath(path)):
        if wrong := _what_is_wrong(vector):
            raise DataError(f"{path}, line {number}: {wrong}.")
        empty = False
        yield replay_vector(vector, **options)
    if empty:
        raise DataError(f"{path} has no vectors.")


def replay_vector(
    vector: dict[str, Any], *, all_checks: bool = False, env_kwargs: dict[str, Any] | None = None
) -> Replayed:
    """Play a recorded episode's model turns, and compare what the environment says, pays and reports.

    Args:
        vector: One line of a file of vectors. Its `judge` texts, or those that `info` has, are given again; `options`
            are arguments of the environment.
        all_checks: Whether one that need not come out again is tried, too.
        env_kwargs: Further arguments of the environment.

    Raises:
        UsageError: If the environment cannot be made with these arguments.
    """
    source, server = vector["source"], vector["source"].partition("/")[0]
    replayed = Replayed(source, server)
    env_id = env_of_server(server)
    output = vector["output"]
    calls_only = bool(vector.get("row_missing")) and not all_checks
    if env_id is None:
        replayed.skipped = "no environment has this server's name"
    elif not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        replayed.skipped = "its output is no list of items"
    elif calls_only and (vector.get("check") != "not recomputed" or not _outputs(output)):
        replayed.skipped = "its row is missing"
    elif not (calls_only or all_checks or vector.get("check") in TRUSTED):
        check = vector.get("check")
        replayed.skipped = "it has no check, such as 'reproduced'" if check is None else f"its check is {check!r}"
    if replayed.skipped is not None or env_id is None:
        return replayed
    with tempfile.TemporaryDirectory(prefix="gym-llm-conform-") as folder:
        texts = judge_texts(vector)
        try:
            kwargs = {**_arguments(env_class(env_id), vector, texts, Path(folder)), **(env_kwargs or {})}
            env: Any = EnvFactory(env_id, env_kwargs=kwargs).make()
        except gym.error.DependencyNotInstalled as error:
            replayed.skipped = str(error)
            return replayed
        except (gym.error.Error, TypeError, ValueError) as error:
            raise UsageError(f"{source}: {error}") from None
        with closing(env):
            try:
                _play(env.unwrapped, vector, calls_only, replayed)
            except JudgeError as error:
                if texts:
                    replayed.disagreements.append(Disagreement(source, "judge", f"{len(texts)} texts", str(error)))
                else:
                    replayed.skipped = "what its judge said was not recorded"
            except Exception as error:  # whatever a hook raises is one vector's failure
                replayed.disagreements.append(Disagreement(source, "episode", "a verdict", reason(error)))
    return replayed


def check_rows(path: str | os.PathLike[str]) -> Iterator[Replayed]:
    """Prepare each row of a server's file, `SERVER/data/NAME.jsonl`, as a rollout would; none is played.

    Raises:
        DataError: If the file cannot be read, or has no rows.
    """
    server = Path(path).resolve().parent.parent.name
    env_id = env_of_server(server)
    kind: Any = None
    skipped = None if env_id else "no environment has this server's name"
    if env_id is not None:
        try:
            kind = row_kind(env_class(env_id), {})
        except (gym.error.DependencyNotInstalled, DataError) as error:
            skipped = str(error)
    number = -1
    for number, (_, row) in enumerate(read_objects(os.fspath(path))):
        replayed = Replayed(f"{server}/{Path(path).name}#{number}", server, skipped)
        if skipped is None:
            try:
                kind.prepare(row)
            except DataError as error:
                replayed.disagreements.append(Disagreement(replayed.source, "row", "a task", str(error)))
        yield replayed
    if number < 0:
        raise DataError(f"{path} has no rows.")


def _what_is_wrong(vector: dict[str, Any]) -> str:
    """Return why an object is not a vector; "" if it is one."""
    if not _NEEDED.issubset(vector):
        return "a vector has `source`, `task`, `output` and `reward`"
    for name, (kinds, words) in _KINDS.items():
        value = vector.get(name)
        if not isinstance(value, kinds) and (name in _NEEDED or value is not None):
            return f"the `{name}` of a vector is {words}, not {excerpt(value, 60)}"
    if not all(isinstance(call, dict) and isinstance(call.get("text"), str) for call in vector.get("judge") or ()):
        return "the `judge` of a vector is a list of objects with the `text` that it said"
    if not all(isinstance(item, dict) for item in vector.get("recorded_input") or ()):
        return "the `recorded_input` of a vector is a list of items"
    return ""


def judge_texts(vector: dict[str, Any]) -> list[str]:
    """Return the judge's answers, call by call: recorded as `judge`, or among the reported fields."""
    if recorded := vector.get("judge"):
        return [call["text"] for call in recorded]
    info = vector.get("info") or {}
    if isinstance(response := info.get("judge_response"), dict):
        return [_last_text(response)]
    if evaluations := _objects(info.get("judge_evaluations")):
        return [_last_text(call.get("response")) for call in evaluations]
    if rubric := _objects(info.get("rubric_evaluations")):
        return [criterion["judge_response"] for criterion in rubric if isinstance(criterion.get("judge_response"), str)]
    names = ("judge_output", "judge_raw", "judgement_gen_base", "judgement_base_gen")
    return [info[name] for name in names if isinstance(info.get(name), str)]


def _last_text(response: Any) -> str:
    items = _objects(response.get("output")) if isinstance(response, dict) else []
    parts = [part for item in items for part in _objects(item.get("content"))]
    return next((part["text"] for part in reversed(parts) if isinstance(part.get("text"), str)), "")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _arguments(cls: type[VerifierEnv], vector: dict[str, Any], texts: list[str], folder: Path) -> dict[str, Any]:
    """The environment's arguments: to do as NeMo Gym does, with the recorded judge."""
    parameters = known_arguments(cls)
    turns = len(recorded_turns({"output": vector["output"]}))
    kwargs: dict[str, Any] = {"max_turns": max(turns + 1, cls.default_max_turns)}
    if "conform" in parameters:
        kwargs["conform"] = "nemo"
    if "judge" in parameters:
        path = folder / "judge.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
        kwargs["judge"] = f"replay:{path}"
    if "should_use_judge" in parameters:
        kwargs["should_use_judge"] = bool(texts)
    if "check_twice_swap" in parameters and texts and (len(texts) > 1 or vector["reward"] == 1.0):
        kwargs["check_twice_swap"] = len(texts) > 1  # one no ends both ways of asking
    if "check_full_generation_on_fail" in parameters and texts:
        kwargs["check_full_generation_on_fail"] = len(texts) > 1  # NeMo Gym's class does it, what it ships does not
    return kwargs | {name: value for name, value in (vector.get("options") or {}).items() if name in parameters}


def _play(env: VerifierEnv, vector: dict[str, Any], calls_only: bool, replayed: Replayed) -> None:
    """Play all that was recorded, and note what differs."""
    recorded: list[Item] = vector["output"]
    task = _with_example(env, vector["task"]) if calls_only else vector["task"]
    observation, info = env.reset(options={"task": task})
    asked = len(observation["input"])
    if expected := vector.get("recorded_input"):
        _compare(replayed, "opening", [_said(item) for item in expected], [_said(i) for i in observation["input"]])
    ends: dict[str, Any] = {"status": "completed", "usage": vector.get("usage")}
    if vector.get("incomplete") or (vector.get("info") or {}).get("thinking_incomplete"):
        ends |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    turns = recorded_turns({"output": recorded, "status": ends["status"]})
    reward, over, position = 0.0, False, 0
    if isinstance(env.playing, PythonSessionEnv):  # what the code printed is in the record; it is not run again
        reward, info = _score_whole(env, vector, ends)
        turns, over = [], True
    for number, items in enumerate(turns, 1):
        if over:  # calls that are graded and not run: what NeMo Gym's agent went on with is graded with them
            reward, info = _score_whole(env, vector, ends)
            break
        observation, step_reward, terminated, truncated, info = env.step(
            {"output": items, **(ends if number == len(turns) else {})}
        )
        reward += step_reward
        over = terminated or truncated
        start = position = position + len(items)
        while position < len(recorded) and is_environments(recorded[position]):
            position += 1
        if not over or (position == len(recorded) and env.playing.executes_tools):
            _compare_answers(env, replayed, recorded[start:position], observation["input"][asked + start :])
    if calls_only:
        return
    if not over:
        info = {"task_index": -1, "turn": len(turns)}
        reward += env.playing.score_truncated(info)
    library = vector.get("library_reward")
    asks_no_judge = library is not None and "judge" not in known_arguments(type(env))
    _compare(replayed, "reward", library if asks_no_judge else vector["reward"], reward)
    _compare_details(replayed, vector.get("info") or {}, info)


def _score_whole(env: VerifierEnv, vector: dict[str, Any], ends: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Have `verify` score all recorded items as one answer."""
    env.reset(options={"task": vector["task"]})
    episode: Any = env.playing.episode
    episode.items.extend(vector["output"])
    episode.turn = 1
    if env.playing.executes_tools:
        answered = [number for number, item in enumerate(episode.items, 1) if is_environments(item)]
        episode.turn_start = answered[-1] if answered else 0
    episode.last_response = {"output": vector["output"], **ends}
    info: dict[str, Any] = {}
    return env.playing.score_truncated(info), info


def _with_example(env: VerifierEnv, task: Row) -> Row:
    folder = verifier_folder(env.env_id)
    rows = read_objects(str(folder / "data" / "example.jsonl")) if folder else iter(())
    return {**next((row for _, row in rows), {}), "responses_create_params": task["responses_create_params"]}


def _compare_answers(env: VerifierEnv, replayed: Replayed, recorded: list[Item], said: list[Item]) -> None:
    """Compare what the environment answered: outputs of tools it has as parsed JSON, messages by their texts."""
    names = {call["call_id"]: call.get("name") for call in env.episode.function_calls()} if env.episode else {}
    tools = {schema["name"] for schema in env.tool_schemas()} - _OF_THE_WEB
    for number, item in enumerate(recorded):
        answer = said[number] if number < len(said) else {}
        if item.get("type") != "function_call_output":
            _compare(replayed, "respond", _said(item), _said(answer))
        elif (name := names.get(item["call_id"])) in tools:
            _compare(replayed, f"output of {name}", _parsed(item["output"]), _parsed(answer.get("output")), whole=True)


def _compare_details(replayed: Replayed, expected: dict[str, Any], got: dict[str, Any]) -> None:
    for name, value in expected.items():
        if name in _PROMPTS | _NOT_DETAILS or name.endswith(_CLOCKED):
            continue
        if name not in got:
            if value is not None:
                replayed.missing.append(name)
        else:
            _compare(replayed, name, value, got[name])


def _compare(replayed: Replayed, name: str, expected: Any, got: Any, *, whole: bool = False) -> None:
    if not _same(expected, got, whole):
        replayed.disagreements.append(Disagreement(replayed.source, name, expected, got))


def _same(expected: Any, got: Any, whole: bool = False) -> bool:
    """Whether JSON values are equal: numbers nearly, objects as a `whole` or in the members that both have."""
    if isinstance(expected, dict) and isinstance(got, dict):
        told = {name for name in expected if whole or not (name in _PROMPTS or name.endswith(_CLOCKED))}
        names = told & got.keys()
        if (whole and expected.keys() != got.keys()) or (told and not names):
            return False
        return all(_same(expected[name], got[name], whole) for name in names)
    if isinstance(expected, list) and isinstance(got, list | tuple):
        return len(expected) == len(got) and all(_same(*pair, whole) for pair in zip(expected, got, strict=True))
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return math.isclose(expected, got, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(expected == got)


def _outputs(items: list[Item]) -> list[Item]:
    return [item for item in items if item.get("type") == "function_call_output"]


def _said(item: Item) -> tuple[str, str]:
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return str(item.get("role")), "".join(str(part.get("text")) for part in parts)


def _parsed(output: Any) -> Any:
    try:
        return json.loads(output)
    except (TypeError, ValueError, RecursionError):
        return output
